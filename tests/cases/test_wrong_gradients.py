"""Wrong gradients that users of other libraries met, on every engine.

One test per fault: its name is the claim, its docstring the public thread. RX(t) = exp(-i t X/2),
and qubit 0 is the least significant.
"""

import functools
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from qiskit import QuantumCircuit
from qiskit.circuit.library import RXGate
from qiskit.quantum_info import SparsePauliOp, Statevector

import qml
from qml import qkernel
from qml.settings import EngineConfig

METHODS = get_args(EngineConfig.model_fields["gradient"].annotation)
GRADIENTS = [method for method in METHODS if method != "spsa"]
"""The exact ones."""

close = functools.partial(np.testing.assert_allclose, rtol=0, atol=6e-7)  # six decimals
exactly = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
within = functools.partial(np.testing.assert_allclose, rtol=0)


def rotated(write, qubits=1, observable=None):
    """The kernel of `write(qc, t)` whose output is Z(0), or another observable."""

    @qkernel(qubits=qubits)
    def kernel(qc, t):
        write(qc, t)
        return qml.Z(0) if observable is None else observable

    return kernel


cosine = rotated(lambda qc, t: qc.rx(t, 0))


def controlled_gate(qc, t):
    qc.crx(t, 0, 1)


def controlled_wrapper(qc, t):
    qc.append(RXGate(t).control(1), [0, 1])


def controlled_in_nested_circuits(qc, t):
    inner = QuantumCircuit(2)
    inner.append(RXGate(t).control(1), [0, 1])
    middle = QuantumCircuit(2)
    middle.append(inner.to_gate(), [0, 1])
    qc.append(middle.to_instruction(), [0, 1])


def controlled_sub_circuit(qc, t):
    inner = QuantumCircuit(1)
    inner.rx(t, 0)
    qc.append(inner.to_gate().control(1), [0, 1])


def open_control(qc, t):
    qc.x(0)
    qc.append(RXGate(t).control(1, ctrl_state=0), [0, 1])
    qc.x(0)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize(
    "write",
    [
        controlled_gate,
        controlled_wrapper,
        controlled_in_nested_circuits,
        controlled_sub_circuit,
        open_control,
    ],
)
def test_a_controlled_rotation_has_both_of_its_frequencies(exact, write, gradient):
    """PennyLaneAI/pennylane#2273 and #2237: -sin(t/2)/2, however the control is written."""

    @qkernel(qubits=2)
    def kernel(qc, t):
        qc.h(0)
        write(qc, t)
        return qml.X(0)

    evaluate = functools.partial(kernel, gradient=gradient)
    close(evaluate(1.0), 0.877583)
    close(jax.grad(evaluate)(1.0), -0.239713)


def test_a_parameter_in_several_gates_gets_the_product_rule(exact):
    """qiskit-community/qiskit-aqua#588, pasqal-io/pyqtorch#149 and #217."""

    def twice(qc, t):
        qc.rx(t, 0)
        qc.rx(t, 0)

    def on_both(qc, t):
        qc.rx(t, [0, 1])

    close(jax.grad(rotated(twice))(0.4), -1.434712)  # -2 sin 2t
    both = rotated(on_both, qubits=2, observable=qml.Z(0) @ qml.Z(1))
    close(jax.grad(both)(0.6), -0.932039)  # -sin 2t


def test_powers_keep_their_inner_derivative(exact):
    """Qiskit/qiskit#16260."""
    close(jax.grad(rotated(lambda qc, p: qc.rx((2 * p) ** 3, 0)))(0.4), -1.881300)
    close(jax.grad(rotated(lambda qc, p: qc.rx(2 ** (3 * p), 0)))(0.2), -3.147064)


