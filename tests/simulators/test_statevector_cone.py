"""What no output depends on is not simulated, and changes nothing."""

import jax
import numpy as np
import pytest

import qml
from qml.circuits.program import Rotation
from qml.simulators.statevector.cone import light_cone


def brickwork(outputs, qubits=12, layers=2):
    @qml.qkernel(qubits=qubits)
    def kernel(qc, w):
        for layer in range(layers):
            for q in range(qubits):
                qc.ry(w[layer, q], q)
            for q in range(layer % 2, qubits - 1, 2):
                qc.crx(w[layer, q] * 2, q, q + 1)
        return outputs

    return kernel


W = np.random.default_rng(4).normal(size=(2, 12))


@pytest.mark.parametrize(
    ("outputs", "width"),
    [
        ([qml.Z(0)], 2),
        ([qml.Z(1)], 4),
        ([qml.X(5) @ qml.Z(6), qml.probs(11)], 6),
        ([qml.probs(3, 8)], 8),
        (["I" * 12], 1),
        ([qml.Z(q) for q in range(12)], 12),
    ],
)
def test_only_the_cone_is_simulated_and_the_numbers_are_those_of_the_whole(outputs, width):
    kernel = brickwork(outputs)
    assert light_cone(kernel.program(W)).num_qubits == width

    def results(backend):
        call = lambda w: kernel(w, backend=backend)
        tangent = np.cos(W)
        hessian = jax.jvp(jax.jacrev(call), (W,), (tangent,))[1]
        return call(W), jax.jacrev(call)(W), jax.jvp(call, (W,), (tangent,))[1], hessian

    for found, expected in zip(results("statevector"), results("xla"), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_slots_outside_have_a_derivative_of_exactly_zero():
    kernel = brickwork([qml.Z(0)])
    gradient = np.asarray(jax.grad(lambda w: kernel(w)[0])(W))
    assert (gradient[:, 4:] == 0).all()
    assert (gradient[0, :2] != 0).all()


def test_what_comes_after_the_last_needed_gate_of_a_qubit_is_dropped():
    @qml.qkernel(qubits=2)
    def kernel(qc, w):
        qc.ry(w[0], 0)
        qc.cx(0, 1)
        qc.rx(w[1], 1)
        return qml.Z(0)

    kept = light_cone(kernel.program(np.zeros(2))).operations
    assert [operation.slot for operation in kept if isinstance(operation, Rotation)] == [0]


def test_forty_qubits_fit_where_the_outputs_depend_on_few():
    @qml.qkernel(qubits=40)
    def kernel(qc, w):
        for q in range(40):
            qc.ry(w[q], q)
        for q in range(0, 40, 2):
            qc.cx(q, q + 1)
        return [qml.Z(17) @ qml.Z(30)]

    w = np.linspace(0.1, 2.0, 40)
    expected = np.cos(w[16]) * np.cos(w[17]) * np.cos(w[30])
    np.testing.assert_allclose(kernel(w), [expected], atol=1e-14)
