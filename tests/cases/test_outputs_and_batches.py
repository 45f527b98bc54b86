"""Outputs, bit order, batches and types that users of other libraries got wrong, on every engine.

One test per fault: its name is the claim, its docstring the public thread. RX(t) = exp(-i t X/2),
and qubit 0 is the least significant.
"""

import functools
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from qiskit import QuantumCircuit
from qiskit.quantum_info import Pauli, SparsePauliOp, Statevector

import qml
from qml import qkernel
from qml.errors import ObservableError
from qml.settings import EngineConfig

GRADIENTS = get_args(EngineConfig.model_fields["gradient"].annotation)
"""Here "spsa" is as exact as the others: the kernels that are differentiated have one slot."""

close = functools.partial(np.testing.assert_allclose, rtol=0, atol=6e-7)  # six decimals
exactly = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
within = functools.partial(np.testing.assert_allclose, rtol=0)


@qkernel(qubits=1)
def cosine(qc, t):
    qc.rx(t, 0)
    return qml.Z(0)


@pytest.mark.parametrize(
    "observable",
    [(0.2 + 0.7j) * qml.Z(0), SparsePauliOp("Z", 0.2 + 0.7j), SparsePauliOp(Pauli("iZ"))],
)
def test_a_complex_observable_is_refused_and_the_next_call_is_right(
    with_or_without_shots, observable
):
    """PennyLaneAI/pennylane#6076, Qiskit/qiskit#11933."""

    @qkernel(qubits=1)
    def wrong(qc, t):
        qc.rx(t, 0)
        return observable

    with pytest.raises(ObservableError, match="complex coefficients"):
        wrong(0.3)
    within(cosine(0.3), np.cos(0.3), atol=0.02)


@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (2, 3), (3, 3)])
def test_batch_and_observables_make_an_outer_product(exact, rows, columns):
    """NVIDIA/cuda-quantum#776: also where both are three, and a zip would go unnoticed."""
    observables = [qml.Z(0), qml.Z(1), qml.Z(0) @ qml.Z(1)][:columns]

    @qkernel(qubits=2)
    def kernel(qc, x):
        qc.ry(x[0], 0)
        qc.ry(x[1], 1)
        return observables

    x = jnp.linspace(0.1, 1.2, 2 * rows).reshape(rows, 2)
    c = np.cos(x)
    expected = np.stack([c[:, 0], c[:, 1], c[:, 0] * c[:, 1]], axis=1)[:, :columns]
    found = jax.vmap(kernel)(x)
    assert found.shape == (rows, columns)
    exactly(found, expected)
    exactly(jax.jit(jax.vmap(kernel))(x), expected)


@qkernel(qubits=2)
def bell(qc, t):
    """A Bell pair at t = pi/2: XX = sin t, YY = -sin t, ZZ = 1, ZI = cos t."""
    qc.ry(t, 0)
    qc.cx(0, 1)
    return ["XX", Pauli("YY"), SparsePauliOp("ZZ"), "ZI"]


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_outputs_need_not_commute(exact, gradient):
    """PennyLaneAI/pennylane#5316."""
    t = np.pi / 2
    exactly(bell(t), [1, -1, 1, 0])
    jacobian = jax.jacrev(functools.partial(bell, gradient=gradient))
    exactly(jacobian(t), [0, 0, 0, -1])
    exactly(jacobian(0.7), [np.cos(0.7), -np.cos(0.7), 0, -np.sin(0.7)])


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_outputs_need_not_commute_with_shots(sampling, gradient):
    """PennyLaneAI/pennylane#5316; XX, YY and ZZ of a Bell pair have no variance."""
    t = np.pi / 2
    with qml.use({**sampling, "shots": 10_000}):
        values = bell(t)
        np.testing.assert_array_equal(values[:3], [1, -1, 1])
        assert abs(values[3]) < 0.05
        jacobian = jax.jacrev(functools.partial(bell, gradient=gradient))
        within(jacobian(t), [0, 0, 0, -1], atol=0.05)


