"""The compiled engine among threads and processes, over thousands of calls, and out of memory."""

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import qml
from qml.errors import EngineError
from qml.kinds import StatevectorConfig
from qml.simulators.registry import engine
from qml.simulators.statevector import engine as module
from qml.simulators.statevector.compiler import compiling, forget_other_sources
from qml.simulators.statevector.engine import StatevectorEngine

ROOT = Path(qml.__file__).resolve().parents[1]


def entangler(qubits):
    @qml.qkernel(qubits=qubits, name=f"entangler on {qubits}")
    def kernel(qc, x, w):
        for layer in w:
            for q in range(qubits):
                qc.ry(x[q % len(x)], q)
                qc.rz(layer[q], q)
            for q in range(qubits):
                qc.rxx(layer[q], q, (q + 1) % qubits)
        return [qml.Z(q) for q in range(qubits)] + [qml.X(0) @ qml.Y(qubits - 1)]

    return kernel


KERNELS = {qubits: entangler(qubits) for qubits in (2, 5, 8)}


def arguments(qubits, batch, dtype):
    """x (batch, 2), w (2, qubits)"""
    rng = np.random.default_rng(100 * qubits + batch)
    return rng.normal(size=(batch, 2)).astype(dtype), rng.normal(size=(2, qubits)).astype(dtype)


def program_and_operands(qubits, batch, dtype):
    """A Program, and the operands of each primitive: of a batch, 2 tangents and 2 cotangents."""
    rng = np.random.default_rng(qubits)
    program = KERNELS[qubits].program(np.zeros(2), np.zeros((2, qubits)))
    a, t, c = (
        rng.normal(size=(batch, *shape)).astype(dtype)
        for shape in [
            (program.num_slots,),
            (1, 2, program.num_slots),
            (1, 2, program.num_outputs),
        ]
    )
    return program, {
        "expval": (a,),
        "expval_jvp": (a, t[:, 0]),
        "expval_vjp": (a, c[:, 0]),
        "expval_hvp": (a, t, c),
    }


# --- threads


CASES = [
    (2, 1, np.float32),
    (2, 17, np.float64),
    (5, 17, np.float32),
    (5, 3, np.float64),
    (8, 1, np.float64),
]


def calls():
    """Functions without arguments: compiled values and gradients, and each 16th an eager value."""
    made = []
    for qubits, batch, dtype in CASES:
        values = jax.vmap(KERNELS[qubits], (0, None))
        loss = lambda x, w, values=values: (values(x, w) ** 2).sum()
        x, w = arguments(qubits, batch, dtype)
        step = jax.jit(jax.value_and_grad(loss, (0, 1)))
        made += 15 * [lambda step=step, x=x, w=w: step(x, w)]
        made += [lambda values=values, x=x, w=w: values(x, w)]
    return made


def leaves(result):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result)]


