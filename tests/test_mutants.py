"""The suite notices: three wrong libraries, each of which must fail a few fast tests of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import qml

ROOT = Path(qml.__file__).resolve().parents[1]
TESTS = Path(__file__).resolve().parent

SUBSET = [
    "cases/test_wrong_gradients.py::test_a_parameter_in_several_gates_gets_the_product_rule",
    "cases/test_wrong_gradients.py::test_ten_and_more_parameters_keep_their_order",
    "cases/test_outputs_and_batches.py::test_outputs_need_not_commute",
    "cases/test_outputs_and_batches.py::test_qubit_0_is_the_least_significant_bit",
]

LOWERED = """
import dataclasses
from qml.circuits import tracing
from qml.circuits.paulis import Pauli
from qml.circuits.program import Fixed, Rotation

lower = tracing.lower

def mutant(*arguments):
    program = lower(*arguments)
    changed = [change(operation, program.num_qubits) for operation in program.operations]
    kept = tuple(operation for operation in changed if operation is not None)
    return dataclasses.replace(program, operations=kept)

tracing.lower = mutant
"""

MUTANTS = {
    "entanglers dropped": LOWERED
    + """
def change(operation, num_qubits):
    entangles = len(
        operation.qubits if isinstance(operation, Fixed) else operation.pauli.support
    ) > 1
    return None if entangles else operation
""",
    "wrong shift sign": """
from qml import gradients

gradients.SHIFT = -gradients.SHIFT
""",
    "qubits reversed": LOWERED
    + """
def change(operation, num_qubits):
    if isinstance(operation, Fixed):
        qubits = tuple(num_qubits - 1 - q for q in operation.qubits)
        return dataclasses.replace(operation, qubits=qubits)
    label = operation.pauli.label(num_qubits)
    pauli = Pauli.from_letters(label, range(num_qubits))
    return dataclasses.replace(operation, pauli=pauli)
""",
}


def run_subset(folder, plugin):
    """The exit status of pytest on the subset, with a plug-in that changes the library."""
    (folder / "mutant.py").write_text(plugin)
    names = [str(TESTS / name) for name in SUBSET]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "mutant", "-k", "reference", *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails_the_suite(name, tmp_path):
    ran = run_subset(tmp_path, MUTANTS[name])
    # 1 is a failed test; a plug-in that no longer fits the library exits with another status.
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout + ran.stderr
    assert "AssertionError" in ran.stdout


@pytest.mark.slow
def test_the_library_itself_passes(tmp_path):
    ran = run_subset(tmp_path, LOWERED + "def change(operation, num_qubits): return operation")
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout + ran.stderr