@qkernel(qubits=2)
def two_angles(qc):
    qc.ry(0.5, 0)
    qc.ry(2.0, 1)
    return qml.probs(0, 1)


@qkernel(qubits=3)
def flipped(qc):
    qc.x(0)
    return ["ZII", "IIZ", qml.Z(0), qml.Z(2)]


def test_qubit_0_is_the_least_significant_bit(exact):
    """Qiskit/qiskit#1148, oqc-community/qat#116, qiskit-optimization#97."""
    close(two_angles(), [0.274058, 0.017868, 0.664733, 0.043340])
    exactly(flipped(), [1, -1, -1, 1])


def test_qubit_0_is_the_least_significant_bit_with_shots(sampling):
    """Qiskit/qiskit#1148, oqc-community/qat#116, qiskit-optimization#97."""
    with qml.use({**sampling, "shots": 20_000}):
        within(two_angles(), [0.274058, 0.017868, 0.664733, 0.043340], atol=0.015)
        np.testing.assert_array_equal(flipped(), [1, -1, -1, 1])


@pytest.mark.slow
def test_idle_qubits_change_no_value(exact):
    """Qiskit/qiskit-aer#2442: 200 random observables on 6 qubits, 3 of them touched."""
    rng = np.random.default_rng(2442)
    for _ in range(8 if exact.kind == "xla" else 40):  # XLA compiles every circuit
        a, b, c = map(int, rng.permutation(6)[:3])
        angles = rng.uniform(-3, 3, size=3)
        labels = []
        for weight in rng.integers(1, 4, size=5):
            letters = ["I"] * 6
            for qubit in rng.permutation(6)[:weight]:
                letters[qubit] = str(rng.choice(list("XYZ")))
            labels.append("".join(letters))

        def write(qc, w, a=a, b=b, c=c):
            qc.ry(w[0], a)
            qc.cx(a, b)
            qc.rx(w[1], b)
            qc.h(c)
            qc.cz(b, c)
            qc.ry(w[2], c)

        @qkernel(qubits=6)
        def kernel(qc, w, write=write, labels=labels):
            write(qc, w)
            return labels

        qc = QuantumCircuit(6)
        write(qc, angles)
        state = Statevector(qc)
        exactly(kernel(angles), [state.expectation_value(Pauli(p)).real for p in labels])


# --- batches, shapes, types


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_every_entry_of_a_batch_is_used(exact, jit):
    """PennyLaneAI/pennylane#2762."""

    @qkernel(qubits=2)
    def kernel(qc, x):
        qc.rx(x, 0)
        qc.cx(0, 1)
        return qml.Z(1)

    close(jit(jax.vmap(kernel))(jnp.array([0.3, 0.6])), [0.955336, 0.825336])


@qkernel(qubits=2)
def product(qc, a, b):
    """cos a cos b"""
    qc.ry(a, 0)
    qc.ry(b, 1)
    return qml.Z(0) @ qml.Z(1)


def test_vmap_nests_over_any_axis_and_any_subset_of_arguments(exact):
    """PennyLaneAI/pennylane#3492 and #5240."""
    x = jnp.linspace(-1, 2, 24).reshape(4, 3, 2)
    single = lambda row: product(row[0], row[1])
    expected = np.cos(x[..., 0]) * np.cos(x[..., 1])
    exactly(jax.vmap(jax.vmap(single))(x), expected)
    exactly(jax.vmap(jax.vmap(single), 1)(x), expected.T)
    exactly(jax.vmap(jax.vmap(single, 1), 0)(jnp.swapaxes(x, 1, 2)), expected)
    exactly(jax.vmap(product, (0, None))(x[:, 0, 0], 0.4), np.cos(x[:, 0, 0]) * np.cos(0.4))
    hessian = jax.hessian(lambda p: product(p[0], p[1]))(jnp.array([0.5, 0.8]))
    close(hessian, [[-0.611418, 0.343919], [0.343919, -0.611418]])


