# `make demo` and `make test` do all set-up themselves; they need Python 3.11 to 3.13 and make.

PYTHON ?= python3
NEWEST ?= python3.12
NEWEST_TESTS := tests/qml tests/simulators tests/cases
BIN := .venv/bin
DEMO := examples/md_lih_forces.py
ARGS :=

.PHONY: demo test test-newest-jax full lint clean
.DELETE_ON_ERROR:

demo: .venv/.examples
	$(BIN)/python $(DEMO) $(ARGS)

test: lint
	KERAS_BACKEND=jax $(BIN)/pytest -n 2 $(STUDIES) tests --ignore=tests/float32
	KERAS_BACKEND=tensorflow $(BIN)/pytest -n 2 $(STUDIES) tests/layers
	KERAS_BACKEND=torch $(BIN)/pytest -n 2 $(STUDIES) tests/layers
	KERAS_BACKEND=jax QML_TEST_X64=0 $(BIN)/pytest $(STUDIES) tests/float32

# What depends on JAX, on the newest, which needs Python 3.12 or 3.13 (NEWEST=python3.13).
test-newest-jax: .venv-newest/.stamp
	OMP_NUM_THREADS=1 KERAS_BACKEND=jax .venv-newest/bin/python -m pytest -n 2 $(STUDIES) \
	  $(NEWEST_TESTS)

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

.venv-newest/.stamp: pyproject.toml constraints.txt
	$(NEWEST) -m venv --clear .venv-newest
	grep -Ev '^(jax|jaxlib|ml-dtypes)==' constraints.txt > .venv-newest/constraints.txt
	.venv-newest/bin/python -m pip install --quiet --editable ".[pennylane,runtime]" "jax>=0.12" \
	  flatbuffers hypothesis psutil pytest pytest-xdist --constraint .venv-newest/constraints.txt
	touch $@

clean:
	rm -rf .venv .venv-newest build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
