# Every target sets up what it needs: a virtual environment in .venv and the packages in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# The peers we are timed against bring torch and their own requirements: an environment of their own.
BENCH := .venv-bench

.PHONY: demo test test-slow lint bench bench-scaling docs constraints clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.%-installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$*]'
	touch $@

demo: $(VENV)/.demo-installed
	$(BIN)/sundman demo --output demo --force

test: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-slow: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

lint: $(VENV)/.lint-installed $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

$(BENCH)/.installed: pyproject.toml constraints.txt CMakeLists.txt $(wildcard native/*)
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade pip
	$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	touch $@

bench: $(BENCH)/.installed
	$(BENCH)/bin/python benchmarks/toys.py
	$(BENCH)/bin/python benchmarks/network.py
	$(BENCH)/bin/python benchmarks/update.py
	$(BENCH)/bin/python benchmarks/compare.py

bench-scaling: $(BENCH)/.installed
	$(BENCH)/bin/python benchmarks/scaling.py

docs: $(VENV)/.docs-installed
	$(BIN)/mkdocs build --strict

constraints: $(VENV)/.test-installed $(VENV)/.lint-installed $(VENV)/.docs-installed $(BENCH)/.installed
	for python in $(BIN)/python $(BENCH)/bin/python; do \
	  $$python -m pip freeze --exclude-editable --exclude pip; done \
	  | sed 's/+cpu$$//' | sort --ignore-case --unique > constraints.txt

clean:
	rm -rf $(VENV) $(BENCH) build dist site .pytest_cache .ruff_cache
