"""`import qml` is cheap: the frameworks come with the first thing that needs them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORKS = {"jax", "keras", "pennylane", "qiskit", "qiskit_aer", "sympy", "tensorflow", "torch"}


def loaded(statement: str) -> set[str]:
    """The modules of a fresh interpreter after `statement`, by their top-level names."""
    program = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(run.stdout.split())


def test_importing_qml_loads_no_framework() -> None:
    modules = loaded("import qml\nassert qml.__file__.endswith('__init__.py'), qml.__file__")
    assert "qml" in modules
    assert not modules & FRAMEWORKS


@pytest.mark.parametrize(
    "module", ["circuits.program", "config", "gradients", "simulators.registry"]
)
def test_what_an_engine_is_written_against_loads_no_framework(module: str) -> None:
    assert not loaded(f"import qml.{module}") & FRAMEWORKS


@pytest.mark.parametrize("framework", ["jax", "qiskit"])
def test_a_framework_that_is_loaded_is_noticed(framework: str) -> None:
    assert framework in loaded(f"import {framework}")
