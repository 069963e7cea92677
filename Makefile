# Every command sets itself up: a virtual environment in .venv, nothing global.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last, so that an interrupted installation is done again.
READY := $(VENV)/.ready
TORCH := .venvs/torch
RAY := .venvs/ray
WEAVE := .venvs/weave
WEAVE_SERVER := .venvs/weave-server
VERL := .venvs/verl

.DEFAULT_GOAL := help
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
	$(BIN)/python -m benchmarks.store
	$(BIN)/python -m benchmarks.query
	$(BIN)/python -m benchmarks.checks

bench-verl: $(VERL)/.ready ## the same rollouts of verl with each tracing backend: wall time and event-loop lag
	$(VERL)/bin/python -m pip install --quiet mlflow-skinny sqlalchemy alembic trackio
	$(VERL)/bin/python -m benchmarks.verl_cost

gen: $(READY) ## write the docs that are derived from code
	$(BIN)/python tools/gen_docs.py

# The real frameworks, each in an environment of its own.
test-integrations: $(TORCH)/.ready $(RAY)/.ready $(WEAVE)/.ready $(WEAVE_SERVER)/.ready $(VERL)/.ready ## test with the real torch, Ray, Weave and verl (slow, large downloads)
	$(TORCH)/bin/python -m pytest tests/integrations/torch
	$(RAY)/bin/python -m pytest tests/integrations/ray
	$(WEAVE)/bin/python -m pytest tests/integrations/weave
	$(VERL)/bin/python -m pytest tests/integrations/verl

# This very version has a CPU build; a newer one would bring several GB of CUDA packages.
$(TORCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(TORCH)/bin/python -m pip install --quiet torch==2.13.0
	$(TORCH)/bin/python -m pip install --quiet --editable . --group test
	@touch $@

$(RAY)/.ready: pyproject.toml
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(RAY)/bin/python -m pip install --quiet "ray>=2.40" --editable . --group test
	@touch $@

# rolltrace needs nothing of Weave's; the tests read back with its client.
$(WEAVE)/.ready: pyproject.toml
	$(PYTHON) -m venv $(WEAVE)
	$(WEAVE)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(WEAVE)/bin/python -m pip install --quiet weave==0.54.0 --editable . --group test
	@touch $@

# The last release that has the server in it, and what the server needs besides.
$(WEAVE_SERVER)/.ready: Makefile
	$(PYTHON) -m venv $(WEAVE_SERVER)
	$(WEAVE_SERVER)/bin/python -m pip install --quiet weave==0.52.42 \
	  clickhouse-connect emoji fastapi numpy python-multipart redis sqlparse uvicorn
	@touch $@

# What verl's agent loops need on a CPU, without its engines; the versions that it was tested with.
$(VERL)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VERL)/bin/python -m pip install --quiet torch==2.13.0
	$(VERL)/bin/python -m pip install --quiet ray==2.60.0 tensordict==0.10.0 transformers==5.10.4 TransferQueue==0.1.11 \
	  cachetools codetiming datasets fastapi hydra-core omegaconf packaging peft pillow pydantic torchdata uvicorn
	$(VERL)/bin/python -m pip install --quiet --no-deps verl==0.9.1
	$(VERL)/bin/python -m pip install --quiet --editable . --group test
	@touch $@

build: $(READY) ## build the wheel and the source archive
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build

clean: ## remove the environments and caches
	rm -rf $(VENV) .venvs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
