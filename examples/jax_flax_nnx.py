"""A curve fitted by re-uploading its variable: a kernel inside a Flax NNX module.

python examples/jax_flax_nnx.py            # 300 steps
python examples/jax_flax_nnx.py --quick    # 10, to see that everything works
"""

import argparse

import jax
import jax.numpy as jnp
import optax
from flax import nnx

import qml

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="10 steps")
steps = 10 if parser.parse_args().quick else 300


@qml.qkernel(qubits=2)
def series(qc, x, theta):
    """A Fourier series in x: each layer of theta (L, 2, 2) adds a frequency."""
    for layer in theta:
        for q in range(2):
            qc.rz(x, q)
            qc.ry(layer[q, 0], q)
            qc.rz(layer[q, 1], q)
        qc.cx(0, 1)
    return qml.Z(1)


class Curve(nnx.Module):
    """() -> (), scaled and shifted."""

    def __init__(self, rngs):
        self.theta = nnx.Param(jax.random.normal(rngs.params(), (4, 2, 2)))
        self.scale = nnx.Param(jnp.array([1.0, 0.0]))

    def __call__(self, x):
        return self.scale[0] * series(x, self.theta[...]) + self.scale[1]


def loss(model, x):
    return ((jax.vmap(model)(x) - jnp.sin(x) - 0.5 * jnp.cos(3 * x)) ** 2).mean()


@nnx.jit
def step(model, optimizer, x):
    value, slope = nnx.value_and_grad(loss)(model, x)
    optimizer.update(model, slope)
    return value


model, x = Curve(nnx.Rngs(params=0)), jnp.linspace(-jnp.pi, jnp.pi, 40)
optimizer = nnx.Optimizer(model, optax.adam(0.05), wrt=nnx.Param)
for i in range(steps):
    value = step(model, optimizer, x)
    if i % (steps // 5) == 0:
        print(f"step {i:3d}, loss {value:.5f}", flush=True)
print(f"error (rms) between the points: {loss(model, (x[1:] + x[:-1]) / 2) ** 0.5:.4f}")
