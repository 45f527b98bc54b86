"""Lowering: every gate of Qiskit, alone and in random circuits, against Statevector.

The circuit is written twice by one function: with symbols for the kernel, and with numbers for
Qiskit's own simulation, which so never sees a parameter, an angle expression or a Program.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest
from engines import EXACT
from hypothesis import given, strategies as st
from qiskit import QuantumCircuit
from qiskit.circuit import (
    AnnotatedOperation,
    ControlModifier,
    InverseModifier,
    PowerModifier,
    library as lib,
)
from qiskit.quantum_info import (
    Pauli,
    SparsePauliOp,
    Statevector,
    random_statevector,
    random_unitary,
)
from qiskit.synthesis import SuzukiTrotter

import qml
from qml import qkernel
from qml.circuits.gates import FIXED, ROTATIONS

STANDARD = lib.get_standard_gate_name_mapping()
Gates = dict[str, tuple[int, int, Callable[..., Any]]]

COMMUTING = SparsePauliOp(["IXX", "IZZ", "YII"], [0.5, -0.7, 1.3])
NON_COMMUTING = SparsePauliOp(["IXY", "ZZI", "IXI", "III"], [0.5, -0.7, 1.3, 2.0])


def nested(a: Any, b: Any) -> QuantumCircuit:
    """A circuit in a circuit, each with a phase of its own."""
    inner = QuantumCircuit(2, global_phase=a * b)
    inner.cry(a, 1, 0)
    inner.p(b, 1)
    outer = QuantumCircuit(3, global_phase=-a)
    outer.append(inner.to_gate(), [2, 0])
    outer.append(inner.to_gate().inverse(), [1, 2])
    return outer


def evolution(operator: SparsePauliOp, time: Any, synthesis: Any = None) -> Any:
    """For a number its product formula, as Qiskit writes it: Statevector takes the exact matrix.

    Qiskit 2.6 writes none for a time whose parameters cancel, so that is made a number.
    """
    time = 0.0 if str(time) == "0" else time
    gate = lib.PauliEvolutionGate(operator, time, synthesis=synthesis)
    return gate.definition.to_gate() if isinstance(time, float) else gate


def controlled(gate: Any, count: int, state: int) -> Any:
    return gate.control(count, ctrl_state=state, annotated=False)


def diagonal(seed: int, size: int) -> lib.DiagonalGate:
    return lib.DiagonalGate(np.exp(1j * np.random.default_rng(seed).normal(size=size)).tolist())


GATES: Gates = {
    **{
        name: (STANDARD[name].num_qubits, len(STANDARD[name].params), type(STANDARD[name]))
        for name in (*ROTATIONS, *FIXED)
    },
    # The rest of the standard gates.
    **{
        name: (STANDARD[name].num_qubits, len(STANDARD[name].params), type(STANDARD[name]))
        for name in sorted(
            "ch cs csdg csx cswap cu cu1 cu3 ccz dcx ecr iswap r rccx rcccx u2 u3 xx_minus_yy "
            "xx_plus_yy id".split()
        )
    },
    "rv": (1, 0, lambda: lib.RVGate(0.3, -0.8, 1.4)),
    "c3sx": (4, 0, lib.C3SXGate),
    "mcx": (4, 0, lambda: lib.MCXGate(3, ctrl_state=5)),
    "mcphase": (3, 1, lambda a: lib.MCPhaseGate(a, 2)),
    "open crx": (2, 1, lambda a: lib.RXGate(a).control(1, ctrl_state=0)),
    "open cu": (3, 3, lambda a, b, c: controlled(lib.UGate(a, b, c), 2, 1)),
    "ccry": (3, 1, lambda a: controlled(lib.RYGate(a), 2, 3)),
    "cccrz": (4, 1, lambda a: controlled(lib.RZGate(a), 3, 2)),
    "controlled rxx": (3, 1, lambda a: controlled(lib.RXXGate(a), 1, 0)),
    "controlled rzx": (3, 1, lambda a: controlled(lib.RZXGate(a), 1, 1)),
    "controlled xx_plus_yy": (3, 2, lambda a, b: controlled(lib.XXPlusYYGate(a, b), 1, 1)),
    "nested": (3, 2, lambda a, b: nested(a, b).to_instruction()),
    "controlled nested": (4, 2, lambda a, b: controlled(nested(a, b).to_gate(), 1, 0)),
    "inverse u": (1, 3, lambda a, b, c: lib.UGate(a, b, c).inverse()),
    "inverse xx_plus_yy": (2, 2, lambda a, b: lib.XXPlusYYGate(a, b).inverse()),
    "inverse nested": (3, 2, lambda a, b: nested(a, b).to_gate().inverse()),
    "power of rx": (1, 1, lambda a: lib.RXGate(a).power(3)),
    "repeated": (2, 1, lambda a: lib.CRYGate(a).repeat(2)),
    "root of x": (1, 0, lambda: lib.XGate().power(0.3)),
    "annotated control": (3, 1, lambda a: lib.RYGate(a).control(2, 1, annotated=True)),
    "annotated": (
        2,
        1,
        lambda a: AnnotatedOperation(
            lib.RXGate(a), [ControlModifier(1, 0), InverseModifier(), PowerModifier(2)]
        ),
    ),
    "commuting evolution": (3, 1, lambda a: evolution(COMMUTING, a)),
    "non-commuting evolution": (3, 1, lambda a: evolution(NON_COMMUTING, a)),
    "suzuki evolution": (
        3,
        1,
        lambda a: evolution(NON_COMMUTING, a, SuzukiTrotter(2, reps=2)),
    ),
    "controlled evolution": (4, 1, lambda a: controlled(evolution(COMMUTING, a), 1, 1)),
    "pauli": (3, 0, lambda: lib.PauliGate("XYZ")),
    "qft": (3, 0, lambda: lib.QFTGate(3)),
    "permutation": (3, 0, lambda: lib.PermutationGate([2, 0, 1])),
    "diagonal": (2, 0, lambda: diagonal(1, 4)),
    "unitary 1": (1, 0, lambda: lib.UnitaryGate(random_unitary(2, seed=1))),
    "unitary 2": (2, 0, lambda: lib.UnitaryGate(random_unitary(4, seed=2))),
    "unitary 3": (3, 0, lambda: lib.UnitaryGate(random_unitary(8, seed=3))),
    "controlled unitary": (
        2,
        0,
        lambda: controlled(lib.UnitaryGate(random_unitary(2, seed=4)), 1, 1),
    ),
    "state preparation": (2, 0, lambda: lib.StatePreparation(random_statevector(4, seed=5))),
    "linear function": (2, 0, lambda: lib.LinearFunction([[1, 1], [0, 1]])),
    "multiplexer": (2, 0, lambda: lib.UCRYGate([0.3, -1.2])),
}
"""name -> (qubits, angles, the gate for given angles)."""

EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "p": lambda p, q: p,
    "-p": lambda p, q: -p,
    "0.5 p + 1": lambda p, q: 0.5 * p + 1,
    "(p - q) / 3": lambda p, q: (p - q) / 3,
    "2 (p + q) - p": lambda p, q: 2 * (p + q) - p,
    "p q": lambda p, q: p * q,
    "(pi - p) (pi - q)": lambda p, q: (np.pi - p) * (np.pi - q),
    "p**2": lambda p, q: p**2,
    "p**3 / 5": lambda p, q: p**3 / 5,
    "2**q": lambda p, q: 2**q,
    "sin p": lambda p, q: np.sin(p),
    "cos(p q)": lambda p, q: np.cos(p * q),
    "tan(p / 4)": lambda p, q: np.tan(p / 4),
    "exp(-p)": lambda p, q: np.exp(-p),
    "log(p**2 + 1)": lambda p, q: np.log(p**2 + 1),
    "arctan p": lambda p, q: np.arctan(p),
    "arcsin(p / 4)": lambda p, q: np.arcsin(p / 4),
    "arccos(p / 4)": lambda p, q: np.arccos(p / 4),
    "abs p": lambda p, q: abs(p),
    "q / (p**2 + 1)": lambda p, q: q / (p**2 + 1),
    "0 p": lambda p, q: 0 * p,
    "p - p": lambda p, q: p - p,
    "p + q - p": lambda p, q: p + q - p,
    "sin(p) + q - q": lambda p, q: np.sin(p) + q - q,
    "0.7": lambda p, q: 0.7,
    "0": lambda p, q: 0.0,
}

Move = tuple[str, tuple[int, ...], tuple[tuple[str, int, int], ...]]
"""A gate, its qubits, and for every angle an expression of two of the parameters."""

PARAMETERS = 3


@st.composite
def circuits(draw: Callable[..., Any]) -> tuple[int, list[Move]]:
    """(number of qubits, moves)."""
    num_qubits = draw(st.integers(1, 5))
    names = sorted(name for name, (width, _, _) in GATES.items() if width <= num_qubits)
    place = st.integers(0, PARAMETERS - 1)
    angle = st.tuples(st.sampled_from(sorted(EXPRESSIONS)), place, place)
    moves = []
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=6)):
        width, angles, _ = GATES[name]
        qubits = tuple(draw(st.permutations(range(num_qubits)))[:width])
        moves.append((name, qubits, tuple(draw(angle) for _ in range(angles))))
    return num_qubits, moves


def write(qc: QuantumCircuit, moves: Sequence[Move], p: Sequence[Any]) -> None:
    """The moves, between layers that leave no amplitude and no phase unseen."""
    for q in range(qc.num_qubits):
        qc.ry(0.4 + 0.3 * q, q)
        qc.rz(0.9 - 0.2 * q, q)
    for name, qubits, angles in moves:
        gate = GATES[name][2](*(EXPRESSIONS[e](p[i], p[j]) for e, i, j in angles))
        qc.append(gate, qubits)
        qc.global_phase += p[1]
        qc.append(lib.GlobalPhaseGate(p[0] * p[1]), [])
        qc.barrier()
        qc.delay(10, 0)
        qc.ry(p[0], 0)


def values(moves: Sequence[Move], num_qubits: int, p: Any, outputs: Sequence[Any]) -> Any:
    """What Qiskit finds: an expectation value per operator, then all probabilities."""
    qc = QuantumCircuit(num_qubits)
    write(qc, moves, [float(x) for x in p])
    state = Statevector(qc)
    expectations = [state.expectation_value(operator).real for operator in outputs]
    return np.array([*expectations, *state.probabilities()])


def slope(moves: Sequence[Move], num_qubits: int, p: Any, d: Any, outputs: Sequence[Any]) -> Any:
    """The derivative of `values` along d, by central differences of fourth order."""
    near = [values(moves, num_qubits, p + s * 1e-3 * d, outputs) for s in (-2, -1, 1, 2)]
    return np.array([1, -8, 8, -1]) @ near / 12e-3


def kernel_of(moves: Sequence[Move], num_qubits: int, outputs: Sequence[Any]) -> qml.Kernel:
    @qkernel(qubits=num_qubits)
    def kernel(qc: Any, p: Any) -> Any:
        write(qc, moves, p)
        return [*outputs, qml.probs()]

    return kernel


@pytest.mark.parametrize("name", sorted(GATES))
def test_every_gate_has_the_state_and_the_slopes_of_qiskit(name: str) -> None:
    num_qubits, angles, _ = GATES[name]
    p = np.array([0.7, -1.1, 0.4, 2.3])
    move = (name, tuple(reversed(range(num_qubits))), tuple(("p", i, 0) for i in range(angles)))
    labels = map("".join, product("IXYZ", repeat=min(num_qubits, 3)))
    outputs = [Pauli("I" * (num_qubits - len(label)) + label) for label in labels]
    kernel = kernel_of([move], num_qubits, outputs)
    expected = values([move], num_qubits, p, outputs)
    found, jacobian = jax.jit(lambda p: (kernel(p), jax.jacrev(kernel)(p)))(p)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    along = np.array([1.0, -0.6, 0.3, 0.8])
    expected = slope([move], num_qubits, p, along, outputs)
    np.testing.assert_allclose(jacobian @ along, expected, rtol=0, atol=1e-7)


def test_the_table_of_gates_has_no_gate_that_qiskit_does_not_have() -> None:
    assert {*ROTATIONS, *FIXED} <= STANDARD.keys()


@pytest.mark.parametrize("kind", EXACT)
@given(
    circuit=circuits(),
    p=st.lists(st.floats(-3, 3), min_size=PARAMETERS, max_size=PARAMETERS),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_circuits_have_the_values_of_qiskit(
    kind: str, circuit: tuple[int, list[Move]], p: list[float], seed: int
) -> None:
    num_qubits, moves = circuit
    rng = np.random.default_rng(seed)
    labels = ["".join(rng.choice(list("IXYZ"), size=num_qubits)) for _ in range(4)]
    outputs = [SparsePauliOp(labels, rng.normal(size=4)), Pauli(labels[0])]
    kernel = kernel_of(moves, num_qubits, outputs)
    expected = values(moves, num_qubits, p, outputs)
    with qml.use(EXACT[kind]):
        found = jax.jit(kernel)(np.array(p))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@given(
    circuit=circuits(),
    p=st.lists(st.floats(-2, 2), min_size=PARAMETERS, max_size=PARAMETERS),
)
def test_random_circuits_have_the_slopes_of_qiskit(
    circuit: tuple[int, list[Move]], p: list[float]
) -> None:
    num_qubits, moves = circuit
    kinks = [i for _, _, angles in moves for e, i, _ in angles if e == "abs p"]
    point = np.where(np.isin(np.arange(PARAMETERS), kinks), np.abs(p) + 0.1, p)
    outputs = [SparsePauliOp(["X" * num_qubits, "Z" * num_qubits, "Y" * num_qubits], [1, -0.5, 2])]
    kernel = kernel_of(moves, num_qubits, outputs)
    along = np.array([1.0, -0.6, 0.3])
    expected = slope(moves, num_qubits, point, along, outputs)
    both = lambda p: (jax.jvp(kernel, (p,), (along,))[1], jax.jacrev(kernel)(p) @ along)
    forward, reverse = jax.jit(both)(point)  # one compilation for all shapes of this circuit
    np.testing.assert_allclose(forward, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)


def test_initialize_at_the_start_is_a_preparation() -> None:
    state = random_statevector(4, seed=6)

    @qkernel(qubits=2)
    def kernel(qc: Any, t: Any) -> Any:
        qc.initialize(state)
        qc.crx(t, 0, 1)
        return qml.probs()

    qc = QuantumCircuit(2)
    qc.crx(0.6, 0, 1)
    np.testing.assert_allclose(kernel(0.6), state.evolve(qc).probabilities(), atol=1e-10)


def test_a_library_circuit_takes_an_array_of_arguments() -> None:
    ansatz = lib.efficient_su2(3, reps=2)
    features = lib.zz_feature_map(3, reps=2)

    @qkernel(qubits=3)
    def kernel(qc: Any, x: Any, w: Any) -> Any:
        qc.compose(features.assign_parameters(x), inplace=True)
        qc.compose(ansatz.assign_parameters(w.ravel()), inplace=True)
        return [qml.Z(0), qml.Y(1) @ qml.X(2)]

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=3), rng.normal(size=(3, 6))
    qc = features.assign_parameters(x).compose(ansatz.assign_parameters(w.ravel()))
    state = Statevector(qc)
    expected = [state.expectation_value(Pauli(label)).real for label in ("IIZ", "XYI")]
    np.testing.assert_allclose(kernel(x, w), expected, atol=1e-10)


def test_slots_are_one_per_occurrence_and_constants_take_none() -> None:
    @qkernel(qubits=2)
    def kernel(qc: Any, t: Any) -> Any:
        qc.rx(t, 0)
        qc.rx(2 * t, 1)
        qc.ry(0.3, 0)
        qc.rz(0, 0)
        qc.crz(t, 0, 1)
        return qml.Z(0)

    program = kernel.program(0.1)
    assert program.num_slots == 4  # a controlled rotation has two
    assert len(program.operations) == 5  # the rotation by zero is gone
    np.testing.assert_array_equal(program.angles.matrix[:, 0], [1, 2, 0.5, -0.5])


def test_a_unitary_stays_one_operation() -> None:
    @qkernel(qubits=3)
    def kernel(qc: Any) -> Any:
        qc.append(lib.UnitaryGate(random_unitary(8, seed=3)), [0, 1, 2])
        return qml.Z(0)

    assert len(kernel.program().operations) == 1
