# Every command sets itself up: a virtual environment in .venv, nothing global.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last, so that an interrupted installation is done again.
READY := $(VENV)/.ready
# The real frameworks and vendors that are tested with, each in an environment of its own, and what is installed there.
# rolltrace needs nothing of Weave's; the tests read back with its client.
PACKAGES_weave := weave==0.54.0
PACKAGES_mlflow := mlflow==3.17.2 opentelemetry-proto playwright
PACKAGES_trackio := trackio==0.43.0

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check bench bench-verl gen test-integrations build clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "rolltrace needs Python 3.10 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev --group bench
	@touch $@

demo: $(READY) ## trace a toy rollout, kill it, print what was recorded
	$(BIN)/python examples/toy_rollout.py

test: $(READY) ## run the tests (a few minutes)
	$(BIN)/python -m pytest -n auto

check: $(READY) ## formatting, lint, types, layers, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs benchmarks examples README.md CONTRIBUTING.md CHANGELOG.md

bench: $(READY) ## measure, with the peers in the same run
	$(BIN)/python -m benchmarks.hot_path
	$(BIN)/python -m benchmarks.loop_lag
	$(BIN)/python -m benchmarks.hostile
	$(BIN)/python -m benchmarks.store
	$(BIN)/python -m benchmarks.query
	$(BIN)/python -m benchmarks.checks
	$(BIN)/python -m benchmarks.text
	$(BIN)/python -m benchmarks.redact
	$(BIN)/python -m benchmarks.backends

bench-verl: .venvs/verl/.ready ## the same rollouts of verl with each tracing backend: wall time and event-loop lag
	.venvs/verl/bin/python -m pip install --quiet trackio
	.venvs/verl/bin/python -m benchmarks.verl_cost

gen: $(READY) ## write the docs that are derived from code
	$(BIN)/python tools/gen_docs.py

TESTED := verl weave mlflow trackio
# Releases of verl that are tested with besides the one in .venvs/verl.
VERL_RELEASES := 0.7.1 0.8.0 0.9.0
test-integrations: $(TESTED:%=.venvs/%/.ready) $(VERL_RELEASES:%=.venvs/verl-%/.ready) .venvs/weave-server/.ready .venvs/phoenix/.ready .venvs/chromium ## test with the real frameworks and vendors (slow, large downloads)
	.venvs/verl/bin/python -m pytest tests/integrations/torch
	.venvs/verl/bin/python -m pytest tests/integrations/ray
	.venvs/verl/bin/python -m pytest tests/integrations/verl
	set -e; for release in $(VERL_RELEASES); do \
	  PYTHONPATH=$(CURDIR)/.venvs/verl-$$release .venvs/verl/bin/python -m pytest tests/integrations/verl_releases; done
	.venvs/weave/bin/python -m pytest tests/integrations/weave
	.venvs/mlflow/bin/python -m pytest tests/integrations/mlflow
	.venvs/mlflow/bin/python -m pytest tests/integrations/otlp
	.venvs/trackio/bin/python -m pytest tests/integrations/trackio

.venvs/%/.ready: pyproject.toml
	$(PYTHON) -m venv .venvs/$*
	.venvs/$*/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venvs/$*/bin/python -m pip install --quiet $(PACKAGES_$*)
	.venvs/$*/bin/python -m pip install --quiet --editable . --group test
	@touch $@

# The last release that has the server in it, and what the server needs besides.
.venvs/weave-server/.ready: Makefile
	$(PYTHON) -m venv .venvs/weave-server
	.venvs/weave-server/bin/python -m pip install --quiet weave==0.52.42 \
	  clickhouse-connect emoji fastapi numpy python-multipart redis sqlparse uvicorn
	@touch $@

# What verl's agent loops need on a CPU, without its engines, in the versions that it was tested with; torch and Ray are
# tested with there too. This very torch has a CPU build; a newer one would bring several GB of CUDA packages.
.venvs/verl/.ready: pyproject.toml
	$(PYTHON) -m venv .venvs/verl
	.venvs/verl/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venvs/verl/bin/python -m pip install --quiet torch==2.13.0
	.venvs/verl/bin/python -m pip install --quiet ray==2.60.0 tensordict==0.10.0 transformers==5.10.4 TransferQueue==0.1.11 \
	  cachetools codetiming datasets fastapi hydra-core omegaconf packaging peft pillow pydantic torchdata uvicorn
	.venvs/verl/bin/python -m pip install --quiet --no-deps verl==0.9.1
	.venvs/verl/bin/python -m pip install --quiet mlflow-skinny==3.17.2 --editable '.[mlflow]' --group test
	@touch $@

# Only verl itself: it comes before the other release in PYTHONPATH, and all else is shared.
.venvs/verl-%/.ready: .venvs/verl/.ready
	.venvs/verl/bin/python -m pip install --quiet --no-deps --upgrade --target .venvs/verl-$* verl==$*
	@touch $@

.venvs/phoenix/.ready: Makefile
	$(PYTHON) -m venv .venvs/phoenix
	.venvs/phoenix/bin/python -m pip install --quiet arize-phoenix==20.26.1
	@touch $@

# Playwright drives the system's own browser.
.venvs/chromium:
	@mkdir -p .venvs
	command -v chromium > $@ || { apt-get update -qq && apt-get install -qq -y chromium >/dev/null && command -v chromium > $@; }

build: $(READY) ## build the wheel and the source archive
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build

clean: ## remove the environments and caches
	rm -rf $(VENV) .venvs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
