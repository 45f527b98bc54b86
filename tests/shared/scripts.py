"""The examples, as modules and as their users run them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def load(name):
    """The module of an example; what it imports from beside it is found, as when it is run."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))
    return module


def run(name, *arguments, options=(), **environment):
    """The script in a process of its own, in the working directory of the test.

    `options` are Python's.
    """
    places = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, *options, str(EXAMPLES / name), *arguments],
        env={**os.environ, **places, **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )


@pytest.fixture
def run_example():
    """run_example(name, *arguments): what examples/name prints, warnings being errors."""

    def printed(name, *arguments):
        done = run(name, *arguments, options=("-W", "error"))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return printed


@pytest.fixture
def refused(capsys, monkeypatch):
    """refused(module, *arguments): the one line in which the example refuses them.

    For wrong arguments argparse ends with status 2, after its usage; for errors of the library the
    status is 1. Nothing else is printed.
    """

    def refuse(module, *arguments):
        script = f"{module.__name__}.py"
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        with pytest.raises(SystemExit) as caught:
            module.main()
        out, err = capsys.readouterr()
        usage, _, error = err.rstrip("\n").rpartition(f"{script}: error: ")
        assert caught.value.code == (2 if usage else 1)
        assert out == "" and "\n" not in error and error
        return error

    return refuse
