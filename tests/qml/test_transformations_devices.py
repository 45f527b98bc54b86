"""Over four host devices: sharded arguments, `shard_map` and `pmap`, in processes of their own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engines import EXACT, PATHS

import qml

ROOT = Path(qml.__file__).resolve().parents[1]

KERNEL = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import qml
from qml.execution import recorded

@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x[0] * w[0], 0)
    qc.cx(0, 1)
    qc.rx(x[1] + w[1], 1)
    return [qml.Z(0), qml.Z(1), qml.X(0) @ qml.X(1)]

kind = json.loads(sys.argv[1])
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
assert on(found, rows) and on(by_x, rows) and on(by_w, everywhere)
answer(values=found, by_x=by_x, by_w=by_w)
"""

EXPLICIT = """
# Along axes that are part of the types, as jax.make_mesh has them where nothing else is said.
mesh = jax.make_mesh((2, 2), ("b", "c"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
x = jax.device_put(x, NamedSharding(mesh, P(("b", "c"))))
found = jax.jit(values)(x, jax.device_put(w, NamedSharding(mesh, P())))
assert jax.typeof(found).sharding.spec == P(("b", "c"), None)
answer(values=found)
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


def run(script, backend=None):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KERNEL + script, json.dumps(backend)],
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


SCRIPTS = {
    "jit": JITTED,
    "jit with explicit axes": EXPLICIT,
    "eager": EAGER,
    "shard_map": MAPPED,
    "pmap": BY_DEVICE,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("how", SCRIPTS)
def test_over_four_devices_values_and_gradients_are_right_and_stay_where_they_are(how, kind):
    for name, array in run(SCRIPTS[how], EXACT[kind]).items():
        np.testing.assert_allclose(array, expected()[name], rtol=0, atol=1e-12)


IN_PARTS = """
step = jax.jit(gradient)
jax.block_until_ready(step(*sharded))
with recorded() as runs:
    jax.block_until_ready(step(*sharded))
asked = sorted((run.primitive, run.rows) for run in runs)

# 6 rows do not divide among 4 devices, so that each computes all.
constrained = jax.jit(lambda x, w: values(jax.lax.with_sharding_constraint(x, rows), w))
np.testing.assert_allclose(constrained(x[:6], w), values(x[:6], w), rtol=0, atol=1e-12)
answer(asked=asked, code=[jax.jit(values).lower(*sharded).compile().as_text()])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", PATHS)
def test_each_of_four_devices_computes_its_own_two_rows_of_eight(kind):
    found = run(IN_PARTS, EXACT[kind])
    (code,) = found["code"]
    assert "f64[2,3]" in code and "f64[8,3]" not in code and "all-gather" not in code
    if kind == "statevector":
        assert re.search(r"f64\[2,3\]\S* custom-call.*qml_statevector_expval_float64", code)
    if kind in ("aer", "reference"):  # in compiled code, no request to the others is seen
        slots = 2
        assert found["asked"] == 4 * [["expval", 2]] + 4 * [["expval_vjp", 2 * 2 * slots]]


SAMPLED = """
kind = {"kind": "aer", "shots": 1000}
draw = lambda x, w, key: jax.vmap(lambda x, w: kernel(x, w, key=key, backend=kind), (0, None))(x, w)
mesh = jax.make_mesh((2, 2), ("b", "c"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
x = jax.device_put(jnp.ones((8, 2)), NamedSharding(mesh, P(("b", "c"))))
w, keys = jax.device_put((w, jax.random.split(jax.random.key(0), 2)), NamedSharding(mesh, P()))
answer(drawn=[jax.jit(draw)(x, w, key) for key in (*keys, keys[0])])
"""


@pytest.mark.slow
def test_keys_of_their_own_may_be_on_devices_of_their_own():
    """And mapped there: what is made of them may differ between devices."""
    found = run(
        """
sampled = lambda x, key: kernel(x, w, key=key, backend={"kind": "aer", "shots": 100})
keys = jax.random.split(jax.random.key(0), 8)
x = jnp.tile(jnp.array([1.2, 0.3]), (8, 1))
of_rows = jax.shard_map(
    jax.vmap(sampled), mesh=mesh, in_specs=(P("b"), P("b")), out_specs=P("b")
)
answer(eager=of_rows(x, keys), jitted=jax.jit(of_rows)(x, keys))
"""
    )
    assert found["eager"] == found["jitted"]
    assert len({tuple(row) for row in found["eager"]}) == 8


@pytest.mark.slow
def test_no_two_devices_draw_the_same_shots_and_a_key_repeats():
    """Every row is of the same angles, so that equal shots would give equal values."""
    first, other, again = np.asarray(run(SAMPLED)["drawn"])
    parts = np.concatenate([first.reshape(4, -1), other.reshape(4, -1)])
    assert len(np.unique(parts, axis=0)) == 8
    np.testing.assert_array_equal(first, again)


CACHED = """
import os
jax.config.update("jax_compilation_cache_dir", os.path.abspath("cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
# Else the key holds an address, which another circuit may have later.
jax.config.update("jax_remove_custom_partitioning_ptr_from_cache_key", True)

def only(gate, kind):
    one = qml.qkernel(qubits=1)(lambda qc, x: getattr(qc, gate)(x[0], 0) and qml.Y(0))
    return jax.jit(jax.vmap(lambda x: one(x, backend=kind)))(sharded[0])

answer(found=[only("rx", "statevector"), only("ry", "statevector"), only("ry", "reference")])
"""


@pytest.mark.slow
def test_the_cache_of_compiled_code_tells_circuits_and_engines_apart():
    """They differ only within the parts, which JAX compiles out of sight of its cache."""
    by_rx, *by_ry = run(CACHED)["found"]
    np.testing.assert_allclose(by_rx, -np.sin(np.linspace(-2, 2, 16)[::2]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_ry, np.zeros((2, 8)), rtol=0, atol=1e-12)
