"""Shots, seeds, threads, devices and options that misled users of other libraries.

One test per fault: its name is the claim, its docstring the public thread. RX(t) = exp(-i t X/2),
and qubit 0 is the least significant.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import engines
import jax
import numpy as np
import pytest
from engines import EXACT

import qml
from qml import qkernel
from qml.errors import ConfigError, DeviceError, UnknownNameError
from qml.execution import recorded

ROOT = Path(qml.__file__).resolve().parents[1]

exactly = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
within = functools.partial(np.testing.assert_allclose, rtol=0)


@qkernel(qubits=1)
def cosine(qc, t):
    qc.rx(t, 0)
    return qml.Z(0)


def test_no_shots_means_exact_and_the_run_says_so(sampling):
    """Qiskit/qiskit-aer#1820: «no shots» meant 1024."""
    exact = EXACT[sampling["kind"]]
    for table in (exact, {**exact, "shots": None}):
        with qml.use(table):
            values = [float(cosine(0.5)) for _ in range(3)]
            exactly(values, np.full(3, np.cos(0.5)))
            assert qml.last_run().shots == 0
    with pytest.raises(ConfigError, match="'shots' must be an integer from 1"):
        cosine(0.5, backend={**sampling, "shots": 0})
    assert cosine(0.5, backend={**sampling, "shots": 77}) != np.cos(0.5)
    assert qml.last_run().shots == 77


@pytest.mark.slow
def test_successive_gradients_are_independent_under_one_seed(sampling):
    """Qiskit/qiskit-metapackage#1586: std cos(0.5)/sqrt(2000) = 0.0196, mean -0.4794."""
    with qml.use({**sampling, "shots": 1000, "seed": 5}), recorded() as runs:
        gradient = jax.grad(cosine)
        found = np.array([gradient(0.5) for _ in range(400)])
    gradients = [run for run in runs if run.primitive == "expval_vjp"]
    assert [(run.rows, run.shots) for run in gradients] == [(2, 2000)] * 400
    assert len(set(found[:2])) == 2
    within(found.mean(), -0.4794, atol=0.003)
    # The estimate of a standard deviation from 400 samples has an error of 1/sqrt(800).
    within(found.std(), 0.0196, atol=4 * 0.0196 / np.sqrt(800))
    correlation = np.corrcoef(found[:-1], found[1:])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(400)


SEQUENCE = """
import jax, qml
jax.config.update("jax_enable_x64", True)
@qml.qkernel(qubits=1)
def cosine(qc, t):
    qc.rx(t, 0)
    return qml.Z(0)
with qml.use({**TABLE, "shots": 1000, "seed": 5}):
    print([float(jax.grad(cosine)(0.5)) for _ in range(4)])
"""


@pytest.mark.slow
def test_the_same_program_draws_the_same_sequence_in_a_fresh_process(sampling):
    """Qiskit/qiskit-metapackage#1586."""
    script = SEQUENCE.replace("TABLE", repr(sampling))
    first, second = (run_python(script) for _ in range(2))
    assert first == second
    assert len(set(first.split(","))) == 4


# --- threads and devices

THOUSAND = """
import faulthandler
faulthandler.dump_traceback_later(90, exit=True)  # the watchdog
import jax, jax.numpy as jnp, qml
@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x, 0)
    qc.cx(0, 1)
    qc.rx(w, 1)
    return qml.Z(1)
loss = jax.jit(lambda x, w: jax.vmap(kernel, (0, None))(x, w).mean())
gradient = jax.jit(jax.grad(loss, 1))
mapped = jax.vmap(jax.jit(jax.grad(kernel)), (0, None))
single = jax.jit(kernel)
w = jnp.float32(0.3)
# Nothing is waited for one by one: the queue is where a callback can block, with large operands.
for rows, steps in ((8, 250), (20_000, 20)):
    batch = jnp.linspace(0, 1, rows)
    for _ in range(steps):
        w = w - 0.1 * gradient(batch, w) + 0 * loss(batch, w)
        w = w + 0 * mapped(batch, w).sum() + 0 * single(w, w)
print("done", bool(jnp.isfinite(w)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2, None])
@pytest.mark.parametrize("kind", ["statevector", "reference"])
def test_a_thousand_jitted_calls_do_not_hang(kind, cores):
    """jax-ml/jax#24255 and #25861: host callbacks that wait for JAX's own threads.

    Compiled code calls "statevector" without Python, and all engines of other kinds by a callback.
    """
    available = sorted(os.sched_getaffinity(0))[:cores]
    pinned = f"import os; os.sched_setaffinity(0, {available})"
    assert run_python(pinned + THOUSAND, QML_BACKEND=kind) == "done True"


TRAINING = """
import ctypes, gc
import jax, jax.numpy as jnp, psutil, qml
from qml.simulators.registry import engine
traces = []

@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    traces.append(1)
    qc.ry(x, 0)
    qc.cx(0, 1)
    qc.rx(w, 1)
    return qml.Z(1)

def loss(w, xs):
    return jnp.mean((jax.vmap(kernel, (0, None))(xs, w) - 0.5) ** 2)

