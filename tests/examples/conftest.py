"""Examples as their users run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_example():
    """run_example(name, *arguments): what examples/name prints, warnings being errors."""

    def run(name, *arguments):
        done = subprocess.run(
            [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
