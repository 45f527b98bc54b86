"""What a Program's outputs are, by Qiskit's Statevector: slow, and independent of every engine.

Tests compare engines with it, ours and those of other packages; nothing else uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from qiskit.quantum_info import Operator, Pauli as QiskitPauli, Statevector, random_unitary

from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import (
    CONSTANT,
    AngleMap,
    Expectation,
    Fixed,
    Probabilities,
    Program,
    Rotation,
)

Array = NDArray[np.float64]


def expval(program: Program, angles: Array) -> Array:
    """E: the outputs (R, M) at rows of slot angles (R, K).

    >>> turn = program_of(1, [Rotation(Pauli(1, 0), 0)], [Probabilities((0,))], slots=1)
    >>> expval(turn, np.array([[np.pi / 2]])).round(6)
    array([[0.5, 0.5]])
    """
    return np.array([_row(program, row) for row in angles]).reshape(-1, program.num_outputs)


def jacobian(program: Program, angles: Array) -> Array:
    """dE/da_k: (R, K, M), by the shift rule; no two rotations may share a slot."""
    shifts = np.pi / 2 * np.eye(program.num_slots)
    slopes = [0.5 * (expval(program, angles + s) - expval(program, angles - s)) for s in shifts]
    return np.array(slopes).reshape(-1, len(angles), program.num_outputs).swapaxes(0, 1)


def hessian(program: Program, angles: Array) -> Array:
    """d2E/da_k da_l: (R, K, K, M), by the shift rule twice."""
    shifts = np.pi / 2 * np.eye(program.num_slots)
    rows = [0.5 * (jacobian(program, angles + s) - jacobian(program, angles - s)) for s in shifts]
    shape = (-1, len(angles), program.num_slots, program.num_outputs)
    return np.array(rows).reshape(shape).swapaxes(0, 1)


def operands(rng: np.random.Generator, program: Program, rows: int) -> dict[str, tuple[Array, ...]]:
    """Random operands of every primitive, in the shapes of qml.primitives, all axes different."""
    slots, outputs = program.num_slots, program.num_outputs
    angles = rng.uniform(-7, 7, size=(rows, slots))

    def normal(*axes: int) -> Array:
        return rng.normal(size=(rows, *axes))

    return {
        "expval": (angles,),
        "expval_jvp": (angles, normal(3, slots)),
        "expval_vjp": (angles, normal(2, outputs)),
        "expval_hvp": (angles, normal(2, 3, slots), normal(2, 1, outputs)),
        "expval_curvature": (angles, normal(2, 1, slots), normal(2, 3, slots)),
    }


def primitives(program: Program, given: Mapping[str, tuple[Array, ...]]) -> dict[str, Array]:
    """The value of every primitive at its operands; see qml.primitives."""
    (angles,) = given["expval"]
    first, second = jacobian(program, angles), hessian(program, angles)
    return {
        "expval": expval(program, angles),
        "expval_jvp": np.einsum("rkm,rtk->rtm", first, given["expval_jvp"][1]),
        "expval_vjp": np.einsum("rkm,rcm->rck", first, given["expval_vjp"][1]),
        "expval_hvp": np.einsum("rklm,rstl,rscm->rstck", second, *given["expval_hvp"][1:]),
        "expval_curvature": np.einsum(
            "rklm,rstk,rsul->rstum", second, *given["expval_curvature"][1:]
        ),
    }


def _row(program: Program, row: Array) -> list[float]:
    width = program.num_qubits
    state = Statevector.from_int(0, 1 << width)
    for operation in program.operations:
        if isinstance(operation, Fixed):
            state = state.evolve(Operator(operation.matrix), list(operation.qubits))
            continue
        angle = operation.angle if operation.slot == CONSTANT else float(row[operation.slot])
        string = QiskitPauli(operation.pauli.label(width)).to_matrix()
        turn = np.cos(angle / 2) * np.eye(1 << width) - 1j * np.sin(angle / 2) * string
        state = state.evolve(Operator(turn))
    values: list[float] = []
    for output in program.outputs:
        if isinstance(output, Probabilities):
            values += state.probabilities(list(output.qubits)).tolist()
        else:
            terms = zip(output.paulis, output.coefficients, strict=True)
            means = (c * state.expectation_value(QiskitPauli(p.label(width))) for p, c in terms)
            values.append(float(np.real(sum(means))))
    return values


def program_of(
    num_qubits: int,
    operations: Sequence[Rotation | Fixed],
    outputs: Sequence[Expectation | Probabilities],
    slots: int = 0,
) -> Program:
    """A Program whose slot angles are all there is: its arguments are of no interest."""
    none = np.zeros(0, np.int32)
    angles = AngleMap(0, none, none, np.zeros(0), np.zeros(slots))
    return Program(num_qubits, tuple(operations), tuple(outputs), angles)


def random_program(rng: np.random.Generator, num_qubits: int, depth: int = 12) -> Program:
    """Operations of every kind in any order, and outputs of every kind.

    Rotations by slots and by constants about any string, the identity too; the fixed gates that
    fit; unitaries on any qubits. Slots are numbered in any order, and one of them is not used.
    """
    kinds = rng.choice(["slot", "constant", "unitary", "gate"], size=depth, p=[0.4, 0.1, 0.1, 0.4])
    fitting = [name for name, matrix in FIXED.items() if len(matrix) <= 1 << num_qubits]
    slots = rng.permutation(np.count_nonzero(kinds == "slot") + 1).tolist()
    unused = iter(slots)
    operations: list[Rotation | Fixed] = []
    for kind in kinds:
        if kind == "slot":
            operations.append(Rotation(random_pauli(rng, num_qubits), next(unused)))
        elif kind == "constant":
            operations.append(Rotation(random_pauli(rng, num_qubits), CONSTANT, rng.normal()))
        elif kind == "unitary":
            width = int(rng.integers(1, min(num_qubits, 3) + 1))
            matrix = random_unitary(1 << width, seed=int(rng.integers(2**31))).data
            operations.append(Fixed("unitary", _some(rng, num_qubits, width), matrix))
        else:
            operations.append(_gate(rng, str(rng.choice(fitting)), num_qubits))
    return program_of(num_qubits, operations, random_outputs(rng, num_qubits), len(slots))


def every_gate(rng: np.random.Generator, num_qubits: int) -> Program:
    """Every fixed gate that fits, each after a rotation that shows what it does."""
    operations: list[Rotation | Fixed] = []
    for name, matrix in FIXED.items():
        if len(matrix) <= 1 << num_qubits:
            operations.append(Rotation(random_pauli(rng, num_qubits), CONSTANT, rng.normal()))
            operations.append(_gate(rng, name, num_qubits))
    return program_of(num_qubits, operations, random_outputs(rng, num_qubits))


def random_outputs(
    rng: np.random.Generator, num_qubits: int
) -> tuple[Expectation | Probabilities, ...]:
    """A sum of strings, a block, a string, a constant and an empty sum."""
    strings = tuple(sorted({random_pauli(rng, num_qubits) for _ in range(3)}))
    width = int(rng.integers(1, num_qubits + 1))
    return (
        Expectation(strings, tuple(rng.normal(size=len(strings)).tolist())),
        Probabilities(_some(rng, num_qubits, width)),
        Expectation((random_pauli(rng, num_qubits),), (1.0,)),
        Expectation((Pauli(0, 0),), (0.7,)),
        Expectation((), ()),
    )


def random_pauli(rng: np.random.Generator, num_qubits: int) -> Pauli:
    """Any string, the identity too."""
    x, z = rng.integers(1 << num_qubits, size=2).tolist()
    return Pauli(x, z)


def _gate(rng: np.random.Generator, name: str, num_qubits: int) -> Fixed:
    matrix = FIXED[name]
    return Fixed(name, _some(rng, num_qubits, len(matrix).bit_length() - 1), matrix)


def _some(rng: np.random.Generator, num_qubits: int, count: int) -> tuple[int, ...]:
    """That many different qubits, in any order."""
    return tuple(rng.permutation(num_qubits)[:count].tolist())
