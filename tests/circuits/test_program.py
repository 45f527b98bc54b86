"""The identity of a Program: its content, in every process, and nothing else."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from qiskit import QuantumCircuit
from qiskit.circuit.library import UnitaryGate
from qiskit.quantum_info import random_unitary

import qml
from qml import qkernel
from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, AngleMap, Expectation, Fixed, Program, Rotation

ROOT = Path(qml.__file__).resolve().parents[1]

EVERYTHING = """
import numpy as np, qml
from qiskit import QuantumCircuit
from qiskit.circuit.library import QFTGate, UnitaryGate
from qiskit.quantum_info import SparsePauliOp, random_unitary

@qml.qkernel(qubits=3)
def everything(qc, x, params):
    inner = QuantumCircuit(2)
    inner.crx(params["w"][1], 0, 1)
    qc.append(inner.to_gate(), [2, 0])  # its name differs between processes
    qc.append(UnitaryGate(random_unitary(4, seed=1)), [0, 1])
    qc.append(QFTGate(3), [0, 1, 2])
    qc.rx(x[0] * x[1] + np.pi, 0)
    qc.rz(2 * params["b"] - x[0] / 3, 1)
    return [qml.Z(0) + 0.1 * qml.X(1), SparsePauliOp("XYZ"), qml.probs(2, 0)]

digest = everything.program(np.zeros(2), {"w": np.zeros(3), "b": 0.0}).digest
"""


def digest_elsewhere(hash_seed):
    ran = subprocess.run(
        [sys.executable, "-c", f"x = [object() for _ in range(9)]\n{EVERYTHING}\nprint(digest)"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def test_the_digest_is_the_same_in_every_process():
    here = {}
    exec(EVERYTHING, here)  # as a notebook would define it
    assert {digest_elsewhere("1"), digest_elsewhere("77")} == {here["digest"]}


def program_of(write, *shapes, qubits=2, names="xyz"):
    """The Program of a kernel with one argument per shape."""
    arguments = ", ".join(names[: len(shapes)])
    scope = {"write": write}
    exec(f"def kernel(qc, {arguments}): return write(qc, {arguments})", scope)
    return qkernel(qubits=qubits)(scope["kernel"]).program(*(np.zeros(shape) for shape in shapes))


def base(qc, x, y):
    qc.ry(x, 0)
    qc.cx(0, 1)
    qc.rx(2 * y, 1)
    return [qml.Z(0), qml.X(1)]


def with_names(qc, x, y):
    """The same circuit from sub-circuits, registers and parameters of other names."""
    inner = QuantumCircuit(2, name="other")
    inner.ry(x, 0)
    inner.cx(0, 1)
    qc.append(inner.to_gate(label="mine"), [0, 1])
    qc.barrier()
    qc.rx(y + y, 1)
    return ["IZ", "XI"]


def with_another_gate(qc, x, y):
    qc.ry(x, 0)
    qc.cz(0, 1)
    qc.rx(2 * y, 1)
    return [qml.Z(0), qml.X(1)]


def with_other_qubits(qc, x, y):
    qc.ry(x, 0)
    qc.cx(1, 0)
    qc.rx(2 * y, 1)
    return [qml.Z(0), qml.X(1)]


def with_another_axis(qc, x, y):
    qc.ry(x, 0)
    qc.cx(0, 1)
    qc.rz(2 * y, 1)
    return [qml.Z(0), qml.X(1)]


def with_arguments_exchanged(qc, x, y):
    return base(qc, y, x)


def with_another_coefficient(qc, x, y):
    return base(qc, x, y * (1 + 1e-9))


def with_another_offset(qc, x, y):
    return base(qc, x + 1e-9, y)


def with_another_formula(qc, x, y):
    return base(qc, x * y, y)


def with_another_constant(qc, x, y):
    qc.rx(0.1, 0)
    return base(qc, x, y)


def with_other_outputs(qc, x, y):
    base(qc, x, y)
    return [qml.Z(0), qml.Y(1)]


def with_another_weight(qc, x, y):
    base(qc, x, y)
    return [qml.Z(0), 2 * qml.X(1)]


def with_outputs_exchanged(qc, x, y):
    return base(qc, x, y)[::-1]


def with_a_block(qc, x, y):
    base(qc, x, y)
    return [qml.Z(0), qml.probs(1)]


def with_another_block(qc, x, y):
    base(qc, x, y)
    return [qml.Z(0), qml.probs(0)]


def with_unitary(seed):
    def write(qc, x, y):
        qc.append(UnitaryGate(random_unitary(4, seed=seed)), [0, 1])
        return base(qc, x, y)

    return write


DIFFERENT = [
    with_another_gate,
    with_other_qubits,
    with_another_axis,
    with_arguments_exchanged,
    with_another_coefficient,
    with_another_offset,
    with_another_formula,
    with_another_constant,
    with_other_outputs,
    with_another_weight,
    with_outputs_exchanged,
    with_a_block,
    with_another_block,
    with_unitary(1),
    with_unitary(2),
]


def test_names_of_circuits_registers_and_parameters_do_not_matter():
    one, other = program_of(base, (), ()), program_of(with_names, (), ())
    assert one is not other and one == other and hash(one) == hash(other)
    assert one.digest == other.digest and {one: 1}[other] == 1


def test_any_difference_in_content_is_a_difference():
    programs = [program_of(write, (), ()) for write in [base, *DIFFERENT]]
    programs.append(program_of(base, (), (), qubits=3))
    programs.append(program_of(lambda qc, x, y: base(qc, x[0], y[0]), (1,), (1,)))
    programs.append(program_of(lambda qc, x, y: base(qc, x[0], y), (2,), ()))
    assert len({program.digest for program in programs}) == len(programs)
    assert all(one != other for one in programs for other in programs if one is not other)


def test_the_order_of_the_arguments_matters():
    """Positional calls of the two give different values."""
    one = program_of(base, (), ())
    other = program_of(lambda qc, y, x: base(qc, x, y), (), (), names="yx")
    assert one != other


def test_a_program_equals_nothing_else():
    program = program_of(base, (), ())
    assert program != program.digest and (program == 3) is False


def test_the_digest_is_computed_once(monkeypatch):
    program = program_of(base, (), ())
    digest = program.digest
    monkeypatch.setattr(Program, "_content", lambda self: pytest.fail("computed again"))
    assert program.digest == digest and hash(program) == hash(digest)


none = np.zeros(0, np.int32)
rotations = st.builds(
    Rotation,
    st.builds(Pauli, st.integers(0, 3), st.integers(0, 3)),
    st.just(CONSTANT),
    st.floats(-3, 3),
)
fixed = st.builds(
    Fixed,
    st.sampled_from(["x", "h"]),
    st.sampled_from([(0,), (1,)]),
    st.just(np.eye(2, dtype=complex)),
)
operations = st.lists(rotations | fixed, max_size=3).map(tuple)


def content(program):
    return program.num_qubits, [
        dataclasses.astuple(o)[:2] if isinstance(o, Fixed) else dataclasses.astuple(o)
        for o in program.operations
    ]


@given(operations, operations)
def test_programs_are_equal_exactly_when_their_operations_are(one, other):
    make = lambda operations: Program(
        2,
        operations,
        (Expectation((Pauli(0, 1),), (1.0,)),),
        AngleMap(0, none, none, np.zeros(0), np.zeros(0)),
    )
    first, second = make(one), make(other)
    assert (first == second) == (repr(content(first)) == repr(content(second)))
    assert first == make(one)


def test_the_affine_map_adds_up_terms_of_one_slot_and_argument():
    twice = np.zeros(2, np.int32)
    angles = AngleMap(1, twice, twice, np.array([0.5, 0.25]), np.zeros(1))
    np.testing.assert_array_equal(angles.matrix, [[0.75]])