def test_the_gradient_of_a_batch_is_that_of_its_entries(exact):
    """PennyLaneAI/catalyst#1912, tencent-quantum-lab/tensorcircuit#229."""
    x = jnp.array([0.1, 0.2, 0.3])
    expected = [-0.099833, -0.198669, -0.295520]
    for transform in (jax.grad, lambda f: jax.jit(jax.grad(f)), lambda f: jax.grad(jax.jit(f))):
        close(transform(lambda x: jax.vmap(cosine)(x).sum())(x), expected)
    close(jax.vmap(jax.grad(cosine))(x), expected)


def test_a_batched_input_has_a_derivative(exact):
    """PennyLaneAI/pennylane#4462 and #6078: a diagonal, zeros elsewhere."""
    x = jnp.array([0.1, 0.2])
    for jacobian in (jax.jacrev, jax.jacfwd):
        found = jacobian(jax.vmap(cosine))(x)
        close(found, np.diag([-0.099833, -0.198669]))
        assert found[0, 1] == found[1, 0] == 0


@pytest.mark.parametrize("make", [list, tuple], ids=["list", "tuple"])
def test_outputs_are_the_last_axis_of_any_batch(exact, make):
    """PennyLaneAI/pennylane#5762, #9284 and #5704."""

    @qkernel(qubits=2)
    def pair(qc, x):
        qc.ry(x[0], 0)
        qc.ry(x[1], 1)
        return make([qml.Z(0), qml.Z(1)])

    for batch in (1, 3, 0):
        x = jnp.linspace(0, 1, 2 * batch).reshape(batch, 2)
        assert jax.vmap(pair)(x).shape == (batch, 2)
        exactly(jax.vmap(pair)(x), np.cos(x))
        gradient = jax.grad(lambda x: jax.vmap(pair)(x).sum())(x)
        assert gradient.shape == (batch, 2)
        exactly(gradient, -np.sin(x))
    assert pair(jnp.zeros(2)).shape == (2,)
    x = jnp.linspace(0, 1, 12).reshape(2, 3, 2)
    exactly(jax.vmap(jax.vmap(pair))(x), np.cos(x))


def test_a_single_observable_is_a_scalar_and_a_list_of_one_is_not(exact):
    """PennyLaneAI/pennylane#5762, #9284 and #5704."""

    @qkernel(qubits=1)
    def one(qc, t):
        qc.rx(t, 0)
        return [qml.Z(0)]

    assert cosine(0.3).shape == () and one(0.3).shape == (1,)
    assert jax.vmap(cosine)(jnp.zeros(1)).shape == (1,)
    assert jax.vmap(one)(jnp.zeros(1)).shape == (1, 1)
    weights = jnp.ones(3)
    empty = jax.grad(lambda w: jax.vmap(lambda x: cosine(x + w.sum()))(jnp.zeros(0)).sum())
    np.testing.assert_array_equal(empty(weights), np.zeros(3))


@pytest.mark.parametrize(
    ("given", "found"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32",) * 2, ("float64",) * 2],
)
def test_the_dtype_of_the_arguments_is_that_of_the_result(exact, given, found):
    """PennyLaneAI/pennylane#8092 and #2105, merlinquantum/merlin#26."""
    x = jnp.asarray(0.5, given)
    for f in (cosine, jax.jit(cosine), lambda x: jax.vmap(cosine)(x[None])[0]):
        assert f(x).dtype == found
    assert jax.grad(cosine)(x).dtype == given
    atol = 1e-5 if given == found else 5e-3
    within(np.asarray(jax.grad(cosine)(x), float), -np.sin(0.5), atol=atol)
    mixed = product(x, jnp.float32(0.1))
    assert mixed.dtype == ("float64" if given == "float64" else "float32")