@pytest.mark.slow
def test_eight_threads_of_a_thousand_calls_get_what_one_thread_gets():
    mixed = calls()
    with qml.recorded() as runs:
        expected = [leaves(call()) for call in mixed]
    assert len(runs) == len(mixed) // 16 == len(CASES)
    begin, finished, wrong = threading.Barrier(8), [], []

    def client(seed):
        order = np.random.default_rng(seed).integers(len(mixed), size=1000)
        begin.wait(30)
        for i in order:
            found = leaves(mixed[i]())
            if not all(map(np.array_equal, found, expected[i])):
                wrong.append(i)
        finished.append(seed)

    # Daemons, so that calls that never return fail the test and do not keep the process alive.
    threads = [threading.Thread(target=client, args=(seed,), daemon=True) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert sorted(finished) == list(range(8))
    assert wrong == []


# --- a batch and its parts


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cost", [np.inf, 0.0], ids=["samples in lanes", "amplitudes in lanes"])
def test_no_bit_of_a_row_depends_on_the_rows_beside_it(cost, dtype, threads, monkeypatch):
    monkeypatch.setattr(module, "AMPLITUDE_COST", cost)
    runner = StatevectorEngine(StatevectorConfig(threads=threads))
    for qubits in KERNELS:
        program, operands = program_and_operands(qubits, 23, dtype)
        for primitive, arrays in operands.items():
            whole = runner.compute(primitive, program, *arrays)
            for cuts in ([1], [5, 13], [8, 16], range(1, 23)):
                parts = zip(*(np.split(x, cuts) for x in arrays), strict=True)
                found = [runner.compute(primitive, program, *part) for part in parts]
                np.testing.assert_array_equal(np.concatenate(found), whole)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("batch", [1, 6, 23])
def test_the_number_of_threads_changes_results_by_rounding_at_most(batch, dtype, tolerance):
    """It may choose what the lanes hold, and so the order of sums."""
    one, two = (StatevectorEngine(StatevectorConfig(threads=threads)) for threads in (1, 2))
    for qubits in KERNELS:
        program, operands = program_and_operands(qubits, batch, dtype)
        for primitive, arrays in operands.items():
            expected = one.compute(primitive, program, *arrays)
            found = two.compute(primitive, program, *arrays)
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


# --- processes


def computed():
    """Every primitive, by direct calls of the engine that this process uses."""
    runner = engine(StatevectorConfig())
    results = []
    for qubits in KERNELS:
        program, operands = program_and_operands(qubits, 64, np.float64)
        results += [runner.compute(name, program, *x) for name, x in operands.items()]
    return results


def answer(sender):
    sender.send(computed())


def test_a_forked_child_computes_what_its_parent_does():
    """Direct calls of the engine; JAX itself does not survive a fork."""
    expected = computed()  # the threads of the parent run, and the child has none of them
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=answer, args=(sender,), daemon=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork", RuntimeWarning)  # of JAX, which stays unused
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # of Python 3.12
        child.start()
    try:
        assert receiver.poll(30), "the forked child hangs"
        found = receiver.recv()
        child.join(30)
        assert child.exitcode == 0
    finally:
        child.kill()
    assert len(found) == 4 * len(KERNELS)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(computed(), expected, strict=True):  # the parent goes on
        np.testing.assert_array_equal(one, other)


def in_a_new_process(script, cores=None, timeout=90):
    """What a script prints, read as JSON; it fails where the script does not end in time."""
    held = "" if cores is None else f"import os\nos.sched_setaffinity(0, {cores})\n"
    done = subprocess.run(
        [sys.executable, "-c", held + script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


KERNEL = """
import json
import jax, numpy as np, qml

@qml.qkernel(qubits=3)
def kernel(qc, x, w):
    for q in range(3):
        qc.ry(x, q)
        qc.rz(w[q] * x, q)
        qc.crx(w[q], q, (q + 1) % 3)
    return [qml.Z(0) @ qml.Z(2), qml.X(1)]

values = jax.vmap(kernel, (0, None))
loss = lambda x, w: (values(x, w) ** 2).sum()
x, w = np.linspace(-1, 1, 16), np.array([0.5, 0.2, -0.4])
"""

NUMBERS = """
numbers = [values(x, w), *jax.jit(jax.value_and_grad(loss, (0, 1)))(x, w)]
"""


@pytest.mark.slow
def test_a_spawned_process_evaluates_and_differentiates_to_the_same_numbers():
    scope = {}
    exec(KERNEL + NUMBERS, scope)
    script = KERNEL + NUMBERS + "print(json.dumps([x.tolist() for x in jax.tree.leaves(numbers)]))"
    expected = [x.tolist() for x in jax.tree.leaves(scope["numbers"])]
    assert in_a_new_process(script) == expected
    with qml.use("reference"):
        oracle = scope["values"](scope["x"], scope["w"])
    np.testing.assert_allclose(expected[0], oracle, atol=1e-12)


THOUSAND_CALLS = (
    KERNEL
    + """
functions = [jax.jit(values), jax.jit(jax.grad(loss, (0, 1)))]
first = [jax.tree.leaves(f(x, w)) for f in functions]
same = 0
for call in range(1000):
    found = jax.tree.leaves(functions[call % 2](x, w))
    same += all(map(np.array_equal, found, first[call % 2]))
print(json.dumps([len(os.sched_getaffinity(0)), same]))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_a_thousand_compiled_calls_do_not_hang_on_few_cores(cores):
    """CASES 61, on as many cores as said."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < cores:
        pytest.skip(f"this process may use {len(here)} core(s)")
    assert in_a_new_process(THOUSAND_CALLS, set(here[:cores])) == [cores, 1000]


TRAINING = (
    KERNEL
    + """
import ctypes, gc, psutil

traces = []

@jax.jit
def step(w):
    traces.append(1)
    value, slope = jax.value_and_grad(loss, 1)(x, w)
    return value, w - 0.01 * slope

def train(w, steps):
    for _ in range(steps):
        value, w = step(w)
    return float(value), w

def resident():
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return psutil.Process().memory_info().rss / 2**20

early, w = train(w, 100)
before = resident()
late, w = train(w, 2000)
print(json.dumps([resident() - before, len(traces), early, late]))
"""
)


@pytest.mark.slow
def test_two_thousand_training_steps_keep_the_memory_and_the_trace():
    """CASES 64: in MiB, after 100 steps to warm up."""
    grown, traces, early, late = in_a_new_process(TRAINING)
    assert abs(grown) < 5
    assert traces == 1
    assert late < early


# --- memory


@qml.qkernel(qubits=26)
def wide(qc, x):
    """A state of 2^26 amplitudes: 1 GiB in double precision, and half of that in single."""
    for q in range(26):
        qc.ry(x, q)
        qc.rxx(x, q, (q + 1) % 26)
    return qml.Z(0)


@pytest.mark.parametrize(
    ("transform", "memory", "message"),
    [
        (lambda f: f, 0.2, "26 qubits needs 512.0 MiB for its states, the budget is 204.8 MiB"),
        (
            lambda f: f,
            0.6,
            "expval of 26 qubits needs 1.0 GiB for its states, the budget is 614.4 MiB",
        ),
        (
            jax.grad,
            1.5,
            "expval_vjp of 26 qubits needs 2.0 GiB for its states, the budget is 1.5 GiB",
        ),
        (jax.jacfwd, 1.5, "expval_jvp of 26 qubits needs 2.0 GiB"),
        (jax.hessian, 3, "expval_hvp of 26 qubits needs 4.0 GiB"),
    ],
    ids=["any", "expval", "expval_vjp", "expval_jvp", "expval_hvp"],
)
def test_states_that_do_not_fit_are_refused_with_their_size_before_any_work(
    transform, memory, message
):
    """Compiling already raises, so that nothing has run; without jit, no request is made."""
    backend = StatevectorConfig(memory=memory, threads=1)
    function = lambda x: wide(x, backend=backend)
    with qml.recorded() as runs, pytest.raises(EngineError, match=message):
        jax.jit(transform(function)).lower(0.3)
    if memory < 1:
        with pytest.raises(EngineError, match=message):
            function(0.3)
    assert runs == []


def test_without_a_place_for_compiled_code_the_engine_says_so_and_goes_on():
    script = """
import warnings
from numba.core import caching

caching.CacheImpl._locator_classes = []  # as where no directory can be written
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from qml.simulators.statevector import kernels
    from qml.simulators.statevector.compiler import CACHE
assert not CACHE
(message,) = {str(w.message) for w in caught if "NUMBA_CACHE_DIR" in str(w.message)}
print(message)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "every process compiles anew" in done.stdout


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (EOFError("Ran out of input"), r"is damaged \(Ran out of input\). Delete the files \*.nbi"),
        (pickle.UnpicklingError("truncated"), r"is damaged .*made again"),
        (OSError(28, "No space left on device"), r"cannot be written to .*set NUMBA_CACHE_DIR"),
    ],
)
def test_a_cache_that_fails_is_named_with_what_to_do(error, message):
    with pytest.raises(EngineError, match=message) as caught, compiling():
        raise error
    assert caught.value.__cause__ is error


def test_compiled_code_is_kept_until_any_source_changes(tmp_path):
    """numba looks at the file of a function, not at those of what is compiled into it."""
    sources, kept = tmp_path / "sources", tmp_path / "kept"
    sources.mkdir()
    (sources / "caller.py").write_text("one")
    (sources / "callee.py").write_text("two")
    assert forget_other_sources(kept, sources)
    code = [kept / "caller.nbi", kept / "caller.1.nbc"]
    for path in code:
        path.write_bytes(b"machine code")
    assert not forget_other_sources(kept, sources)
    assert all(path.exists() for path in code)
    (sources / "callee.py").write_text("three")
    assert forget_other_sources(kept, sources)
    assert not any(path.exists() for path in code)
    assert not forget_other_sources(kept, sources)
