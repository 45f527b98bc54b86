# `make demo` and `make test` do all set-up themselves; they need Python 3.11 to 3.13 and make.

PYTHON ?= python3
BIN := .venv/bin
DEMO := examples/md_lih_forces.py
ARGS :=

.PHONY: demo test full lint clean
.DELETE_ON_ERROR:

demo: .venv/.examples
	$(BIN)/python $(DEMO) $(ARGS)

test: lint
	KERAS_BACKEND=jax $(BIN)/pytest -n 2 $(STUDIES) tests --ignore=tests/float32
	KERAS_BACKEND=tensorflow $(BIN)/pytest $(STUDIES) tests/layers
	KERAS_BACKEND=jax QML_TEST_X64=0 $(BIN)/pytest $(STUDIES) tests/float32

full: STUDIES := -m ""
full: test

lint: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# One stamp per extra: the install is repeated only when a requirement or a pin has changed.
.venv/.%: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[$*]" --constraint constraints.txt
	touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit( \
	  f"{sys.executable} is {sys.version.split()[0]}; choose 3.11 to 3.13 by PYTHON=python3.x")'
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
