"""Names of kernels: what is replaced, what is refused, and what is found."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qml
from qml import kernels, qkernel
from qml.errors import KernelNameError, UnknownNameError

exactly = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)


def cosine_of(scale, **keywords):
    @qkernel(qubits=1, **keywords)
    def scaled(qc, t):
        qc.rx(scale * t, 0)
        return qml.Z(0)

    return scaled


def test_automatic_names_are_replaced_on_redefinition():
    first, second = cosine_of(1), cosine_of(2)
    assert first.name == second.name == f"{__name__}.cosine_of.<locals>.scaled"
    assert kernels[first.name] is second
    exactly([first(0.3), second(0.3)], np.cos([0.3, 0.6]))


def test_an_explicit_name_may_be_taken_again_by_the_same_function():
    first = cosine_of(2, name="tests.same")
    second = cosine_of(2, name="tests.same")
    assert kernels["tests.same"] is second is not first


def write(qc, t, factor):
    qc.rx(factor * t, 0)
    return qml.Z(0)


def of_closure(value):
    return lambda qc, t: write(qc, t, float(np.sum(jax.tree.leaves(value))))


def of_default(value):
    def function(qc, t, factor=value):
        return write(qc, t, factor)

    return function


def of_keyword_default(value):
    def function(qc, t, *, factor=value):
        return write(qc, t, factor)

    return function


def of_constant(value):
    scope = {"write": write}
    exec(f"def function(qc, t): return write(qc, t, {value!r})", scope)
    return scope["function"]


def of_inner_function(value):
    scope = {"write": write}
    exec(f"def function(qc, t): return (lambda: write(qc, t, {value!r}))()", scope)
    return scope["function"]


def of_late_cell(value):
    def function(qc, t):
        return write(qc, t, later)

    yielded = qkernel(qubits=1, name="tests.late")(function)
    later = value
    return yielded


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (of_closure, 1, 2),
        (of_closure, 1, 1.0),
        (of_closure, np.array([1, 2]), np.array([1, 3])),
        (of_closure, jnp.array([1, 2]), jnp.array([1, 3])),
        (of_closure, [np.array([1, 2])], [np.array([1, 3])]),
        (of_closure, {"w": np.array([1, 2])}, {"w": np.array([1, 3])}),
        (of_closure, {"w": 1}, {"w": 2}),
        (of_default, 1, 2),
        (of_keyword_default, 1, 2),
        (of_constant, 1, 2),
        (of_constant, 1, 1.0),
        (of_inner_function, 1, 2),
    ],
)
def test_an_explicit_name_is_refused_to_another_function(make, one, other, request):
    name = request.node.nodeid
    first = qkernel(qubits=1, name=name)(make(one))
    again = qkernel(qubits=1, name=name)(make(one))
    with pytest.raises(KernelNameError, match="belongs to another kernel.*Choose another name"):
        qkernel(qubits=1, name=name)(make(other))
    assert kernels[name] is again is not first
    exactly(again(0.1), first(0.1))


def test_an_explicit_name_is_refused_to_another_width_or_code():
    qkernel(qubits=1, name="tests.width")(lambda qc: qml.Z(0))
    with pytest.raises(KernelNameError):
        qkernel(qubits=2, name="tests.width")(lambda qc: qml.Z(0))
    with pytest.raises(KernelNameError):
        qkernel(qubits=1, name="tests.width")(lambda qc: qml.X(0))


def test_a_closure_that_is_not_filled_yet_is_no_error():
    of_late_cell(1)
    exactly(of_late_cell(1)(0.3), np.cos(0.3))


def test_the_registry_is_a_mapping_that_names_the_nearest():
    cosine_of(1, name="tests.cosine")
    with pytest.raises(UnknownNameError, match=r"'tests.cosin'.*did you mean 'tests.cosine'\?"):
        kernels["tests.cosin"]
    assert "tests.cosine" in kernels and "tests.cosin" not in kernels
    assert kernels.get("tests.cosin") is None
    assert kernels["tests.cosine"].name in list(kernels)
