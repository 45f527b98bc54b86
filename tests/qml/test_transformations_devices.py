"""Over four host devices: sharded arguments, `shard_map` and `pmap`, in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qml
from qml.simulators.registry import ENGINES

ROOT = Path(qml.__file__).resolve().parents[1]

KERNEL = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import qml

@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x[0] * w[0], 0)
    qc.cx(0, 1)
    qc.rx(x[1] + w[1], 1)
    return [qml.Z(0), qml.Z(1), qml.X(0) @ qml.X(1)]

kind = sys.argv[1]
values = jax.vmap(lambda x, w: kernel(x, w, backend=kind), (0, None))
loss = lambda x, w: (values(x, w) ** 2).sum()
gradient = jax.grad(loss, (0, 1))
assert len(jax.devices()) == 4
mesh = jax.make_mesh((4,), ("b",), axis_types=(jax.sharding.AxisType.Auto,))
rows, everywhere = NamedSharding(mesh, P("b")), NamedSharding(mesh, P())
x, w = jnp.linspace(-2, 2, 16).reshape(8, 2), jnp.array([0.8, 0.5])
sharded = jax.device_put(x, rows), jax.device_put(w, everywhere)

def on(array, sharding):
    return array.sharding.is_equivalent_to(sharding, array.ndim)

def answer(**found):
    print(json.dumps(jax.tree.map(lambda x: np.asarray(x).tolist(), found)))
"""

JITTED = """
found = jax.jit(values)(*sharded)
by_x, by_w = jax.jit(gradient)(*sharded)
assert on(by_x, rows) and on(by_w, everywhere), (by_x.sharding, by_w.sharding)
answer(values=found, by_x=by_x, by_w=by_w)
"""

EAGER = """
found = values(*sharded)
by_x, by_w = gradient(*sharded)
assert on(found, rows) and on(by_x, rows) and on(by_w, everywhere)
answer(values=found, by_x=by_x, by_w=by_w)
"""

MAPPED = """
def mapped(f, out, check):
    return jax.jit(
        jax.shard_map(f, mesh=mesh, in_specs=(P("b"), P()), out_specs=out, check_vma=check)
    )

def local(x, w):
    by_x, by_w = gradient(x, w)
    # Where it follows what varies, JAX itself adds up the gradient of what does not.
    return by_x, by_w if check else jax.lax.psum(by_w, "b")

for check in (False, True):
    found = mapped(values, P("b"), check)(x, w)
    by_x, by_w = mapped(local, (P("b"), P()), check)(x, w)
    loss_of = lambda w: (mapped(values, P("b"), check)(x, w) ** 2).sum()
    through = jax.jit(jax.grad(loss_of))(w)
    assert on(found, rows) and on(by_x, rows) and on(by_w, everywhere)
    np.testing.assert_allclose(through, by_w, rtol=0, atol=1e-12)
answer(values=found, by_x=by_x, by_w=by_w)
"""

BY_DEVICE = """
def local(x, w):
    by_x, by_w = gradient(x, w)
    return values(x, w), by_x, jax.lax.psum(by_w, "b")

found, by_x, by_w = jax.pmap(local, "b", in_axes=(0, None))(x.reshape(4, 2, 2), w)
assert found.shape == (4, 2, 3)
answer(values=found.reshape(8, 3), by_x=by_x.reshape(8, 2), by_w=by_w[0])
"""


def expected():
    """Values (8, 3) of the closed form, and the gradients of the sum of their squares."""
    x, w = np.linspace(-2, 2, 16).reshape(8, 2), np.array([0.8, 0.5])
    a, b = x[:, 0] * w[0], x[:, 1] + w[1]
    values = np.stack([np.cos(a), np.cos(a) * np.cos(b), np.sin(a)], axis=1)
    by_a = -np.sin(2 * a) * (1 + np.cos(b) ** 2) + np.sin(2 * a)
    by_b = -np.sin(2 * b) * np.cos(a) ** 2
    by_w = np.array([(by_a * x[:, 0]).sum(), by_b.sum()])
    return {"values": values, "by_x": np.stack([by_a * w[0], by_b], axis=1), "by_w": by_w}


def run(script, kind):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KERNEL + script, kind],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JAX_ENABLE_X64": "1",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


SCRIPTS = {"jit": JITTED, "eager": EAGER, "shard_map": MAPPED, "pmap": BY_DEVICE}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(ENGINES))
@pytest.mark.parametrize("how", SCRIPTS)
def test_over_four_devices_values_and_gradients_are_right_and_stay_where_they_are(how, kind):
    found = run(SCRIPTS[how], kind)
    for name, array in expected().items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-12)