def test_a_product_of_inputs_is_differentiated_in_each(exact):
    """The family of Qiskit/qiskit#16260, as in feature maps."""

    @qkernel(qubits=1)
    def feature_map(qc, x):
        qc.h(0)
        qc.p(2 * (np.pi - x[0]) * (np.pi - x[1]), 0)
        qc.h(0)
        return qml.Z(0)

    x = jnp.array([0.3, 0.7])
    close(feature_map(x), 0.258185)
    close(jax.grad(feature_map)(x), [4.717623, 5.490499])


def test_parameters_of_equal_value_stay_different(exact):
    """eclipse-xacc/xacc#563."""

    @qkernel(qubits=1)
    def kernel(qc, w):
        qc.rx(w[0], 0)
        qc.ry(w[1], 0)
        return qml.Z(0)

    close(jax.grad(kernel)(jnp.full(2, np.pi / 4)), [-0.5, -0.5])
    close(jax.grad(kernel)(jnp.zeros(2)), [0, 0])


def test_ten_and_more_parameters_keep_their_order(exact):
    """qiskit-community/qiskit-machine-learning#987, tensorflow/quantum#646."""
    observable = sum((i + 1) * qml.Z(i) for i in range(12))

    @qkernel(qubits=12)
    def vector(qc, w):
        for i in range(12):
            qc.rx(w[i], i)
        return observable

    @qkernel(qubits=12)
    def separate(qc, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11):
        for i, w in enumerate((w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11)):
            qc.rx(w, i)
        return observable

    w = 0.1 * jnp.arange(1, 13)
    gradient = jax.grad(vector)(w)
    exactly(gradient, -np.arange(1, 13) * np.sin(w))
    close(gradient[jnp.array([2, 10, 11])], [-0.886561, -9.803281, -11.184469])
    exactly(jax.grad(separate, argnums=tuple(range(12)))(*w), gradient)


def test_inputs_and_weights_bind_by_name_not_by_spelling(exact):
    """qiskit-community/qiskit-machine-learning#671."""

    def write(qc, z, a):
        qc.rx(z, 0)
        qc.rz(0.4, 0)
        qc.rx(a, 0)
        return qml.Y(0)

    @qkernel(qubits=1)
    def z_first(qc, z, a):
        return write(qc, z, a)

    @qkernel(qubits=1)
    def a_first(qc, a, z):
        return write(qc, z, a)

    found = [z_first(0.3, 1.1), a_first(1.1, 0.3), z_first(a=1.1, z=0.3), a_first(z=0.3, a=1.1)]
    close(found, np.full(4, -0.974868))
    exactly(jax.grad(a_first, 0)(1.1, 0.3), jax.grad(z_first, 1)(0.3, 1.1))


SECOND = {
    "grad of grad": lambda f: jax.grad(jax.grad(f)),
    "hessian": jax.hessian,
    "jacfwd of grad": lambda f: jax.jacfwd(jax.grad(f)),
    "jacrev of grad": lambda f: jax.jacrev(jax.grad(f)),
    "grad of jacfwd": lambda f: jax.grad(jax.jacfwd(f)),
}


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("second", SECOND)
def test_a_second_derivative_is_not_zero(exact, second, jit):
    """PennyLaneAI/pennylane#5234: cos(1.2) sin(3.4)."""

    def write(qc, x):
        qc.ry(x, 0)
        qc.rx(3.4, 0)

    kernel = rotated(write, observable=qml.Y(0))
    close(jit(SECOND[second](kernel))(1.2), -0.092597)
    close(SECOND[second](jit(kernel))(1.2), -0.092597)


def test_a_second_derivative_after_a_classical_layer_is_complete(exact):
    """PennyLaneAI/pennylane#9901: a detached Jacobian gives +0.620383."""
    f = lambda x: cosine(jnp.tanh(1.7 * x + 0.2))
    close(jax.grad(jax.grad(f))(0.1), -1.453610)
    close(jax.jit(jax.hessian(f))(0.1), -1.453610)


