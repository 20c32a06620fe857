# Every target sets up what it needs: a virtual environment in .venv and the packages in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test test-slow lint bench docs constraints clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.%-installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$*]'
	touch $@

demo: $(VENV)/.demo-installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test-slow: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

lint: $(VENV)/.lint-installed $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(VENV)/.bench-installed
	$(BIN)/python benchmarks/toys.py

docs: $(VENV)/.docs-installed
	$(BIN)/mkdocs build --strict

constraints: $(VENV)/.test-installed $(VENV)/.lint-installed $(VENV)/.bench-installed $(VENV)/.docs-installed
	$(BIN)/python -m pip freeze --exclude-editable --exclude pip > constraints.txt

clean:
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache
