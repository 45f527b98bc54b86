"""The oracle of the engines, against formulas."""

import numpy as np
import pytest

from qml import oracle
from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, Expectation, Fixed, Probabilities, Rotation
from qml.oracle import program_of

Z = tuple(Expectation((Pauli(0, 1 << q),), (1.0,)) for q in range(3))
ANGLES = np.array([[0.4, -1.1], [2.0, 0.3]])


def test_a_rotation_about_each_axis_is_its_formula():
    turns = [Rotation(Pauli(1, 0), 0), Rotation(Pauli(1, 1), 1)]  # exp(-ia/2 X), then Y
    outputs = [Z[0], *(Expectation((Pauli(1, z),), (2.0,)) for z in (0, 1))]
    a, b = ANGLES.T
    expected = [np.cos(a) * np.cos(b), 2 * np.cos(a) * np.sin(b), -2 * np.sin(a)]
    found = oracle.expval(program_of(1, turns, outputs, 2), ANGLES)
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-12)


def test_qubit_0_and_the_first_of_a_block_are_least_significant():
    gates = [Fixed("x", (1,), FIXED["x"]), Fixed("cx", (1, 2), FIXED["cx"])]
    blocks = [Probabilities((0, 1, 2)), Probabilities((1, 0))]
    (found,) = oracle.expval(program_of(3, gates, [*blocks, *Z]), np.zeros((1, 0)))
    assert (found[:8].argmax(), found[8:12].argmax()) == (0b110, 0b01)
    np.testing.assert_allclose(found[12:], [1, -1, -1], atol=1e-12)


def test_derivatives_are_those_of_the_formula():
    turns = [Rotation(Pauli(1, 1), 1), Rotation(Pauli(1, 1), 0), Rotation(Pauli(1, 1), CONSTANT, 1)]
    program = program_of(2, turns, [Z[0], Z[1]], 3)  # cos(a0 + a1 + 1), and a slot for nothing
    angles = np.array([[0.4, -1.1, 9.0]])
    total = angles[0, :2].sum() + 1
    slope = np.zeros((1, 3, 2))
    slope[0, :2, 0] = -np.sin(total)
    curve = np.zeros((1, 3, 3, 2))
    curve[0, :2, :2, 0] = -np.cos(total)
    np.testing.assert_allclose(oracle.jacobian(program, angles), slope, atol=1e-12)
    np.testing.assert_allclose(oracle.hessian(program, angles), curve, atol=1e-12)


def test_random_programs_hold_every_kind_of_operation_and_differ_by_their_generator():
    rng = np.random.default_rng(0)
    programs = [oracle.random_program(rng, 3) for _ in range(20)]
    assert len({program.digest for program in programs}) == 20
    rotations = [o for p in programs for o in p.operations if isinstance(o, Rotation)]
    gates = {o.name for p in programs for o in p.operations if isinstance(o, Fixed)}
    assert {r.slot == CONSTANT for r in rotations} == {True, False}
    assert {len(r.pauli.support) for r in rotations} == {0, 1, 2, 3}
    assert gates == {*FIXED, "unitary"}
    for program in programs:
        slots = [o.slot for o in program.operations if isinstance(o, Rotation)]
        used = [slot for slot in slots if slot != CONSTANT]
        assert len(set(used)) == len(used) == program.num_slots - 1


@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_gate_that_fits_is_there(width):
    program = oracle.every_gate(np.random.default_rng(0), width)
    names = {o.name for o in program.operations if isinstance(o, Fixed)}
    assert names == {name for name, matrix in FIXED.items() if len(matrix) <= 1 << width}
