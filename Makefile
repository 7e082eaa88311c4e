# Everything a developer runs. Each target does its own set-up: a virtual environment in .venv, from requirements.lock.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
SET_UP := .venv/.set-up
DELTA_SPARK := .build/pyspark-4.2

.PHONY: help demo test test-live soak test-delta test-fast check format bench bench-explain lock clean java maven chromium

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(SET_UP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Holdfast needs Python 3.11 or later: install it (Debian: apt-get install python3.11 python3.11-venv), or say make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "installing what the lock names (PySpark is large: this takes a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

java: ## check that a Java that can run ZooKeeper and Spark is there
	@tools/require-java

maven: ## check that Maven is there, which fetches the Kafka brokers of the tests
	@command -v mvn > /dev/null || { echo "the tests need Maven: install it (Debian: apt-get install maven)" >&2; exit 1; }

chromium: ## check that Chromium is there, which opens the page of explain in the tests
	@command -v chromium > /dev/null || { echo "the tests need Chromium: install it (Debian: apt-get install chromium)" >&2; exit 1; }

demo: java $(SET_UP) ## a real cluster on this machine, broken on purpose, in under a minute
	@$(BIN)/python examples/demo.py

test: java maven chromium $(SET_UP) ## everything but what takes real Spark drivers on a real cluster
	@$(BIN)/python -m pytest -m "not live"

test-live: java maven $(SET_UP) ## the incidents, with real Spark drivers on a real cluster: an hour
	@$(BIN)/python -m pytest -m "live and not soak"

soak: java maven $(SET_UP) ## ten minutes of traffic through Kafka while its brokers fail at random
	@$(BIN)/python -m pytest -m soak

test-delta: java $(SET_UP) ## the sink for Delta tables, with the newest Spark that Delta Lake works with
	@test -d $(DELTA_SPARK) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(DELTA_SPARK) pyspark==4.2.0
	@PYTHONPATH=$(DELTA_SPARK) $(BIN)/python -m pytest tests/sinks -k delta

test-fast: $(SET_UP) ## what needs no server, within a minute
	@$(BIN)/python -m pytest -m "not real and not slow and not live"

check: $(SET_UP) ## format, lint, strict types, import rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(SET_UP) ## format, and mend what can be mended by itself
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: java maven $(SET_UP) ## the figures, measured here and now
	@$(BIN)/python -m bench

bench-explain: java $(SET_UP) ## how fast logs are read, against lnav, Drain3 and grep: a quarter of an hour
	@command -v lnav > /dev/null || { echo "the benchmark needs lnav: install it (Debian: apt-get install lnav)" >&2; exit 1; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m bench.explain

lock: ## resolve pyproject.toml into requirements.lock (needs uv)
	@uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --extra spark --extra remote --group dev pyproject.toml -o requirements.lock

clean: ## forget the virtual environment and everything built
	rm -rf .venv .build dist .mypy_cache .ruff_cache .hypothesis
