"""Transformations over shots of a depolarised circuit: within six standard deviations of formulas.

A depolarising channel shrinks every Pauli string that it touches by 1 - p (Nielsen and Chuang,
section 8.3.4), so the noisy expectation values are closed forms.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import Field
from qiskit import QuantumCircuit
from qiskit.circuit import ParameterVector
from qiskit_aer import AerSimulator
from qiskit_aer.noise import NoiseModel, depolarizing_error

import qml
from qml.errors import SeedError
from qml.execution import recorded
from qml.settings import EngineConfig
from qml.simulators import registry
from qml.simulators.base import Cost, Evaluation

SHOTS = 4000
ONE, TWO = 0.1, 0.2
"""The probabilities p after gates on one and on two qubits."""

X, W = jnp.array([0.3, -0.7]), jnp.array([0.8, 0.5])


class DepolarisedConfig(EngineConfig):
    kind: Literal["depolarised"] = Field(default="depolarised", description="'depolarised'")
    shots: int = Field(default=SHOTS, description="an integer")


class Depolarised:
    """Aer, with that noise, of the one circuit of this file."""

    def __init__(self, config):
        self.config = config
        a = ParameterVector("a", 2)
        self.parameters = list(a)
        self.circuit = QuantumCircuit(2)
        self.circuit.ry(a[0], 0)
        self.circuit.cx(0, 1)
        self.circuit.rx(a[1], 1)
        self.circuit.measure_all()
        noise = NoiseModel()
        noise.add_all_qubit_quantum_error(depolarizing_error(ONE, 1), ["ry", "rx"])
        noise.add_all_qubit_quantum_error(depolarizing_error(TWO, 2), ["cx"])
        self.simulator = AerSimulator(noise_model=noise, max_parallel_threads=1)

    def check(self, program):
        assert (program.num_slots, program.num_outputs) == (2, 2)

    def cost(self, program, rows, outputs):
        return Cost(circuits=rows, shots=rows * self.config.shots)

    def expval(self, program, angles, *, outputs, seed):
        binds = dict(zip(self.parameters, angles.T.tolist(), strict=True))
        job = self.simulator.run(
            self.circuit, parameter_binds=[binds], shots=self.config.shots, seed_simulator=seed
        )
        values = np.zeros((len(angles), 2))
        for row in range(len(angles)):
            for bits, count in job.result().get_counts(row).items():
                values[row] += [count * (-1) ** int(bit) for bit in reversed(bits)]
        return Evaluation(values / self.config.shots, shots=len(angles) * self.config.shots)


@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x[0] * w[0], 0)
    qc.cx(0, 1)
    qc.rx(x[1] + w[1], 1)
    return [qml.Z(0), qml.Z(1)]


def closed_form(x, w, one=ONE, two=TWO):
    a, b = x[0] * w[0], x[1] + w[1]
    first = (1 - one) * (1 - two) * jnp.cos(a)
    return jnp.stack([first, first * (1 - one) * jnp.cos(b)])


@pytest.fixture(autouse=True)
def config(monkeypatch):
    monkeypatch.setitem(registry.ENGINES, "depolarised", f"{__name__}:Depolarised")
    with qml.use(DepolarisedConfig()) as config:
        yield config


KEYS = jax.random.split(jax.random.key(1), 3)

# f(x, w, key); no entry of any result has a standard deviation above 1 / sqrt(shots), since the
# slopes of the angles are at most 1 and the shift rule halves a difference.
TRANSFORMATIONS = {
    "values": lambda f: f,
    "grad": lambda f: jax.grad(lambda x, w, key: f(x, w, key)[1], (0, 1)),
    "value_and_grad": lambda f: jax.value_and_grad(lambda x, w, key: f(x, w, key)[0], 1),
    "jacfwd": lambda f: jax.jacfwd(f, 1),
    "vmap": lambda f: (
        lambda x, w, key: jax.vmap(f, (0, None, None))(jnp.stack([x, -x, 0 * x]), w, key)
    ),
    "vmap of jacrev over keys": lambda f: (
        lambda x, w, key: jax.vmap(jax.jacrev(f, 1), (None, None, 0))(x, w, jax.random.split(key))
    ),
    "scan of value_and_grad": lambda f: (
        lambda x, w, key: jax.lax.scan(
            lambda w, key: (w, jax.value_and_grad(lambda w: f(x, w, key)[1])(w)),
            w,
            jax.random.split(key),
        )
    ),
    "batch of none": lambda f: lambda x, w, key: jax.vmap(f, (0, None, None))(x[None][:0], w, key),
    "batch of one": lambda f: lambda x, w, key: jax.vmap(f, (0, None, None))(x[None], w, key),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_jitted_transformation_is_within_six_deviations_and_repeats_with_its_key(name):
    transform = TRANSFORMATIONS[name]
    step = jax.jit(transform(lambda x, w, key: kernel(x, w, key=key)))
    expected = transform(lambda x, w, key: closed_form(x, w))(X, W, KEYS[0])
    first, again, other = (step(X, W, key) for key in (KEYS[0], KEYS[0], KEYS[1]))

    def compare(first, again, other, expected):
        for drawn in (first, other):
            np.testing.assert_allclose(drawn, expected, rtol=0, atol=6 / np.sqrt(SHOTS))
        np.testing.assert_array_equal(first, again)

    jax.tree.map(compare, first, again, other, expected)
    flat = [np.concatenate([*map(np.ravel, jax.tree.leaves(found))]) for found in (first, other)]
    assert (flat[0] != flat[1]).any() or name == "batch of none"


def test_these_deviations_tell_the_noise_from_none():
    distance = jnp.abs(closed_form(X, W) - closed_form(X, W, 0, 0))
    assert (distance > 12 / np.sqrt(SHOTS)).all()


def test_the_gradient_is_of_shifted_shots_and_a_batch_of_none_asks_for_none():
    loss = lambda xs, w, key: jax.vmap(lambda x, w: kernel(x, w, key=key), (0, None))(xs, w)[
        :, 0
    ].sum()
    step = jax.jit(jax.value_and_grad(loss, 1))
    for rows in (0, 1, 5):
        xs = jnp.ones((rows, 2))
        with recorded() as runs:
            jax.block_until_ready(step(xs, W, KEYS[0]))
        asked = sorted((run.primitive, run.gradient, run.rows, run.shots) for run in runs)
        assert asked == (rows > 0) * [
            ("expval", "none", rows, rows * SHOTS),
            ("expval_vjp", "parameter_shift", 4 * rows, 4 * rows * SHOTS),
        ]


@pytest.mark.parametrize("f", [kernel, jax.grad(lambda x, w: kernel(x, w)[0])], ids=["f", "grad"])
def test_under_jit_without_a_key_nothing_is_drawn(f):
    with recorded() as runs, pytest.raises(SeedError, match="under jit a kernel needs key="):
        jax.jit(f)(X, W)
    assert runs == []
    jax.block_until_ready(f(X, W))
