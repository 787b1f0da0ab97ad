# make test | bench | lint | coverage | sanitize | core | clean
# Each sets up what it needs: a virtual environment in .venv, its packages, the compiled core. A second call
# rebuilds only what is out of date. PYTHON=python3.12 picks another interpreter; ARGS="..." goes to the program.
PYTHON ?= python3
CC ?= cc
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
CORE_SOURCES := setup.py $(wildcard emu/_core/*.pyx emu/_core/*.pxd)
WORKERS ?= 2
ARGS ?=

.PHONY: test bench lint coverage sanitize core clean
.DELETE_ON_ERROR:

# Lint, layers, packaging and the generated C are tests too: this is the whole gate.
test: core
	$(BIN)/python -m pytest -q -n $(WORKERS) $(if $(ARGS),$(ARGS),--cov --cov-report=term)

bench: core
	$(BIN)/python -m emu.bench $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/python -m pytest -q tests/test_lint.py $(ARGS)

coverage: core
	$(BIN)/python -m pytest -q -n $(WORKERS) --cov --cov-report=term-missing:skip-covered $(ARGS)

sanitize: $(VENV)/.installed
	$(BIN)/python tools/sanitize.py $(ARGS)

core: $(VENV)/.built

clean:
	rm -rf build dist *.egg-info emu/_core/*.c emu/_core/*.so $(VENV)

# EMU_ONLY=none: the core is compiled by the next rule, in parallel and only where it is out of date.
$(VENV)/.installed: pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { echo "make: no $(PYTHON): install Python 3.11 or newer, or say PYTHON=/path/to/python3"; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is too old: emu needs Python 3.11 or newer; say PYTHON=/path/to/python3"; exit 2; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) has no venv: install it (Debian: apt-get install python3-venv)"; exit 2; }
	@command -v $(firstword $(CC)) >/dev/null || { echo "make: no C compiler $(CC): install one (Debian: apt-get install gcc libc6-dev)"; exit 2; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(PIP) "setuptools>=77" "Cython>=3.1.6,<3.4"
	EMU_ONLY=none $(PIP) --no-build-isolation --editable ".[dev]"
	touch $@

$(VENV)/.built: $(VENV)/.installed $(CORE_SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace --parallel 2
	touch $@
