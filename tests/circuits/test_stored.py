"""A kernel without its function is the kernel that it was, for the shapes it was stored for."""

import copy
import pickle

import jax
import numpy as np
import pytest

import qml
from qml.circuits.archive import pack
from qml.circuits.stored import StoredKernel
from qml.circuits.tracing import trace
from qml.errors import ConfigError, ShapeError
from qml.kernel import kernels


@qml.qkernel(qubits=3, name="test_stored.original")
def original(qc, x, theta, w, depth=2):
    """Affine angles, and every function that a formula can have."""
    for _ in range(depth):
        for q in range(3):
            qc.ry(2 * x[q] - theta[0, q] / 3 + 0.1, q)
        qc.rxx(0.7, 0, 2)
        qc.ryy(theta[1, 0], 1, 0)
        qc.cu(theta[1, 1], 0.2, theta[1, 2], 0.1, 1, 2)
    qc.rz((x[0] * w).sin() + (x[1] * w).cos() - x[2].tan(), 0)
    qc.rx((0.1 * x[0]).arcsin() * (0.1 * w).arccos() + w.arctan(), 1)
    qc.ry(w.exp() - (1 + w**2).log() + abs(x[0]) * x[1].sign(), 2)
    qc.rz((2 + w) ** 0.5 / (1 + w**2), 1)
    return [qml.Z(0), 0.5 * qml.X(1) @ qml.Y(2) - 0.3 * qml.Z(1), qml.probs(2, 0)]


ARGUMENTS = [np.random.default_rng(0).uniform(0.1, 0.9, shape) for shape in ((3,), (2, 3), ())]
TRACE = original.trace(*ARGUMENTS)
TEXT = pack(TRACE.program, TRACE.shape)


def restored(name="test_stored.original"):
    return StoredKernel.read(name, TEXT, TRACE.program.digest)


def test_it_has_the_values_and_derivatives_of_the_original():
    kernel = restored()
    np.testing.assert_allclose(kernel(*ARGUMENTS), original(*ARGUMENTS), atol=1e-14)
    for which in range(3):
        one = jax.jacobian(kernel, which)(*ARGUMENTS)
        np.testing.assert_allclose(one, jax.jacobian(original, which)(*ARGUMENTS), atol=1e-13)
    named = kernel(w=ARGUMENTS[2], x=ARGUMENTS[0], theta=ARGUMENTS[1])
    np.testing.assert_array_equal(named, kernel(*ARGUMENTS))


def test_its_program_is_the_stored_one_and_it_is_not_registered():
    kernel = restored("test_stored.elsewhere")
    assert kernel.program(*ARGUMENTS).digest == TRACE.program.digest
    assert kernel.trace(*ARGUMENTS).shape == TRACE.shape
    assert "test_stored.elsewhere" not in kernels
    assert str(kernel.signature) == "(x, theta, w)"
    assert kernel.num_qubits == 3


def test_its_function_writes_the_circuit_as_a_users_would():
    again = trace(
        lambda circuit, symbols: restored().function(circuit, *symbols),
        "again",
        3,
        TRACE.program.arguments,
    )
    values = qml.qkernel(qubits=3)(restored().function)(*ARGUMENTS)
    assert again.shape == TRACE.shape
    np.testing.assert_allclose(values, original(*ARGUMENTS), atol=1e-12)
    assert "Rx" in restored().draw(*ARGUMENTS)
    names = {parameter.name for parameter in restored().trace(*ARGUMENTS).circuit.parameters}
    assert names == {p.name for p in TRACE.circuit.parameters}


def test_a_single_observable_stays_a_scalar():
    @qml.qkernel(qubits=1)
    def cosine(qc, x):
        qc.rx(x, 0)
        return qml.Z(0)

    found = cosine.trace(0.5)
    kernel = StoredKernel.read("cosine", pack(found.program, found.shape))
    assert kernel(0.5).shape == ()
    np.testing.assert_allclose(jax.grad(kernel)(0.5), -np.sin(0.5), atol=1e-12)


def test_other_shapes_than_the_stored_are_refused():
    with pytest.raises(ShapeError, match=r"one circuit with x: \(3,\), .* with x: \(2,\), theta"):
        restored()(np.zeros(2), *ARGUMENTS[1:])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda k: pickle.loads(pickle.dumps(k))])
def test_a_copy_needs_no_registered_kernel(copied):
    kernel = restored("test_stored.elsewhere")
    other = copied(kernel)
    assert other.name == kernel.name
    assert other.stored == kernel.stored
    np.testing.assert_array_equal(other(*ARGUMENTS), kernel(*ARGUMENTS))


def test_another_digest_is_refused():
    with pytest.raises(ConfigError, match="damaged, or was changed"):
        StoredKernel.read("name", TEXT, "0" * 64)