def train(steps):
    global w
    for _ in range(steps):
        w = w - 0.1 * step(w, xs)
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return psutil.Process().memory_info().rss / 2**20

with qml.use(TABLE) as config:
    step = jax.jit(jax.grad(loss))
    w, xs = jnp.float32(0.3), jnp.linspace(0, 1, 4)
    before = train(100)
    count = len(traces)
    grown = train(2000) - before
    print(grown, len(traces) - count, getattr(engine(config), "transpilations", 1), float(w))
"""


def long(kind):
    """Some milliseconds a step."""
    return pytest.param(kind, marks=pytest.mark.full if kind in ("estimator", "pennylane") else ())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [long(kind) for kind in EXACT])
def test_two_thousand_steps_keep_the_memory_the_trace_and_the_compiled_circuit(kind):
    """NVIDIA/cuda-quantum#1909, Qiskit/qiskit#11243, Qiskit/qiskit-aer#2005, #1857; in MiB."""
    printed = run_python(TRAINING.replace("TABLE", repr(EXACT[kind])))
    grown, traced, compiled, weight = map(float, printed.split())
    assert abs(grown) < 5
    assert (traced, compiled) == (0, 1)
    # The least squares of cos x cos w - 1/2 over the four x.
    c = np.cos(np.linspace(0, 1, 4))
    assert weight == pytest.approx(np.arccos(c.sum() / 2 / (c @ c)), abs=1e-5)


def test_a_result_says_where_and_how_precisely_and_lies_with_its_input(exact):
    """PennyLaneAI/pennylane#7955, sQUlearn/squlearn#340, Qiskit/qiskit-aer#2396."""
    for dtype in (np.float32, np.float64):
        t = jax.device_put(dtype(0.3), jax.devices("cpu")[0])
        for call in (cosine, jax.grad(cosine)):
            found, run = call(t), qml.last_run()
            assert found.devices() == t.devices() and found.dtype == dtype
            place = {"pennylane": "default.qubit", "estimator": "StatevectorEstimator"}
            assert (run.kind, run.device) == (exact.kind, place.get(exact.kind, "CPU"))
            own = exact.kind in ("statevector", "xla") and dtype == np.float32
            expected = "single" if own else "-" if exact.kind == "estimator" else "double"
            assert run.precision == expected


def test_a_gpu_that_is_not_there_is_an_error_unless_a_fallback_is_allowed():
    """PennyLaneAI/pennylane#7955, sQUlearn/squlearn#340, Qiskit/qiskit-aer#2396."""
    from qiskit_aer import AerSimulator

    if "GPU" in AerSimulator().available_devices():
        pytest.skip("Aer finds a GPU here")
    for call in (cosine, jax.jit(cosine), jax.grad(cosine), jax.jit(jax.grad(cosine))):
        with qml.use({"kind": "aer", "device": "GPU"}):
            with pytest.raises(DeviceError, match="'GPU' was asked for.*finds CPU"):
                call(0.3)
        with qml.use({"kind": "aer", "device": "GPU", "fallback": "CPU"}):
            call(0.3)
            assert qml.last_run().device == "CPU"


# --- configuration


@pytest.mark.parametrize(
    ("backend", "error", "hint"),
    [
        ("are", UnknownNameError, "did you mean 'aer'?"),
        ("Aer", UnknownNameError, "did you mean 'aer'?"),
        ({"kind": "Aer"}, UnknownNameError, "did you mean 'aer'?"),
        ({"kind": "aer", "shot": 10}, ConfigError, "did you mean 'shots'?"),
        ({"kind": "aer", "shots": "1000"}, ConfigError, "must be an integer"),
        ({"kind": "aer", "method": "state_vector"}, ConfigError, "did you mean 'statevector'?"),
        ({"kind": "reference", "shots": 10}, ConfigError, "no key 'shots'"),
        ({"kind": "aer", "gradient": "paramshift"}, ConfigError, "did you mean 'parameter_shift'?"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_nearest_name(backend, error, hint):
    """PennyLaneAI/pennylane#1496, #2853 and #5745, Qiskit/qiskit-aer#2032."""
    for call in (cosine, lambda x, backend: jax.jit(lambda x: cosine(x, backend=backend))(x)):
        with pytest.raises(error) as caught:
            call(0.3, backend=backend)
        assert hint in str(caught.value)
    exactly(cosine(0.3), np.cos(0.3))


def test_a_misspelt_gradient_is_refused_with_the_nearest_name(exact):
    """PennyLaneAI/pennylane#1496, #2853 and #5745."""
    misspelt, meant = (
        ("adjoin", "adjoint") if exact.kind == "xla" else ("parameter-shift", "parameter_shift")
    )
    with pytest.raises(ConfigError, match=rf"'{misspelt}'.*did you mean '{meant}'\?"):
        cosine(0.3, gradient=misspelt)
    exactly(jax.grad(functools.partial(cosine, gradient=meant))(0.3), -np.sin(0.3))


def run_python(script, **environment):
    """What a fresh process prints."""
    places = os.pathsep.join(map(str, (ROOT, Path(engines.__file__).parent)))
    environment = {**os.environ, "PYTHONPATH": places, **environment}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.strip()
