# Everything runs from a virtual environment that this file makes; python3 and make are all it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNS := $(VENV)/.installed-to-run
# One more than there are cores where these are two: tests of servers and agents wait much of their time.
WORKERS ?= 3
# Where it is set, every process that a test starts compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run house quick test coverage build test-real test-slow lint bench bench-all docs screenshots format clean help

help:
	@echo "make run        set up, measure this directory, and show it with a demonstration"
	@echo "make quick      the tests that say within a minute whether something is broken"
	@echo "make test       set up and run all tests (no servers needed)"
	@echo "make test-real  install and start the real components and test against them"
	@echo "make test-slow  fuzzing, kills, interval coverage"
	@echo "make coverage   the tests of make test, and which lines they run"
	@echo "make build      wheel and source distribution, in dist/"
	@echo "make house      size and shape of the source tree, with its limits"
	@echo "make lint       ruff, mypy, import contracts"
	@echo "make bench      one table of what is fast, each beside a peer; bench-all: every benchmark"
	@echo "make docs       the documentation site, in site/; opens without a network"
	@echo "make screenshots  every page of the dashboard as pictures (needs Chromium)"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ioweather needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# All that development needs, which is more than twice of what running needs.
$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,dask,docs,forest,mcp]'
	@touch $(STAMP) $(RUNS)

$(RUNS): pyproject.toml | $(BIN)/python
	@echo "Installing what running needs, 180 MB to download ..."
	@$(BIN)/python -m pip install --disable-pip-version-check --editable .
	@touch $(RUNS)

run: $(RUNS)
	@$(BIN)/ioweather up

# The layers below, and one way through all of them: files in, an exhibit and answers out.
QUICK := tests/core tests/stats tests/test_smoke.py tests/test_contracts.py

quick: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not real and not slow and not shared' $(QUICK)

# A worker begins with one half of the files, so that what a file's tests share is made once; who is done takes over.
test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

coverage: $(STAMP)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

build: $(STAMP)
	$(BIN)/python -m hatchling build -d dist

# They measure while others run on the same machine, so no more at once: what fails so is run once more alone, and then must pass.
test-real: $(STAMP)
	sh tests/install_components.sh
	$(BIN)/python -m pytest -m real -n 2 --dist loadfile || $(BIN)/python -m pytest -m real --last-failed --last-failed-no-failures none

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow -n $(WORKERS)

house: $(STAMP)
	$(BIN)/python benchmarks/house.py

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/mypy --config-file benchmarks/mypy.ini benchmarks/*.py
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/words.py

screenshots: $(STAMP)
	$(BIN)/python docs/screenshots.py

format: $(STAMP)
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

bench: $(STAMP)
	$(BIN)/python benchmarks/table.py --write docs/reference/speed.md

bench-all: $(STAMP)
	@for script in benchmarks/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: $(STAMP)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/pictures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open site/index.html"

clean:
	rm -rf $(VENV) build dist site docs/reference/pictures docs/reference/screenshots .pytest_cache .mypy_cache .ruff_cache