def test_a_loss_on_a_force_reaches_the_weights(exact):
    """PennyLaneAI/pennylane#3146."""

    @qkernel(qubits=1)
    def energy(qc, x, w):
        qc.rx(x, 0)
        qc.rx(w, 0)
        return qml.Z(0)

    force = lambda x, w: -jax.grad(energy)(x, w)
    loss = lambda w: (force(0.3, w) - 0.2) ** 2
    close(-jax.grad(force, 1)(0.3, 0.4), -0.764842)
    exactly(jax.grad(loss)(0.4), 2 * (np.sin(0.7) - 0.2) * np.cos(0.7))


def test_the_second_derivative_at_zero_is_whole(exact):
    """PennyLaneAI/pennylane#1125."""
    exactly(jax.grad(jax.grad(cosine))(0.0), -1)
    exactly(jax.hessian(cosine)(0.0), -1)


@pytest.mark.parametrize("weight", [0, np.int32(0), np.zeros((), int), jnp.zeros((), jnp.int32)])
def test_integer_weights_never_have_a_derivative_of_zero(exact, weight):
    """PennyLaneAI/pennylane#4835: JAX refuses them, and as values they are promoted."""

    def write(qc, w):
        qc.h(0)
        qc.ry(w, 0)

    kernel = rotated(write)
    with pytest.raises(TypeError, match="real- or complex-valued inputs"):
        jax.grad(kernel)(weight)
    exactly(jax.grad(kernel)(jnp.asarray(weight, float)), -1)
    assert jnp.issubdtype(kernel(weight).dtype, jnp.floating)
    exactly(kernel(weight + 1), kernel(1.0))
    exactly(jax.grad(lambda s: kernel(s * weight + s))(1.0), -np.cos(1.0))


def test_probabilities_without_a_list_of_qubits_have_a_derivative(exact):
    """PennyLaneAI/pennylane#5840: sin(t)/2 for the outcome 1."""
    everything = rotated(lambda qc, t: qc.rx(t, 0), observable=qml.probs())
    close(jax.jacrev(everything)(0.1), [-0.049917, 0.049917])
    close(jax.jacfwd(everything)(0.1), [-0.049917, 0.049917])


def test_the_arrays_of_the_caller_are_left_alone(exact):
    """PennyLaneAI/demos#1050."""

    @qkernel(qubits=1)
    def kernel(qc, w):
        qc.rx(w[0], 0)
        qc.rz(w[1], 0)
        return qml.Z(0)

    w = np.array([0.3, 0.1])
    before = w.tobytes()
    close(jax.grad(kernel)(w), [-0.295520, 0])
    jax.hessian(kernel)(w)
    assert w.tobytes() == before


def test_a_parameter_in_the_global_phase_is_harmless(exact):
    """Qiskit/qiskit-aer#1795, Qiskit/qiskit#10283."""

    def phase_and_rotation(qc, t):
        qc.global_phase = t
        qc.rx(2 * t, 0)

    def phase_in_a_definition(qc, t):
        gate = QuantumCircuit(1, global_phase=t)
        gate.rx(2 * t, 0)
        qc.append(gate.to_gate(), [0])

    def phase_alone(qc, t):
        gate = QuantumCircuit(1, global_phase=-t)
        qc.append(gate.to_gate(), [0])
        qc.global_phase += 3 * t
        qc.ry(0.3, 0)

    for write in (phase_and_rotation, phase_in_a_definition):
        close(jax.grad(rotated(write))(0.4), -1.434712)
    exactly(rotated(phase_alone)(0.4), np.cos(0.3))
    assert jax.grad(rotated(phase_alone))(0.4) == 0


def test_a_phase_under_a_control_is_not_global(exact):
    """The other side of Qiskit/qiskit#10283: H, controlled phase, H is <Z> = cos t."""

    def kickback(qc, t):
        gate = QuantumCircuit(1, global_phase=t)
        qc.h(0)
        qc.append(gate.to_gate().control(1), [0, 1])
        qc.h(0)

    kernel = rotated(kickback, qubits=2)
    exactly(kernel(0.4), np.cos(0.4))
    exactly(jax.grad(kernel)(0.4), -np.sin(0.4))


