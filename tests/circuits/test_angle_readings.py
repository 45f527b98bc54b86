"""Angles as users write them: random arithmetic on arguments, against Qiskit's own numbers."""

import jax
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from qiskit.circuit.exceptions import CircuitError

import qml
from qml.errors import TracingError

POINT = (0.7, 1.3, 0.4)
UNARY = {
    "-": lambda a: -a,
    "sin": lambda a: a.sin() if hasattr(a, "sin") else np.sin(a),
    "cos": lambda a: a.cos() if hasattr(a, "cos") else np.cos(a),
    "exp2": lambda a: 2**a,
    "square": lambda a: a**2,
}
BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}
leaves = st.one_of(st.integers(0, 2), st.sampled_from([0.5, 2.0, -3.0]))
trees = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), parts),
        st.tuples(st.sampled_from(sorted(BINARY)), parts, parts),
    ),
    max_leaves=6,
)


def evaluate(tree, x):
    """The expression of a tree on x, an array of numbers or of parameters."""
    if isinstance(tree, int):
        return x[tree]
    if isinstance(tree, float):
        return tree
    if len(tree) == 2:
        return UNARY[tree[0]](evaluate(tree[1], x))
    return BINARY[tree[0]](*(evaluate(part, x) for part in tree[1:]))


def kernel_of(angle):
    @qml.qkernel(qubits=1)
    def kernel(qc, x):
        qc.rx(angle(x), 0)
        return qml.Z(0)

    return kernel


@given(trees)
def test_any_arithmetic_is_read_as_it_was_written(tree):
    try:
        expected = float(evaluate(tree, np.array(POINT)))
    except (ZeroDivisionError, OverflowError):
        assume(False)
    assume(np.isfinite(expected) and abs(expected) < 1e3)
    try:
        value = kernel_of(lambda x: evaluate(tree, x))(np.array(POINT))
    except (TracingError, CircuitError, ZeroDivisionError):
        assume(False)  # no value in Qiskit itself, such as a division by zero, or refused
    np.testing.assert_allclose(value, np.cos(expected), atol=1e-9)


@pytest.mark.parametrize(
    ("angle", "expected"),
    [
        (lambda x: 1 / (-(x[0] * x[1])), -1 / 0.91),
        (lambda x: x[0] / (-x[1] * x[2]), -0.7 / 0.52),
        (lambda x: x[0] / (-(x[1] / x[2])), -0.7 / 3.25),
        (lambda x: 1 / (-(x[0].sin() * x[1])), -1 / (np.sin(0.7) * 1.3)),
        (lambda x: 2 ** (3 * x[0]), 2**2.1),
        (lambda x: x[0] ** 2 + 0 * x[1], 0.49),
        (lambda x: x[0] ** 2 * (x[1] / x[1]), 0.49),
        (lambda x: (x[0] + 1j) * (x[0] - 1j), 1.49),
        (lambda x: (x[0] - 20).exp(), np.exp(-19.3)),
        (lambda x: (x[0] + x[1] + x[2]) ** 4, 2.4**4),
    ],
)
def test_an_angle_that_qiskit_prints_or_converts_wrongly_is_right(angle, expected):
    kernel = kernel_of(angle)
    x = np.array(POINT)
    np.testing.assert_allclose(kernel(x), np.cos(expected), rtol=1e-7, atol=1e-9)
    h = 1e-6
    steps = h * np.eye(3)
    slopes = [(kernel(x + s) - kernel(x - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(jax.grad(kernel)(x), slopes, rtol=1e-4, atol=1e-6)


def test_two_angles_that_are_printed_alike_stay_two():
    kernel = kernel_of(lambda x: 1 / (-(x[0] * x[1])))
    other = kernel_of(lambda x: (1 / (-x[0])) * x[1])
    x = np.array(POINT)
    np.testing.assert_allclose(kernel(x), np.cos(1 / 0.91), atol=1e-12)
    np.testing.assert_allclose(other(x), np.cos(1.3 / 0.7), atol=1e-12)


@pytest.mark.parametrize(
    "angle", [lambda x: 1j * x[0], lambda x: x[0] ** 2 + 1j * x[1], lambda x: 2 ** (1j * x[0])]
)
def test_a_complex_angle_is_refused(angle):
    with pytest.raises(TracingError, match="real|read"):
        kernel_of(angle)(np.array(POINT))


def test_a_sum_of_many_arguments_to_a_high_power_is_traced_at_once():
    """Multiplied out, this power has some 300 000 terms."""
    kernel = kernel_of(lambda x: x.sum() ** 12)
    np.testing.assert_allclose(kernel(np.full(10, 0.1)), np.cos(1), atol=1e-9)
