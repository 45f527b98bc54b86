"""`@qkernel`: how arguments bind, which backend runs, and what is refused."""

import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qml
from qml import Kernel, kernel as kernel_module, qkernel
from qml.errors import (
    ArgumentError,
    ConfigError,
    DtypeError,
    EngineError,
    KernelNameError,
    ObservableError,
    TracingError,
    UnknownNameError,
    UnsupportedCircuitError,
)
from qml.execution import recorded
from qml.kinds import AerConfig, ReferenceConfig

ROOT = Path(qml.__file__).resolve().parents[1]
exactly = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)


@qkernel(qubits=2)
def kernel(qc, x, w, depth=2):
    """The product of the cosines of depth * x and w."""
    for _ in range(depth):
        qc.ry(x, 0)
    qc.ry(w, 1)
    return qml.Z(0) @ qml.Z(1)


VALUE = np.cos(0.6) * np.cos(0.5)


def cosine_of(scale, **keywords):
    @qkernel(qubits=1, **keywords)
    def scaled(qc, t):
        qc.rx(scale * t, 0)
        return qml.Z(0)

    return scaled


# --- arguments


@pytest.mark.parametrize(
    "call",
    [
        lambda: kernel(0.3, 0.5),
        lambda: kernel(0.3, w=0.5),
        lambda: kernel(w=0.5, x=0.3),
        lambda: kernel(np.float64(0.3), jnp.asarray(0.5)),
        lambda: kernel(np.array(0.3), 0.5, backend="reference"),
        lambda: kernel(0.3, 0.5, gradient="parameter_shift", key=3),
        lambda: jax.jit(kernel)(0.3, w=0.5),
    ],
)
def test_arguments_bind_as_in_a_call_of_the_function(call):
    exactly(call(), VALUE)


def test_a_default_is_handed_over_as_it_is_and_an_argument_is_a_symbol():
    assert kernel.program(0.3, 0.5).num_slots == 3
    with pytest.raises(TracingError, match="keep numbers that steer Python"):
        kernel(0.3, 0.5, depth=3)


def test_arguments_may_be_pytrees_positional_only_starred_and_keyword_only():
    @qkernel(qubits=3)
    def tree(qc, params, /, *angles, last, **more):
        qc.ry(params["a"][0] + params["b"], 0)
        qc.ry(params["a"][1][0], 1)
        for angle in angles:
            qc.ry(angle, 2)
        qc.ry(last + more["extra"], 2)
        return [qml.Z(q) for q in range(3)]

    params = {"a": (0.1, jnp.array([0.2])), "b": np.float32(0.3)}
    found = tree(params, 0.4, 0.5, last=0.6, extra=0.7)
    np.testing.assert_allclose(found, np.cos([0.4, 0.2, 2.2]), atol=1e-6)
    gradient = jax.grad(lambda p: tree(p, last=0.6, extra=0.7).sum())(params)
    np.testing.assert_allclose(gradient["a"][0], -np.sin(0.4), atol=1e-6)
    assert gradient["b"].dtype == np.float32


