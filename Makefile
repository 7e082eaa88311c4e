# Development commands. Each target does its own set-up: a virtual environment in .venv, from requirements.lock.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
SET_UP := .venv/.set-up
# One worker more than cores: tests wait for servers much of the time. Tests of one file share their servers, so they stay on one worker.
WORKERS ?= $(shell echo $$(( $$(nproc) + 1 )))
# tests/conftest.py puts the longest files first; xdist would put the files with the most tests first.
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# The tests start thousands of Python processes: let them share compiled modules even if the environment forbids it.
unexport PYTHONDONTWRITEBYTECODE
DELTA_SPARK := .build/pyspark-4.2

.PHONY: help demo test test-live test-incidents soak chaos simulate oracle programs test-delta test-fast check format bench bench-explain lock clean java maven browser compiler network

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(SET_UP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Holdfast needs Python 3.11 or later: install it (Debian: apt-get install python3.11 python3.11-venv), or run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "installing the packages of requirements.lock (PySpark is large: this takes a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

java: ## check that Java 17 or later is installed
	@tools/require-java

maven: $(SET_UP) ## install Maven if it is missing: it fetches the Kafka brokers of the tests
	@tools/provide maven $(BIN)/python

compiler: $(SET_UP) ## install a C compiler if it is missing: it builds the library that stalls a disk
	@tools/provide compiler $(BIN)/python

network: $(SET_UP) ## install iproute2 and nftables if they are missing and this user is root: they cut networks
	@tools/provide network $(BIN)/python

browser: $(SET_UP) ## install Chromium if neither Chromium nor Chrome is found: for the browser tests
	@tools/provide browser $(BIN)/python

demo: java $(SET_UP) ## start a real cluster on this machine and break it on purpose: a minute or two
	@$(BIN)/python examples/demo.py

test: java maven browser compiler network $(SET_UP) ## run all tests except those with Spark jobs on a real cluster
	@$(BIN)/python -m pytest $(PARALLEL) -m "not live"

test-live: java maven compiler $(SET_UP) ## run the tests with Spark jobs on a real cluster: an hour
	@$(BIN)/python -m pytest -m "live and not soak"

test-incidents: java maven compiler $(SET_UP) ## play the five incidents with Spark jobs on a real cluster: ten minutes
	@$(BIN)/python -m pytest -m incident

soak: java maven compiler $(SET_UP) ## run the long tests: Kafka traffic while brokers fail, ZooKeeper away for up to 15 minutes; half an hour
	@$(BIN)/python -m pytest -m soak

chaos: java compiler network $(SET_UP) ## attack a cluster with random faults for ten minutes; HOURS=N for longer, SEED=N to repeat a run, LANE=network for others
	@$(BIN)/python -m tests.chaos $(if $(LANE),--lane $(LANE)) $(if $(HOURS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED))

simulate: $(SET_UP) ## check 10,000 simulated job schedules on all cores; SCHEDULES=N for others, FROM=N for other seeds, LEADERSHIP=1 for leadership
	@$(BIN)/python -m tests.sim.bulk --schedules $(or $(SCHEDULES),10000) $(if $(FROM),--from $(FROM)) $(if $(LEADERSHIP),--leadership)

oracle: java maven $(SET_UP) ## ask Spark about more than a thousand checkpoints, and compare with Holdfast's verdicts; CELLS='keyed/hdfs/*' for some
	@$(BIN)/python -m tests.oracle $(if $(CELLS),--cells '$(CELLS)') $(if $(OUT),--out $(OUT))

programs: java maven $(SET_UP) ## run programs like Spark's examples through faults on a cluster, and print a table: half an hour; ONLY='word_count pi' for some
	@$(BIN)/python -m tests.programs $(foreach name,$(ONLY),--only $(name))

test-delta: java $(SET_UP) ## test the Delta sink with the newest Spark that Delta Lake supports
	@test -d $(DELTA_SPARK) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(DELTA_SPARK) pyspark==4.2.0
	@PYTHONPATH=$(DELTA_SPARK) $(BIN)/python -m pytest tests/sinks -k delta

test-fast: $(SET_UP) ## run the tests that need no server: a minute
	@$(BIN)/python -m pytest -n auto --dist loadfile -m "not real and not slow and not live"

check: $(SET_UP) ## check format, lint, types and import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(SET_UP) ## format the code and apply automatic lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: java maven $(SET_UP) ## run the benchmarks
	@$(BIN)/python -m tests.sim.throughput
	@$(BIN)/python -m bench

bench-explain: java $(SET_UP) ## compare the speed of explain with lnav, Drain3 and grep: 15 minutes
	@command -v lnav > /dev/null || { echo "the benchmark needs lnav: install it (Debian: apt-get install lnav)" >&2; exit 1; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m bench.explain

lock: ## resolve pyproject.toml into requirements.lock (needs uv)
	@uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --extra spark --extra remote --group dev pyproject.toml -o requirements.lock

clean: ## remove the virtual environment and all build output
	rm -rf .venv .build dist .mypy_cache .ruff_cache .hypothesis
