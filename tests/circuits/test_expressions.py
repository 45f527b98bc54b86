"""Angle expressions: which are affine, with which coefficients, and which are formulas."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from qiskit.circuit import Parameter, ParameterVector

import qml
from qml.circuits.binding import slot_angles
from qml.circuits.expressions import Affine, Nonlinear, analyse
from qml.circuits.program import AngleMap, Formula
from qml.errors import TracingError

V = list(ParameterVector("v", 4))
INDEX = {parameter: i for i, parameter in enumerate(V)}
finite = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)


def angle_of(form, values):
    """The angle at flat arguments, through the map that a Program holds."""
    none = np.zeros(0, np.int32)
    if isinstance(form, Affine):
        slots = np.zeros(len(form.arguments), np.int32)
        arguments = np.array(form.arguments, np.int32)
        affine = (slots, arguments, np.array(form.coefficients), np.array([form.constant]))
        angles = AngleMap(len(values), *affine)
    else:
        formula = Formula(form.text, np.zeros(1, np.int32), np.array([form.arguments], np.int32))
        angles = AngleMap(len(values), none, none, np.zeros(0), np.zeros(1), (formula,))
    return slot_angles(angles, jnp.asarray(values))[0]


@pytest.mark.parametrize(
    ("angle", "arguments", "coefficients", "constant"),
    [
        (V[2], (2,), (1.0,), 0.0),
        (-V[0], (0,), (-1.0,), 0.0),
        (2 * V[3] + 1, (3,), (2.0,), 1.0),
        ((V[1] - V[0]) / 3, (0, 1), (-1 / 3, 1 / 3), 0.0),
        (2 * (V[0] + V[1]) - V[0], (0, 1), (1.0, 2.0), 0.0),
        (np.pi * V[0] - np.e, (0,), (np.pi,), -np.e),
        ((V[0] + 1) ** 2 - V[0] ** 2, (0,), (2.0,), 1.0),
        (V[0] - V[0], (), (), 0.0),
        (0 * V[0] + 0.3, (), (), 0.3),
        (0.1, (), (), 0.1),
        (np.float32(0.5), (), (), 0.5),
        (3, (), (), 3.0),
    ],
)
def test_affine_expressions_have_their_coefficients(angle, arguments, coefficients, constant):
    form = analyse(angle, INDEX)
    assert isinstance(form, Affine)
    assert form.arguments == arguments
    np.testing.assert_allclose(form.coefficients, coefficients, rtol=1e-15)
    np.testing.assert_allclose(form.constant, constant, rtol=1e-15)


@given(finite, finite, finite)
def test_coefficients_keep_their_digits(a, b, c):
    form = analyse(a * V[0] + b * V[1] + c, INDEX)
    found = dict(zip(form.arguments, form.coefficients, strict=True))
    np.testing.assert_allclose([found.get(0, 0), found.get(1, 0), form.constant], [a, b, c], 1e-15)


def test_a_bare_argument_is_not_parsed():
    class Unprintable(Parameter):
        def __str__(self):
            pytest.fail("a bare parameter needs no text")

    symbol = Unprintable("w(3)")
    assert analyse(symbol, {symbol: 7}) == Affine((7,), (1.0,), 0.0)


NONLINEAR = {
    "product": (V[0] * V[1], lambda v: v[0] * v[1]),
    "feature map": (
        2 * (np.pi - V[0]) * (np.pi - V[3]),
        lambda v: 2 * (np.pi - v[0]) * (np.pi - v[3]),
    ),
    "power": ((2 * V[0]) ** 3, lambda v: 8 * v[0] ** 3),
    "exponential": (2 ** (3 * V[0]), lambda v: 2 ** (3 * v[0])),
    "power of itself": (V[0] ** V[0], lambda v: v[0] ** v[0]),
    "root": (V[0] ** 0.5, lambda v: v[0] ** 0.5),
    "quotient": (V[1] / V[0], lambda v: v[1] / v[0]),
    "functions": (
        V[0].sin() * V[1].cos() + V[2].tan() - V[3].exp() + V[0].log(),
        lambda v: jnp.sin(v[0]) * jnp.cos(v[1]) + jnp.tan(v[2]) - jnp.exp(v[3]) + jnp.log(v[0]),
    ),
    "inverse functions": (
        V[0].arcsin() + V[1].arccos() * V[2].arctan(),
        lambda v: jnp.arcsin(v[0]) + jnp.arccos(v[1]) * jnp.arctan(v[2]),
    ),
    "functions of a domain far from zero": (
        (V[0] + 99).arcsin() * (V[2] - 99).arccos() + (V[1] - 99).log(),
        lambda v: jnp.arcsin(v[0] + 99) * jnp.arccos(v[2] - 99) + jnp.log(v[1] - 99),
    ),
    "absolute": (abs(V[0] - V[1]), lambda v: abs(v[0] - v[1])),
    "sign": (V[0].sign() * V[1], lambda v: jnp.sign(v[0]) * v[1]),
    "conjugate of a real": (V[0].conjugate() * V[1], lambda v: v[0] * v[1]),
    "what Qiskit prints without brackets": (
        0.1 / (-(V[0] * V[1])) + 1 / 3,
        lambda v: -0.1 / (v[0] * v[1]) + 1 / 3,
    ),
    "a quotient of a quotient": (V[0] / (V[1] / V[3]), lambda v: v[0] / v[1] * v[3]),
    "complex factors of a real": (
        (V[0] + 0.1j) * (V[0] - 0.1j) * V[1].cos(),
        lambda v: (v[0] ** 2 + 0.01) * jnp.cos(v[1]),
    ),
    "functions that SymPy names": (
        abs(V[0]) * V[1].conjugate() / (-(V[2].sign() * V[3] ** 0.5)),
        lambda v: -abs(v[0]) * v[1] / (jnp.sign(v[2]) * jnp.sqrt(v[3])),
    ),
    "negative powers": (V[0] ** -2 + V[1] ** -0.5, lambda v: 1 / v[0] ** 2 + v[1] ** -0.5),
    "an even power of a negative": (V[2] ** 2 * V[0], lambda v: v[2] * v[2] * v[0]),
    "large numbers": (1e25 * V[0] * V[1], lambda v: 1e25 * v[0] * v[1]),
    "a symbol that cancels": (V[0].sin() + V[1] - V[1], lambda v: jnp.sin(v[0])),
    "a first symbol that cancels": (V[1].sin() + V[0] - V[0], lambda v: jnp.sin(v[1])),
}


@pytest.mark.parametrize("name", NONLINEAR)
def test_formulas_have_the_values_and_derivatives_of_the_expression(name):
    angle, function = NONLINEAR[name]
    v = jnp.array([-98.7, 99.7, 98.8, 0.9] if "far from" in name else [0.3, 0.7, -0.2, 0.9])
    form = analyse(angle, INDEX)
    orders = lambda f: jax.jit(lambda v: (f(v), jax.grad(f)(v), jax.hessian(f)(v)))(v)
    for found, expected in zip(orders(lambda v: angle_of(form, v)), orders(function), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_one_structure_of_different_arguments_is_one_text():
    forms = [analyse(V[i] * V[j], INDEX) for i, j in ((0, 1), (2, 3))]
    assert all(isinstance(form, Nonlinear) for form in forms)
    assert forms[0].text == forms[1].text
    assert [form.arguments for form in forms] == [(0, 1), (2, 3)]


@pytest.mark.parametrize("angle", [Parameter("free"), 2 * Parameter("free") + V[0]])
def test_a_free_parameter_is_named(angle):
    with pytest.raises(TracingError, match=r"free parameter\(s\) \['free'\]"):
        analyse(angle, INDEX)


@pytest.mark.parametrize("angle", [1j, 2 + 1j, 1j * V[0], V[0] + 1j, 1j * V[0] * V[1]], ids=str)
def test_an_angle_that_is_not_real_is_refused(angle):
    with pytest.raises(TracingError, match="real"):
        analyse(angle, INDEX)


@pytest.mark.parametrize("angle", [np.nan, np.inf, -np.inf])
def test_a_constant_angle_that_is_not_finite_is_refused(angle):
    with pytest.raises(TracingError, match="finite"):
        analyse(angle, INDEX)


def test_angles_as_users_write_them_need_no_sympy():
    """Whose import would be a third of the time to a first call."""
    script = """
import sys
import jax, numpy as np, qml

@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    qc.rx(x[0], 0)
    qc.crx(2 * x[1] - w[0] / 3, 0, 1)
    qc.rzz(2 * (np.pi - x[0]) * (np.pi - x[1]), 0, 1)
    qc.ry(x[0].arccos() + w[1] ** 2, 0)
    return qml.Z(1)

kernel(np.zeros(2), np.zeros(2))
print("sympy" in sys.modules)
"""
    root = Path(qml.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
