# Every command sets itself up: a virtual environment in .venv, nothing global.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last, so that an interrupted installation is done again.
READY := $(VENV)/.ready
TORCH := .venvs/torch
RAY := .venvs/ray
OTLP := .venvs/otlp
PHOENIX := .venvs/phoenix
TRACKIO := .venvs/trackio

.DEFAULT_GOAL := help
.PHONY: help demo test check bench gen test-integrations build clean

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
	$(BIN)/python -m benchmarks.backends

gen: $(READY) ## write the docs that are derived from code
	$(BIN)/python tools/gen_docs.py

# The real frameworks, each in an environment of its own.
test-integrations: $(TORCH)/.ready $(RAY)/.ready ## test with the real frameworks and vendors (slow, large downloads)
test-integrations: $(OTLP)/.ready $(PHOENIX)/.ready $(TRACKIO)/.ready
	$(TORCH)/bin/python -m pytest tests/integrations/torch
	$(RAY)/bin/python -m pytest tests/integrations/ray
	$(OTLP)/bin/python -m pytest tests/integrations/otlp
	$(TRACKIO)/bin/python -m pytest tests/integrations/trackio

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

# Two receivers that cannot share an environment: MLflow's own endpoint, and Phoenix, which is only run.
$(OTLP)/.ready: pyproject.toml
	$(PYTHON) -m venv $(OTLP)
	$(OTLP)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(OTLP)/bin/python -m pip install --quiet mlflow==3.17.2 opentelemetry-proto --editable .[otlp] --group test
	@touch $@

$(PHOENIX)/.ready: Makefile
	$(PYTHON) -m venv $(PHOENIX)
	$(PHOENIX)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(PHOENIX)/bin/python -m pip install --quiet arize-phoenix==20.26.1
	@touch $@

$(TRACKIO)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TRACKIO)
	$(TRACKIO)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(TRACKIO)/bin/python -m pip install --quiet trackio==0.43.0 --editable .[trackio] --group test
	@touch $@

build: $(READY) ## build the wheel and the source archive
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build

clean: ## remove the environments and caches
	rm -rf $(VENV) .venvs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