def test_nothing_to_train_is_no_error(exact):
    """PennyLaneAI/catalyst#813, qiboteam/qiboml#144."""

    @qkernel(qubits=1)
    def plus(qc, x, w, unused):
        qc.h(0)
        return qml.X(0)

    nothing = jnp.zeros(0)
    exactly(plus(nothing, nothing, 0.5), 1)
    gradients = jax.grad(plus, (0, 1, 2))(nothing, nothing, 0.5)
    assert [g.shape for g in gradients] == [(0,), (0,), ()]
    assert gradients[2] == 0

    @qkernel(qubits=1)
    def constant(qc):
        qc.h(0)
        return [qml.X(0), qml.Z(0)]

    exactly(constant(), [1, 0])
    exactly(jax.jit(constant)(), [1, 0])


def test_nothing_to_train_is_no_error_with_shots(sampling):
    """PennyLaneAI/catalyst#813 with shots; an unused weight has derivative 0 exactly."""

    @qkernel(qubits=1)
    def plus(qc, w, unused):
        qc.h(0)
        return [qml.X(0), qml.Z(0)]

    with qml.use({**sampling, "shots": 1000}):
        x, z = plus(jnp.zeros(0), 0.5)
        assert x == 1 and abs(z) < 0.2
        nothing, unused = jax.jacrev(plus, (0, 1))(jnp.zeros(0), 0.5)
        assert nothing.shape == (2, 0)
        np.testing.assert_array_equal(unused, [0, 0])


def test_signs_and_two_qubit_generators_are_right(exact):
    """qiboteam/qibo#1637: +cos 0.7 and -sin 0.9."""
    minus = rotated(lambda qc, t: qc.rx(-t, 0), observable=qml.Y(0))
    close(jax.grad(minus)(0.7), 0.764842)
    ising = rotated(lambda qc, t: qc.rxx(t, 0, 1), qubits=2)
    close(jax.grad(ising)(0.9), -0.783327)


@pytest.mark.parametrize(
    "write",
    [
        lambda qc, t: qc.rzx(t, 0, 1),
        lambda qc, t: qc.rzz(t, 0, 1),
        lambda qc, t: qc.ryy(t, 0, 1),
        lambda qc, t: qc.cp(t, 0, 1),
        lambda qc, t: qc.u(t, t, t, 1),
        lambda qc, t: qc.cu(t, t, t, t, 1, 0),
    ],
    ids=["rzx", "rzz", "ryy", "cp", "u", "cu"],
)
def test_gates_that_hold_a_parameter_several_times_equal_finite_differences(exact, write):
    """qiboteam/qibo#1637."""
    observable = qml.X(0) @ qml.Y(1) + 0.5 * qml.Z(1) - 0.7 * qml.X(1)

    def circuit(qc, t):
        qc.ry(0.3, 0)
        qc.rx(1.1, 1)
        write(qc, t)
        qc.cx(0, 1)

    def value(t):
        qc = QuantumCircuit(2)
        circuit(qc, t)
        operator = SparsePauliOp.from_list([("YX", 1), ("ZI", 0.5), ("XI", -0.7)])
        return Statevector(qc).expectation_value(operator).real

    kernel = rotated(circuit, qubits=2, observable=observable)
    exactly(kernel(0.8), value(0.8))
    within(jax.grad(kernel)(0.8), (value(0.8 + 1e-5) - value(0.8 - 1e-5)) / 2e-5, atol=1e-7)


def test_derivatives_agree_with_finite_differences_to_second_order(exact):
    """All of these faults at once: forward and reverse, both orders."""

    @qkernel(qubits=2)
    def kernel(qc, a, b):
        qc.ry(a, 0)
        qc.crx(b, 0, 1)
        qc.ry(a * b, 1)
        return [qml.Z(1), qml.X(0)]

    check_grads(kernel, (0.5, 0.8), order=2, modes=("fwd", "rev"), atol=1e-4, rtol=1e-4)