def test_none_is_no_array_and_reaches_the_function():
    @qkernel(qubits=1)
    def optional(qc, x, w):
        qc.rx(x if w is None else x + w, 0)
        return qml.Z(0)

    exactly(optional(0.3, None), np.cos(0.3))
    exactly(optional(0.3, 0.2), np.cos(0.5))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'x'"),
        ((0.3,), {}, "missing a required argument: 'w'"),
        ((0.3, 0.5, 1, 2), {}, "too many positional arguments"),
        ((0.3,), {"ww": 0.5}, "'ww'.*did you mean 'w'?"),
        ((0.3, 0.5), {"bakend": "aer"}, "'bakend'.*did you mean 'backend'?"),
        ((0.3, 0.5), {"gradients": "auto"}, "'gradients'.*did you mean 'gradient'?"),
        ((0.3, 0.5), {"x": 0.3}, "multiple values for argument 'x'"),
    ],
)
def test_arguments_that_do_not_bind_are_named_with_the_nearest(args, kwargs, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        kernel(*args, **kwargs)
    assert kernel.name in str(caught.value) and "(x, w, depth=2)" in str(caught.value)
    exactly(kernel(0.3, 0.5), VALUE)


@pytest.mark.parametrize(
    "wrong", [True, np.bool_(False), 1j, "0.3", object(), np.array(["a"]), np.array([0.3], object)]
)
def test_what_is_no_real_number_is_refused_by_name(wrong):
    with pytest.raises(DtypeError, match="argument x must hold real numbers"):
        kernel(wrong, 0.5)
    exactly(kernel(0.3, 0.5), VALUE)


def test_the_leaf_that_is_wrong_is_named_inside_its_pytree():
    with pytest.raises(DtypeError, match=r"argument x\['a'\]\[1\] must hold real numbers"):
        kernel({"a": [0.1, True]}, 0.5)


def test_complex_tracers_are_refused_too():
    with pytest.raises(DtypeError, match="complex"):
        jax.jit(kernel)(0.3 + 0j, 0.5)


@pytest.mark.parametrize("x", [np.zeros(2), np.zeros((2, 0)), [0.1, 0.2]])
def test_a_shape_that_does_not_fit_names_the_argument(x):
    with pytest.raises(TracingError, match=r"with x.*w: \(\).*batch with jax.vmap or a layer"):
        kernel(x, 0.5)
    exactly(kernel(0.3, 0.5), VALUE)


def test_a_kernel_that_measures_is_refused_at_its_first_call_and_others_go_on():
    @qkernel(qubits=1)
    def measuring(qc, x):
        qc.rx(x, 0)
        qc.measure_all()
        return qml.Z(0)

    for call in (measuring, jax.jit(measuring), jax.grad(measuring)):
        with pytest.raises(UnsupportedCircuitError, match="measures a qubit"):
            call(0.3)
    exactly(kernel(0.3, 0.5), VALUE)


def test_integers_are_promoted_and_large_ones_too():
    for x in (1, np.int8(1), np.uint64(1), jnp.int32(1)):
        found = kernel(x, 0)
        assert jnp.issubdtype(found.dtype, jnp.floating)
        exactly(found, np.cos(2))


# --- the decorator


@pytest.mark.parametrize("qubits", [0, -1, True, "3", 2.0])
def test_the_number_of_qubits_is_a_positive_integer(qubits):
    with pytest.raises(ArgumentError, match="qubits must be an integer of at least 1, got"):
        qkernel(qubits=qubits)(lambda qc: qml.Z(0))


def test_the_number_of_qubits_may_be_of_numpy():
    assert qkernel(qubits=np.int64(3))(lambda qc: qml.Z(2))() == 1


def test_a_bare_decorator_says_what_to_write():
    with pytest.raises(ArgumentError, match=r"@qkernel\(qubits=4\)"):
        qkernel(lambda qc: qml.Z(0))


@pytest.mark.parametrize("name", ["key", "backend", "gradient"])
def test_reserved_names_of_arguments_are_refused(name):
    scope = {}
    exec(f"def function(qc, x, {name}): ...", scope)
    with pytest.raises(ArgumentError, match=rf"\['{name}'\] are keywords of every kernel call"):
        qkernel(qubits=1)(scope["function"])


@pytest.mark.parametrize("function", [lambda: None, lambda *qc: None, lambda **qc: None])
def test_a_function_without_a_place_for_the_circuit_is_refused(function):
    with pytest.raises(ArgumentError, match="must take the circuit as its first argument"):
        qkernel(qubits=1)(function)


def test_a_kernel_looks_like_its_function_without_the_circuit():
    assert kernel.__name__ == "kernel" and kernel.__doc__.startswith("The product of the cosines")
    assert str(kernel.signature) == "(x, w, depth=2)"
    keywords = ", *, key=None, backend=None, gradient=None)"
    assert str(inspect.signature(kernel)) == str(kernel.signature)[:-1] + keywords
    assert repr(kernel).endswith("kernel(x, w, depth=2) on 2 qubit(s)>")
    assert isinstance(kernel, Kernel) and kernel.num_qubits == 2


def test_jit_takes_a_static_backend_by_name():
    jitted = jax.jit(kernel, static_argnames="backend")
    exactly(jitted(0.3, 0.5, backend="aer"), VALUE)
    assert qml.last_run().kind == "aer"


@pytest.mark.parametrize("change", [setattr, lambda kernel, name, _: delattr(kernel, name)])
@pytest.mark.parametrize("name", ["name", "function", "num_qubits", "mine"])
def test_a_kernel_is_immutable(change, name):
    fixed = cosine_of(1)
    with pytest.raises(AttributeError, match="immutable"):
        change(fixed, name, 3)
    assert fixed.num_qubits == 1 and not hasattr(fixed, "mine")


def test_a_kernel_draws_its_circuit_without_values():
    drawing = kernel.draw(jax.ShapeDtypeStruct((), float), 0.5)
    assert "Ry(x())" in drawing and "Ry(w())" in drawing
    assert kernel.trace(0.3, 0.5).shape == ()


# --- backends


@qkernel(qubits=1)
def cosine(qc, t):
    qc.rx(t, 0)
    return qml.Z(0)


def ran(call):
    """The kinds of engine that a call asked."""
    with recorded() as runs:
        jax.block_until_ready(call())
    return {run.kind for run in runs}


JITTED = {
    "grad(jit)": jax.grad(jax.jit(lambda t: cosine(t))),
    "jit(grad)": jax.jit(jax.grad(lambda t: cosine(t))),
    "hessian(jit)": jax.hessian(jax.jit(lambda t: cosine(t))),
    "vmap(grad(jit))": lambda t: jax.vmap(jax.grad(jax.jit(lambda t: cosine(t))))(t[None])[0],
}


@pytest.mark.parametrize("name", JITTED)
def test_a_jitted_derivative_runs_on_the_backend_of_the_block_alone(name):
    f, t = JITTED[name], jnp.asarray(0.3)
    expected = -np.cos(0.3) if "hessian" in name else -np.sin(0.3)
    for _ in range(2):
        for kind in ("reference", "aer"):
            with qml.use(kind):
                exactly(f(t), expected)
                assert ran(lambda: f(t)) == {kind}
    exactly(f(t), expected)
    assert ran(lambda: f(t)) == set()  # the default: compiled code that no Python sees


def test_blocks_nest_and_an_argument_comes_first():
    with qml.use("aer"):
        with qml.use("reference"):
            assert ran(lambda: cosine(0.3)) == {"reference"}
            assert ran(lambda: cosine(0.3, backend="aer")) == {"aer"}
            assert ran(lambda: jax.grad(lambda t: cosine(t, backend="aer"))(0.3)) == {"aer"}
        assert ran(lambda: cosine(0.3)) == {"aer"}
        assert ran(lambda: cosine(0.3, backend=ReferenceConfig())) == {"reference"}
        assert ran(lambda: cosine(0.3, backend={"kind": "reference"})) == {"reference"}
    assert ran(lambda: cosine(0.3)) == {"statevector"}


def test_two_kernels_of_one_function_run_each_on_its_own_backend():
    both = jax.jit(lambda t: cosine(t, backend="aer") + cosine(2 * t, backend="reference"))
    with recorded() as runs:
        exactly(jax.grad(both)(0.3), -np.sin(0.3) - 2 * np.sin(0.6))
    assert sorted({(run.primitive, run.kind) for run in runs}) == [
        ("expval", "aer"),
        ("expval", "reference"),
        ("expval_vjp", "aer"),
        ("expval_vjp", "reference"),
    ]


def test_a_compiled_function_keeps_its_backend():
    with qml.use("aer"):
        compiled = jax.jit(lambda t: cosine(t)).lower(0.3).compile()
    with qml.use("reference"):
        assert ran(lambda: compiled(jnp.asarray(0.3))) == {"aer"}


@pytest.mark.parametrize("backend", ["are", {"kind": "aer", "shot": 3}, 3])
def test_a_wrong_backend_is_refused_and_the_next_call_is_right(backend):
    with pytest.raises((ConfigError, UnknownNameError)):
        cosine(0.3, backend=backend)
    exactly(cosine(0.3), np.cos(0.3))


def test_the_gradient_of_a_call_replaces_that_of_the_backend_and_keeps_the_rest():
    with qml.use(AerConfig(shots=77, seed=5)), recorded() as runs:
        cosine(0.3, gradient="parameter_shift")
    assert (runs[0].kind, runs[0].shots) == ("aer", 77)


# --- caches


def test_a_kernel_is_traced_once_per_shapes():
    traces = []

    @qkernel(qubits=2)
    def counted(qc, x):
        traces.append(x.shape)
        qc.ry(x[0], 0)
        return qml.Z(0)

    for size in (2, 3, 2, 3):
        for x in (np.zeros(size), jnp.ones(size), jnp.zeros(size, jnp.float32)):
            counted(x)
            jax.grad(counted)(jnp.asarray(x))
    jax.vmap(counted)(jnp.zeros((5, 2)))
    jax.jit(counted)(jnp.zeros(2))
    assert traces == [(2,), (3,)]


def test_the_cache_of_traces_is_bounded():
    calls = []

    @qkernel(qubits=1)
    def counted(qc, x):
        calls.append(x.shape)
        return qml.Z(0)

    for size in range(kernel_module.TRACES + 10):
        counted.trace(np.zeros(size))
    for size in (kernel_module.TRACES + 9, 0):  # the newest is kept, the oldest is gone
        counted.trace(np.zeros(size))
    assert kernel_module.TRACES == 256 and len(calls) == kernel_module.TRACES + 10 + 1


def test_a_kernel_that_is_dropped_takes_its_circuits_along():
    kernel = cosine_of(1)
    kernel(0.1)
    circuit = weakref.ref(kernel.trace(0.1).circuit)
    cosine_of(2)  # takes its name
    del kernel
    gc.collect()
    assert circuit() is None


MEMORY = """
import ctypes, gc
import jax, numpy as np, psutil, qml

def different(i):
    @qml.qkernel(qubits=2)
    def kernel(qc, x):
        qc.rx(x[0], 0)
        qc.ry(0.001 * i, 1)
        qc.rzz(x[1], 0, 1)
        qc.rx(0.3 + i, 1)
        return [qml.Z(0), qml.X(1)]
    return kernel

x = np.array([0.3, 0.4])
process = psutil.Process()

def resident(first, count):
    for i in range(first, first + count):
        kernel = different(i)
        CALL
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return process.memory_info().rss / 2**20

resident(0, 400)  # fills the bounded caches
before = resident(400, 100)
print(resident(500, 500) - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "limit"),
    [
        ("kernel(x); jax.jacrev(kernel)(x)", 10),
        pytest.param("jax.jit(kernel)(x)", 50, marks=pytest.mark.full),
    ],
    ids=["eager", "jit"],
)
def test_memory_is_flat_over_500_different_kernels(call, limit):
    """In MiB, once the bounded caches are full.

    What is allowed is that JAX remembers the parameters of its last thousands of primitives, some
    KiB a kernel, and with jit how the allocator's fragments vary: the compiled code of a kernel is
    1.8 MiB, its circuit 20 KiB.
    """
    ran = subprocess.run(
        [sys.executable, "-c", MEMORY.replace("CALL", call)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert float(ran.stdout) < limit


def test_a_kernel_is_pickled_by_its_name():
    again = pickle.loads(pickle.dumps(kernel))
    assert again is kernel
    mine = cosine_of(1)
    cosine_of(2)  # takes the name
    with pytest.raises(KernelNameError, match="was replaced by another one"):
        pickle.dumps(mine)


def test_a_shape_instead_of_numbers_is_refused_with_what_takes_it():
    with pytest.raises(ArgumentError, match="hold shapes, not numbers. Use `trace`"):
        kernel(jax.ShapeDtypeStruct((), np.float32), 0.5)


def test_a_circuit_too_wide_for_its_engine_is_refused_by_our_error_under_jit_too():
    wide = qkernel(qubits=30)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    for call in (wide, jax.jit(wide), jax.jit(jax.grad(wide))):
        with qml.use("reference"):
            with pytest.raises(EngineError, match="at most 20 qubits, the kernel has 30"):
                call(0.3)


def test_an_observable_weighted_by_an_argument_says_where_to_weight_it():
    weighted = qkernel(qubits=1)(lambda qc, w: w * qml.Z(0))
    with pytest.raises(ObservableError, match="weighted outside"):
        weighted(0.3)
