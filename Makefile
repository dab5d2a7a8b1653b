# Every target makes what it needs, in this folder. PYTHON is the interpreter of a new environment,
# WORKERS how many tests run at once: they wait for processes more than they compute.
PYTHON  ?= python3
WORKERS ?= 3
VENV    ?= .venv
BIN     := $(VENV)/bin
PIP     := -m pip install --quiet --disable-pip-version-check
LOWEST  := .venv-lowest
PEERS   := .venv-peers
# The oldest libraries know no newer Python than the oldest one.
LOWEST_PYTHON ?= $(shell python3.11 -c pass 2> /dev/null && echo python3.11 || echo $(PYTHON))
PYTEST  := -m pytest -n $(WORKERS) --dist worksteal
# A job's tests and the page's, but not the wheel's: those have a target of their own.
TESTS   := tests --ignore=tests/packaging
CODE    := flask_jobrunner tests demo_app benchmarks soak examples scripts migrations

.PHONY: demo test test-million test-faults check coverage fix bench soak screenshots test-matrix \
	test-lowest wheel-test services compiled clean
.DEFAULT_GOAL := test

demo: $(VENV)/.demo
	$(BIN)/python -m demo_app

test: $(VENV)/.all services compiled
	$(BIN)/python $(PYTEST) $(TESTS)

# One job prints a million lines, in three ways, and pages show, search and copy as many, on each
# database: minutes, so by itself.
test-million: $(VENV)/.all services compiled
	$(BIN)/python -m pytest tests/child/test_loud_jobs.py tests/dashboard/test_million.py \
		tests/deploying/test_downloads.py tests/browser/test_long_log.py -m million

# Every fault point with everything that can happen there, on each database.
test-faults: $(VENV)/.all services compiled
	$(BIN)/python $(PYTEST) tests/crash_matrix tests/hosts tests/acceptance -m 'faults or not faults' --timeout 400

check: $(VENV)/.all services compiled
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python $(PYTEST) $(TESTS)

# By itself: measuring costs every one of the many processes that the tests start a part of its time.
coverage: $(VENV)/.all services compiled
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST) $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

fix: $(VENV)/.all
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

# Every figure, ours beside other tools included, which takes long: by name they come one by one,
# as in `make bench BENCH=latency`.
BENCH ?= all
bench: $(VENV)/.all $(PEERS)/.all compiled
	@scripts/install-test-services.sh bench
	$(BIN)/python -m benchmarks $(BENCH)

# Everything at once and much trouble for some minutes, then a judge over what is left.
DATABASE ?= sqlite
MINUTES  ?= 10
soak: $(VENV)/.all services compiled
	$(BIN)/python -m soak --database $(DATABASE) --minutes $(MINUTES) \
		$(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep)

# Every page in every state, in build/screenshots; those of the README in docs/images.
screenshots: $(VENV)/.all services
	$(BIN)/python scripts/screenshots.py

# Everything, on every Python from 3.11 on that this machine has.
test-matrix:
	MAKE='$(MAKE)' scripts/test-matrix.sh

# Whatever Flask or SQLAlchemy can change, and one job's whole path, with the oldest libraries that
# pyproject.toml admits. The floors that need the standard library only cannot tell them apart.
test-lowest: $(LOWEST)/.all services
	$(LOWEST)/bin/python $(PYTEST) -m 'not slow and not browser and not million and not faults and not mariadb' \
		tests/test_*.py tests/repositories tests/dashboard tests/testing \
		tests/acceptance/test_push.py tests/acceptance/test_session_start.py

wheel-test: $(VENV)/.all
	$(BIN)/python -m pytest tests/packaging

services:
	@scripts/install-test-services.sh

# Tests start hundreds of processes: without bytecode each would compile the package anew.
compiled: $(VENV)/.all
	@$(BIN)/python -m compileall -q flask_jobrunner demo_app tests

clean:
	rm -rf .venv .venv-* build dist htmlcov .coverage .coverage.* \
		.mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find $(wildcard $(CODE)) -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.made:
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.made
	$(BIN)/python $(PIP) --editable '.[demo]'
	touch $@

$(VENV)/.all: pyproject.toml | $(VENV)/.made
	$(BIN)/python $(PIP) --editable '.[test,dev,demo]'
	touch $@ $(VENV)/.demo

$(LOWEST)/.all: pyproject.toml scripts/lowest_requirements.py
	$(LOWEST_PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python scripts/lowest_requirements.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python $(PIP) --constraint $(LOWEST)/lowest.txt --editable '.[test]'
	touch $@

# By the same interpreter: what is measured is the tools.
$(PEERS)/.all: benchmarks/peers/requirements.txt | $(VENV)/.made
	$(BIN)/python -m venv --clear $(PEERS)
	$(PEERS)/bin/python $(PIP) --requirement benchmarks/peers/requirements.txt
	touch $@
