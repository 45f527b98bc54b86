"""A hybrid classifier of two moons: a kernel inside an Equinox module.

python examples/jax_equinox.py            # 200 steps
python examples/jax_equinox.py --quick    # 10, to see that everything works
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import make_moons

import qml

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="10 steps")
steps = 10 if parser.parse_args().quick else 200


@qml.qkernel(qubits=2)
def core(qc, x, theta):
    """<Z> of each qubit, the data x (2,) encoded in every layer of theta (L, 2, 2)."""
    for layer in theta:
        for q in range(2):
            qc.ry(x[q], q)
            qc.rz(layer[q, 0], q)
            qc.ry(layer[q, 1], q)
        qc.cx(0, 1)
    return [qml.Z(0), qml.Z(1)]


class Classifier(eqx.Module):
    """(2,) -> the logit of the second moon."""

    theta: jax.Array
    head: eqx.nn.Linear

    def __call__(self, x):
        return self.head(core(x, self.theta))


@eqx.filter_value_and_grad
def loss(model):
    return optax.sigmoid_binary_cross_entropy(jax.vmap(model)(x[:200]), y[:200]).mean()


@eqx.filter_jit
def step(model, state):
    value, slope = loss(model)
    updates, state = optimizer.update(slope, state)
    return value, eqx.apply_updates(model, updates), state


x, y = map(jnp.asarray, make_moons(400, noise=0.15, random_state=0))
keys = jax.random.split(jax.random.key(0))
theta, head = jax.random.normal(keys[0], (4, 2, 2)), eqx.nn.Linear(2, "scalar", key=keys[1])
model, optimizer = Classifier(theta, head), optax.adam(0.05)
state = optimizer.init(eqx.filter(model, eqx.is_array))
for i in range(steps):
    value, model, state = step(model, state)
    if i % (steps // 5) == 0:
        print(f"step {i:3d}, loss {value:.4f}", flush=True)
right = (jax.vmap(model)(x[200:]) > 0) == y[200:]
print(f"accuracy on 200 unseen points: {100 * right.mean():.1f} %")
