"""Values, gradients and Hessians of random circuits against PennyLane's own backpropagation."""

from functools import partial

import jax
import numpy as np
import pennylane as qp
import pytest
from hypothesis import given, strategies as st
from qiskit.circuit import library as lib
from qiskit.quantum_info import SparsePauliOp

import qml
from qml import qkernel

# Going backward, Autograd says so where it takes the real part for the gradient of a real angle.
pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real")

EVOLVED = SparsePauliOp(["YX", "ZZ"])  # the terms commute

# name -> (qubits, angles, Qiskit's gate, PennyLane's operation on the same wires)
GATES = {
    "h": (1, 0, lib.HGate, qp.Hadamard),
    "sx": (1, 0, lib.SXGate, qp.SX),
    "t": (1, 0, lib.TGate, qp.T),
    "cx": (2, 0, lib.CXGate, qp.CNOT),
    "cz": (2, 0, lib.CZGate, qp.CZ),
    "cy": (2, 0, lib.CYGate, qp.CY),
    "swap": (2, 0, lib.SwapGate, qp.SWAP),
    "iswap": (2, 0, lib.iSwapGate, qp.ISWAP),
    "ccx": (3, 0, lib.CCXGate, qp.Toffoli),
    "cswap": (3, 0, lib.CSwapGate, qp.CSWAP),
    "rx": (1, 1, lib.RXGate, qp.RX),
    "ry": (1, 1, lib.RYGate, qp.RY),
    "rz": (1, 1, lib.RZGate, qp.RZ),
    "p": (1, 1, lib.PhaseGate, qp.PhaseShift),
    "u": (1, 3, lib.UGate, qp.U3),
    "crx": (2, 1, lib.CRXGate, qp.CRX),
    "cry": (2, 1, lib.CRYGate, qp.CRY),
    "crz": (2, 1, lib.CRZGate, qp.CRZ),
    "cp": (2, 1, lib.CPhaseGate, qp.ControlledPhaseShift),
    "rxx": (2, 1, lib.RXXGate, qp.IsingXX),
    "ryy": (2, 1, lib.RYYGate, qp.IsingYY),
    "rzz": (2, 1, lib.RZZGate, qp.IsingZZ),
    "rzx": (2, 1, lib.RZXGate, lambda a, wires: qp.PauliRot(a, "ZX", wires)),
    "xx_plus_yy": (2, 1, lib.XXPlusYYGate, lambda a, wires: qp.IsingXY(-a, wires)),
    "ccry": (
        3,
        1,
        lambda a: lib.RYGate(a).control(2, ctrl_state=1, annotated=False),
        lambda a, wires: qp.ctrl(qp.RY(a, wires[2]), wires[:2], control_values=[1, 0]),
    ),
    "evolution": (
        2,
        1,
        lambda a: lib.PauliEvolutionGate(EVOLVED, a),
        lambda a, wires: [qp.PauliRot(2 * a, "XY", wires), qp.IsingZZ(2 * a, wires)],
    ),
}

PARAMETERS = 3


@st.composite
def circuits(draw):
    num_qubits = draw(st.integers(1, 4))
    names = sorted(name for name, entry in GATES.items() if entry[0] <= num_qubits)
    place = st.integers(0, PARAMETERS - 1)
    moves = []
    for name in draw(st.lists(st.sampled_from(names), min_size=2, max_size=8)):
        width, angles, *_ = GATES[name]
        wires = tuple(draw(st.permutations(range(num_qubits)))[:width])
        scale = draw(st.sampled_from([1.0, -0.5, 2.0]))
        moves.append((name, wires, scale, [(draw(place), draw(place)) for _ in range(angles)]))
    return num_qubits, moves


def angles_of(p, scale, places):
    """Affine where both places agree, else a product."""
    return [scale * p[i] + 0.3 if i == j else scale * p[i] * p[j] for i, j in places]


def ours(num_qubits, moves):
    @qkernel(qubits=num_qubits)
    def kernel(qc, p):
        for q in range(num_qubits):
            qc.ry(p[0] + 0.3 * q, q)
        for name, wires, scale, places in moves:
            qc.append(GATES[name][2](*angles_of(p, scale, places)), wires)
        last = num_qubits - 1
        return [qml.X(0) + 0.5 * qml.Z(last), qml.Y(last), qml.probs(*range(num_qubits))]

    return kernel


def theirs(num_qubits, moves):
    @qp.qnode(qp.device("default.qubit", wires=num_qubits), diff_method="backprop")
    def node(p):
        for q in range(num_qubits):
            qp.RY(p[0] + 0.3 * q, q)
        for name, wires, scale, places in moves:
            GATES[name][3](*angles_of(p, scale, places), wires=list(wires))
        last = num_qubits - 1
        # Wire 0 is the most significant bit there.
        little = list(reversed(range(num_qubits)))
        both = qp.expval(qp.X(0) + 0.5 * qp.Z(last)), qp.expval(qp.Y(last))
        return *both, qp.probs(wires=little)

    return lambda p: qp.numpy.hstack(node(p))


close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)


@given(circuits(), st.lists(st.floats(-3, 3), min_size=PARAMETERS, max_size=PARAMETERS))
def test_values_and_gradients_of_random_circuits_are_those_of_pennylane(circuit, p):
    kernel, node = ours(*circuit), theirs(*circuit)
    value, jacobian = jax.jit(lambda p: (kernel(p), jax.jacrev(kernel)(p)))(np.array(p))
    p = qp.numpy.array(p)
    close(value, node(p))
    close(jacobian, qp.jacobian(node)(p))


HESSIANS = [
    (2, [("crx", (0, 1), 1.0, [(0, 0)]), ("u", (1,), -0.5, [(1, 1), (0, 2), (2, 2)])]),
    (
        3,
        [
            ("rxx", (0, 2), 2.0, [(0, 1)]),
            ("ccry", (2, 0, 1), 1.0, [(2, 2)]),
            ("cp", (1, 2), 1.0, [(0, 0)]),
            ("rx", (0,), -0.5, [(1, 1)]),
        ],
    ),
]


@pytest.mark.parametrize("circuit", HESSIANS)
def test_hessians_are_those_of_pennylane_and_of_differences_of_gradients(circuit):
    p = np.array([0.4, -1.2, 0.8])
    kernel = ours(*circuit)
    found = jax.hessian(kernel)(p)
    close(found, qp.jacobian(qp.jacobian(theirs(*circuit)))(qp.numpy.array(p)))
    jacobian = jax.jit(jax.jacrev(kernel))
    steps = 1e-5 * np.eye(PARAMETERS)
    differences = [(jacobian(p + step) - jacobian(p - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(found, np.stack(differences, axis=-1), atol=1e-8)
