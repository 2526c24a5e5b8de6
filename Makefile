# The front door: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DEMO := runs/demo

.PHONY: help install demo demo-clean test slow check bench

help:
	@echo "make demo   install, then the whole flow on the bundled corpus, offline (minutes)"
	@echo "make test   install, then the quick tests (two minutes)"
	@echo "make slow   the tests that take longer"
	@echo "make check  format, lint and types"
	@echo "make bench  speed, beside the alternatives"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  || { echo "transferset needs Python 3.11 to 3.13; try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[offline,test,plots,openvino]"
	@touch $@

demo: $(STAMP)
	TRANSFERSET_STORE=$(DEMO)/store BIN=$(BIN) sh corpora/demo.sh $(DEMO)

demo-clean:
	rm -rf $(DEMO)

# Two tests at a time, one thread each: OpenMP threads of processes side by side wait for one another.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

slow: $(STAMP)
	$(BIN)/pytest -m slow

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks $(WHAT)
