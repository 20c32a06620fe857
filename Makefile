# Every target sets up what it needs: a virtual environment and the packages in it. It is .venv, or
# .venv-3.12 with `make test PYTHON=python3.12`, so that versions of Python can live side by side.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := $(if $(filter file,$(origin PYTHON)),.venv,.venv-$(VERSION))
BIN := $(VENV)/bin
# The newest JAX needs Python 3.12: the versions we test with differ.
CONSTRAINTS := $(if $(filter 3.11,$(VERSION)),constraints-3.11.txt,constraints.txt)
WORKERS ?= 2
# A file's tests run in one process, one after the other: they share what they compile and fixtures.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
# Where single tests are long, a process that is done takes over from one that is not.
PYTEST_LONG := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# What building the kernels takes, beside a compiler.
BUILD := jaxlib scikit-build-core $(foreach tool,cmake ninja,$(if $(shell command -v $(tool)),,$(tool)))
PIP := $(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS)
# Modules are compiled when they are first imported, and kept, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
# The peers we are timed against bring torch and their own requirements: an environment of their own.
BENCH := $(VENV)-bench

.PHONY: demo test test-ci test-slow test-all reproduce lint bench bench-scaling docs docs-test docs-figures constraints clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.%-installed: $(BIN)/python pyproject.toml sundman/__init__.py $(CONSTRAINTS)
	$(PIP) --no-compile $(BUILD)
	$(PIP) --no-compile --no-build-isolation --editable '.[$*]'
	touch $@

# Nothing is built for these: the package is there already.
$(VENV)/.lint-installed: $(VENV)/.test-installed
	$(PIP) --no-compile 'sundman[lint]'
	touch $@

demo: $(VENV)/.cli-installed
	$(BIN)/sundman demo --output demo --force

test: $(VENV)/.test-installed
	$(PYTEST)

# The quick tests and those that take seconds, and those of the studies: what CI runs.
test-ci: $(VENV)/.test-installed
	$(PYTEST_LONG) -m 'not slow' tests studies

test-slow: $(VENV)/.test-installed
	$(PYTEST_LONG) -m slow tests studies

test-all: $(VENV)/.test-installed
	$(PYTEST_LONG) -m '' tests studies

# The claims of the paper, each with a verdict, at the scale of minutes.
reproduce: $(VENV)/.cli-installed
	$(BIN)/python -m studies.sa_sgld all --scale quick

lint: $(VENV)/.lint-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyright --project pyright-core.json
	$(BIN)/lint-imports

$(BENCH)/.installed: pyproject.toml $(CONSTRAINTS) CMakeLists.txt $(wildcard native/*)
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade pip
	$(BENCH)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[bench]'
	touch $@

bench: $(BENCH)/.installed
	$(BENCH)/bin/python -m studies.speed.toys
	$(BENCH)/bin/python -m studies.speed.network
	$(BENCH)/bin/python -m studies.speed.update
	$(BENCH)/bin/python -m studies.speed.compare

bench-scaling: $(BENCH)/.installed
	$(BENCH)/bin/python -m studies.speed.scaling

docs: $(VENV)/.docs-installed
	$(BIN)/mkdocs build --strict

# Every code block of the README and the pages, also the long ones.
docs-test: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m '' tests/test_pages.py tests/test_readme.py $(wildcard tests/test_guide*.py)

# Outputs and figures of the pages that show what their code prints, made anew.
docs-figures: $(VENV)/.test-installed
	$(BIN)/python docs/pages.py docs/start.md docs/concepts.md docs/bias.md docs/diagnostics.md $(wildcard docs/tutorials/*.md)

constraints: $(VENV)/.test-installed $(VENV)/.lint-installed $(VENV)/.docs-installed $(BENCH)/.installed
	for python in $(BIN)/python $(BENCH)/bin/python; do \
	  $$python -m pip freeze --exclude-editable --exclude pip; done \
	  | sed 's/+cpu$$//' | sort --ignore-case --unique > $(CONSTRAINTS).new
	mv $(CONSTRAINTS).new $(CONSTRAINTS)

clean:
	rm -rf $(VENV) $(BENCH) build dist site .pytest_cache .ruff_cache .import_linter_cache
