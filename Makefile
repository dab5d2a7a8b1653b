# Every target makes what it needs. PYTHON chooses the interpreter of the virtual environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.made-for-pyproject

.PHONY: demo test check fix bench test-matrix test-lowest wheel-test clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,dev,demo]'
	touch $(STAMP)

test: $(STAMP)
	$(BIN)/python -m pytest
