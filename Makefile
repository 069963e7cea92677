# Every command sets itself up: a virtual environment in .venv, nothing global.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last, so that an interrupted installation is done again.
READY := $(VENV)/.ready
NODE_READY := viewer/node_modules/.ready
# With the real frameworks and vendors, each in an environment of its own.
VERL_RELEASES := 0.7.1 0.8.0 0.9.0
TRL_RELEASES := 1.5.0 1.10.0
WITH_OLDER_TRL := modes tools ranks import
# Each of these has an environment and a suite of the same name.
SUITES := trackio tinker weave mlflow trl verifiers importers collect jupyter agents bucket
# Environments without a suite of their own, which CI does not need.
BESIDE := duckdb-delta langfuse
# These take many minutes, and are run by `make nightly`.
LONG_SUITES := engines $(TRL_RELEASES:%=trl-%)
ENVIRONMENTS := verl $(SUITES) $(VERL_RELEASES:%=verl-%) weave-server phoenix claude-code codex harbor
PEERS := mlflow trackio weave weave-server langfuse
WITH_VERL := torch ray verl $(VERL_RELEASES:%=verl-%)
WITH_VENDORS := $(SUITES) otlp openai-3
MATRIX ?= 3.10 3.12 3.13 oldest
# What the viewer is measured with: benchmarks/view.py says how large it can be.
VIEWED ?= --quick
# The tests start hundreds of processes: without their compiled modules each would take twice as long to start.
unexport PYTHONDONTWRITEBYTECODE
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
  || { echo "rolltrace needs Python 3.10 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
# Longer than elsewhere: servers and Ray start slowly where several do at once.
TIMEOUT := --timeout 300

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo engines viewer test test-viewer test-matrix nightly check check-viewer bench bench-peers bench-verl bench-tinker bench-hosts bench-view screenshots docs test-docs examples test-examples cookbook gen test-integrations environments build release-check clean \
  $(ENVIRONMENTS:%=environment-%) $(LONG_SUITES:%=environment-%) $(BESIDE:%=environment-%)

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev --group bench
	@touch $@

demo: .venvs/demo/.ready ## train a small agent, traced, and look at it
	.venvs/demo/bin/rolltrace demo

# Only what the demo needs: the tests bring much more.
.venvs/demo/.ready: pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv .venvs/demo
	.venvs/demo/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# What failed is tried once more, since some tests race with processes that they start; the summary names what was.
TRY_AGAIN = --reruns 1 -rfER

# A plug-in that only the browser tests use takes each worker a second to load.
WITHOUT_PLUGINS = -p no:schemathesis

# Stores that live for a second need no disk; where memory is scarce, or its folder small, they are on one.
TEST_FOLDER = $(shell test "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 8000000 2>/dev/null && echo /dev/shm || echo $${TMPDIR:-/tmp})

IN_TEST_FOLDER = @folder=$$(mktemp -d $(TEST_FOLDER)/rolltrace-test.XXXXXX) && trap 'rm -rf "$$folder"' EXIT INT TERM && PYTEST_DEBUG_TEMPROOT=$$folder

test: $(READY) ## run the tests (a few minutes)
	$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n auto --dist worksteal $(WITHOUT_PLUGINS) $(TRY_AGAIN)

test-matrix: ## run the tests on other Pythons and with the oldest dependencies (each takes as long as `make test`)
	$(IN_TEST_FOLDER) $(PYTHON) tools/matrix.py $(MATRIX)

nightly: export ROLLTRACE_NIGHTLY = 1
nightly: $(READY) $(LONG_SUITES:%=test-with-%) ## the same with long series: more kills, more examples, more engines (hours)
	$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n auto --dist worksteal --timeout 3600
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest -n auto --timeout 3600 tests/browser/test_api_fuzz.py

check: $(READY) check-viewer ## formatting, lint, types, layers, spelling, and the same for the viewer
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs benchmarks examples README.md CONTRIBUTING.md CHANGELOG.md

# What is committed under view/static and view/shared_page must be what the source builds, so that an installation needs no Node.
check-viewer: $(NODE_READY)
	cd viewer && npm run --silent types -- --check
	cd viewer && npm run --silent check
	cd viewer && VIEWER_OUT=build/static npm run --silent build -- --logLevel warn
	cd viewer && SHARED_OUT=build/shared npm run --silent build-shared -- --logLevel warn
	diff -r viewer/build/static src/rolltrace/view/static || { echo "run: make viewer"; exit 1; }
	diff -r viewer/build/shared src/rolltrace/view/shared_page || { echo "run: make viewer"; exit 1; }

$(NODE_READY): viewer/package.json viewer/package-lock.json
	@node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' || { echo "the viewer is built with Node 20 or newer"; exit 1; }
	@# Not npm ci, which refuses a lock file without the binaries of platforms that a registry does not have.
	cd viewer && npm install --no-save --loglevel=error
	@touch $@

viewer: $(NODE_READY) ## build the viewer's pages into the package
	cd viewer && npm run --silent build -- --logLevel warn
	cd viewer && npm run --silent build-shared -- --logLevel warn

test-viewer: $(READY) $(NODE_READY) .venvs/chromium ## test the viewer in a real browser
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest -n 2 --dist worksteal $(TRY_AGAIN) tests/browser

bench: $(READY) ## measure, with the peers in the same run
	$(BIN)/python -m benchmarks.hot_path
	$(BIN)/python -m benchmarks.loop_lag
	$(BIN)/python -m benchmarks.hostile
	$(BIN)/python -m benchmarks.store
	$(BIN)/python -m benchmarks.drain
	$(BIN)/python -m benchmarks.query
	$(BIN)/python -m benchmarks.scale --quick
	$(BIN)/python -m benchmarks.freshness --quick
	$(BIN)/python -m benchmarks.checks
	$(BIN)/python -m benchmarks.text
	$(BIN)/python -m benchmarks.redact
	$(BIN)/python -m benchmarks.backends

# Trajectories; CHATS=file.jsonl replays your own.
TRACED ?= 16
bench-peers: $(READY) $(PEERS:%=environment-%) ## the same rollouts through rolltrace and its peers; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks.peers.report --trajectories $(TRACED) $(if $(CHATS),--chats $(CHATS))

bench-verl: environment-verl ## the same rollouts of verl with each tracing backend: wall time and event-loop lag
	.venvs/verl/bin/python -m pip install --quiet trackio
	.venvs/verl/bin/python -m benchmarks.verl_cost

bench-tinker: environment-tinker ## what recording rollouts of tinker-cookbook costs, and a deepcopy at each step for comparison
	.venvs/tinker/bin/python -m benchmarks.tinker_cost

bench-hosts: environment-bucket ## 16 hosts record into one folder and into one bucket for a minute; is every row there once?
	.venvs/bucket/bin/python -m benchmarks.hosts

bench-view: $(READY) .venvs/chromium ## what the viewer's pages take in a real browser (a minute; larger with VIEWED="--trajectories 20000 --wide 1000000 --odd 1 --readers 10")
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m benchmarks.view $(VIEWED)

screenshots: $(READY) .venvs/chromium ## take the pictures of the viewer that the docs show
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python tools/screenshots.py

docs: .venvs/docs/.ready ## build the documentation as a site, in site/ (opens from the folder, with search)
	NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --quiet
	@echo "open site/index.html"

test-docs: docs $(READY) .venvs/chromium ## run every example of the docs, and search the built site in a real browser
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest -n 2 --dist worksteal $(TRY_AGAIN) tests/site

.venvs/docs/.ready: pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv .venvs/docs
	.venvs/docs/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venvs/docs/bin/python -m pip install --quiet --group docs
	@touch $@

examples: .venvs/examples/.ready ## run the notebook in Jupyter and keep what it shows
	cd examples && ../.venvs/examples/bin/jupyter-execute --inplace find_the_hack.ipynb && rm -rf rolltrace-demo

test-examples: .venvs/examples/.ready ## run the notebook in Jupyter
	mkdir -p .venvs/examples/run && rm -rf .venvs/examples/run/rolltrace-demo && cp examples/find_the_hack.ipynb .venvs/examples/run
	cd .venvs/examples/run && ../bin/jupyter-execute find_the_hack.ipynb

.venvs/examples/.ready: pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv .venvs/examples
	.venvs/examples/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venvs/examples/bin/python -m pip install --quiet --editable . --group examples
	@touch $@

cookbook: $(READY) ## run the answers of the cookbook and write what they print
	$(BIN)/python tools/gen_cookbook.py

gen: $(READY) $(NODE_READY) ## write what is derived from code: docs, the viewer's API
	$(BIN)/python tools/gen_docs.py
	$(BIN)/python tools/gen_api.py
	$(BIN)/python tools/gen_diagrams.py
	$(BIN)/python tools/gen_openapi.py
	cd viewer && npm run --silent types

# Those with Ray are busy; those with vendors mostly wait for servers and can do so beside them.
test-integrations: environments .venvs/chromium ## test with the real frameworks and vendors (slow, large downloads)
	$(PYTHON) tools/side_by_side.py "$(WITH_VERL:%=test-with-%)" "$(WITH_VENDORS:%=test-with-%)"

environments: ## install the real frameworks and vendors, once per machine
	$(PYTHON) tools/environments.py $(ENVIRONMENTS)

$(ENVIRONMENTS:%=environment-%) $(LONG_SUITES:%=environment-%) $(BESIDE:%=environment-%): environment-%:
	$(PYTHON) tools/environments.py $*

test-with-torch test-with-ray test-with-verl: test-with-%: environment-verl
	.venvs/verl/bin/python -m pytest $(TIMEOUT) tests/integrations/$*

$(VERL_RELEASES:%=test-with-verl-%): test-with-verl-%: environment-verl environment-verl-%
	PYTHONPATH=$(CURDIR)/.venvs/verl-$* .venvs/verl/bin/python -m pytest $(TIMEOUT) tests/integrations/verl_releases

$(TRL_RELEASES:%=test-with-trl-%): test-with-trl-%: environment-trl environment-trl-%
	PYTHONPATH=$(CURDIR)/.venvs/trl-$* .venvs/trl/bin/python -m pytest $(TIMEOUT) $(WITH_OLDER_TRL:%=tests/integrations/trl/test_%.py)

$(SUITES:%=test-with-%) test-with-engines: test-with-%: environment-%
	.venvs/$*/bin/python -m pytest $(TIMEOUT) $(PYTEST_FLAGS) tests/integrations/$*
test-with-weave: environment-weave-server
test-with-bucket: PYTEST_FLAGS = -n 2 --dist worksteal
# One of the packages brings a package called `tests`, which Python would take for ours: so without our conftest.py.
test-with-importers: environment-harbor
test-with-importers: PYTEST_FLAGS = --confcutdir tests/integrations/importers
# These clients leave connections open, which pytest would find in a later test or after the last one, and fail.
test-with-weave test-with-agents test-with-openai-3: PYTEST_FLAGS = -p no:unraisableexception
test-with-mlflow test-with-jupyter: .venvs/chromium
test-with-agents: environment-claude-code environment-codex
test-with-engines: environment-duckdb-delta .venvs/java
test-with-otlp: environment-mlflow environment-phoenix
	.venvs/mlflow/bin/python -m pytest $(TIMEOUT) tests/integrations/otlp

# LiteLLM needs OpenAI 2; the tests' own environment has OpenAI 3.
test-with-openai-3: $(READY)
	$(BIN)/python -m pytest $(TIMEOUT) $(PYTEST_FLAGS) tests/integrations/agents/test_sdk.py tests/integrations/agents/test_proxy.py

engines: environment-engines environment-duckdb-delta .venvs/java ## the same twenty questions to rolltrace, DuckDB, Polars, ClickHouse and Spark, on the tables of a store; prints the table of docs/howto/engines.md
	rm -rf .venvs/engines-demo && mkdir .venvs/engines-demo
	cd .venvs/engines-demo && ../engines/bin/rolltrace demo --no-view >/dev/null
	.venvs/engines/bin/rolltrace store compact .venvs/engines-demo/rolltrace-demo >/dev/null
	.venvs/engines/bin/python -m benchmarks.engines .venvs/engines-demo/rolltrace-demo

# Spark runs on Java 17 or newer.
.venvs/java:
	@mkdir -p .venvs
	command -v java > $@ || { apt-get update -qq && apt-get install -qq -y openjdk-17-jre-headless >/dev/null && command -v java > $@; }

# Playwright drives the system's own browser.
.venvs/chromium:
	@mkdir -p .venvs
	command -v chromium > $@ || { apt-get update -qq && apt-get install -qq -y chromium >/dev/null && command -v chromium > $@; }

build: $(READY) ## build the wheel and the source archive
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build

release-check: ## build, install on every supported Python and run the demo there (RELEASE_PYTHONS="3.12" for fewer)
	$(PYTHON) tools/release_check.py $(RELEASE_PYTHONS)

clean: ## remove the environments and caches
	rm -rf $(VENV) .venvs viewer/node_modules viewer/build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
