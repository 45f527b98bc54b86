"""The engine in plain JAX: right values, any order of derivative, and what it does not cost."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines import EXACT
from jax import export
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter
from qiskit.quantum_info import Pauli as Label, Statevector, random_unitary

import qml
from qml.circuits.lowering import lower
from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Probabilities, Program, Rotation
from qml.errors import ConfigError, EngineError
from qml.execution import execute, recorded
from qml.gradients import expval_curvature, expval_hvp, expval_jvp, expval_vjp
from qml.kinds import KINDS, ReferenceConfig, XlaConfig
from qml.lowerings import AXES
from qml.simulators.base import TraceableEngine
from qml.simulators.registry import engine
from qml.simulators.xla.engine import STATES, XlaEngine

ROOT = Path(qml.__file__).resolve().parents[1]
QUBITS = 4
GATES = {
    "rx": 1, "ry": 1, "rz": 1, "h": 1, "t": 1, "y": 1, "sx": 1, "sdg": 1,
    "rxx": 2, "rzx": 2, "cx": 2, "cy": 2, "cz": 2, "swap": 2, "crx": 2, "cp": 2,
    "ccx": 3, "dense1": 1, "dense2": 2, "dense3": 3, "constant": 1,
}  # fmt: skip
XLA = engine(XlaConfig())


def random_circuit(seed):
    """A circuit of every kind of gate in a random order, and its parameters."""
    rng = np.random.default_rng(seed)
    circuit, parameters = QuantumCircuit(QUBITS), []
    for name in rng.permutation([*GATES, *GATES]):
        qubits = [int(q) for q in rng.permutation(QUBITS)[: GATES[name]]]
        if name.startswith("dense"):
            matrix = random_unitary(2 ** GATES[name], seed=int(rng.integers(1 << 30)))
            circuit.unitary(matrix, qubits)
        elif name == "constant":
            circuit.ry(0.3, *qubits)
        elif name.startswith("r") or name in ("crx", "cp"):
            parameters.append(Parameter(f"p{len(parameters)}"))
            getattr(circuit, name)(parameters[-1], *qubits)
        else:
            getattr(circuit, name)(*qubits)
    return circuit, parameters


SUM = ((Pauli(0b0101, 0b0110), Pauli(0b1000, 0b1011), Pauli(0, 0b1001)), (0.3, -1.2, 0.7))
OUTPUTS = [
    Expectation((Pauli(0, 1),), (1.0,)),
    Expectation(*SUM),
    Probabilities((2, 0)),
    Expectation((Pauli(0, 0),), (0.5,)),
    Expectation((), ()),
    Expectation((Pauli(0b0110, 0),), (2.0,)),
]


def random_program(seed):
    circuit, parameters = random_circuit(seed)
    return lower(circuit, OUTPUTS, {p: i for i, p in enumerate(parameters)})


def program_of(num_qubits, operations, outputs, slots):
    none = np.zeros(0, np.int32)
    angles = AngleMap(0, none, none, np.zeros(0), np.zeros(slots))
    return Program(num_qubits, tuple(operations), tuple(outputs), angles)


def operands(program, seed):
    """a (3, K), t (3, 2, 3, K), u (3, 2, 2, K), c (3, 2, 2, M)"""
    rng = np.random.default_rng(seed)
    slots, outputs = program.num_slots, program.num_outputs
    shapes = (3, slots), (3, 2, 3, slots), (3, 2, 2, slots), (3, 2, 2, outputs)
    a, t, u, c = (2 * rng.normal(size=shape) for shape in shapes)
    return {
        "expval": (a,),
        "expval_jvp": (a, t[:, 0]),
        "expval_vjp": (a, c[:, 0]),
        "expval_hvp": (a, t, c),
        "expval_curvature": (a, t, u),
    }


RULES = {
    "expval_jvp": expval_jvp,
    "expval_vjp": expval_vjp,
    "expval_hvp": expval_hvp,
    "expval_curvature": expval_curvature,
}


def by_shifts(primitive, program, *arrays):
    """A primitive by the shift rule on the reference engine."""
    reference = engine(ReferenceConfig())

    def evaluate(rows, wanted):
        return reference.expval(program, rows, outputs=wanted, seed=0).values

    if primitive == "expval":
        return evaluate(*arrays, np.ones(program.num_outputs, np.bool_))
    return RULES[primitive](evaluate, program.num_outputs, *arrays)


# --- right values


@pytest.mark.parametrize("seed", range(4))
def test_values_are_those_of_qiskit(seed):
    circuit, parameters = random_circuit(seed)
    program = lower(circuit, OUTPUTS, {p: i for i, p in enumerate(parameters)})
    values = np.random.default_rng(seed).uniform(-7, 7, size=(2, len(parameters)))
    angles = values @ program.angles.matrix.T + program.angles.offset
    found = XLA.trace("expval", program, angles)
    for row, expected in zip(found, values, strict=True):
        state = Statevector(circuit.assign_parameters(dict(zip(parameters, expected, strict=True))))
        mean = lambda label, state=state: state.expectation_value(Label(label)).real
        np.testing.assert_allclose(row[0], mean("IIIZ"), rtol=0, atol=1e-12)
        labels = [pauli.label(QUBITS) for pauli in SUM[0]]
        total = sum(c * mean(label) for label, c in zip(labels, SUM[1], strict=True))
        np.testing.assert_allclose(row[1], total, rtol=0, atol=1e-12)
        np.testing.assert_allclose(row[2:6], state.probabilities([2, 0]), rtol=0, atol=1e-12)
        np.testing.assert_allclose(row[6:], [0.5, 0, 2 * mean("IXXI")], rtol=0, atol=1e-12)


@pytest.mark.parametrize("primitive", AXES)
def test_every_primitive_is_that_of_the_shift_rule_and_of_the_statevector_engine(primitive):
    program = random_program(0)
    arrays = operands(program, 0)[primitive]
    found = XLA.trace(primitive, program, *arrays)
    assert found.dtype == np.float64
    native = engine(KINDS["statevector"]()).compute(primitive, program, *arrays)
    for expected in (by_shifts(primitive, program, *arrays), native):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("primitive", AXES)
def test_single_precision_stays_single_and_is_within_1e_5(primitive):
    program = random_program(1)
    arrays = operands(program, 1)[primitive]
    single = [array.astype(np.float32) for array in arrays]
    trace = partial(XLA.trace, primitive, program)
    assert "f64" not in str(jax.make_jaxpr(trace)(*single))
    found = trace(*single)
    assert found.dtype == np.float32
    expected = by_shifts(primitive, program, *(array.astype(np.float64) for array in single))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


def test_other_axes_may_be_empty():
    program = random_program(0)
    slots, outputs = program.num_slots, program.num_outputs
    zeros = lambda *shape: np.zeros(shape)
    assert XLA.trace("expval", program, zeros(0, slots)).shape == (0, outputs)
    found = XLA.trace("expval_jvp", program, zeros(2, slots), zeros(2, 0, slots))
    assert found.shape == (2, 0, outputs)
    found = XLA.trace("expval_vjp", program, zeros(0, slots), zeros(0, 1, outputs))
    assert found.shape == (0, 1, slots)


def test_a_program_without_slots_has_values_and_no_gradient():
    outputs = (Expectation((Pauli(0, 1),), (2.0,)), Probabilities((1, 0)))
    for operations, expected in (
        ((), [2, 1, 0, 0, 0]),
        ((Rotation(Pauli(1, 0), -1, np.pi),), [-2, 0, 0, 1, 0]),
    ):
        program = program_of(2, operations, outputs, 0)
        found = XLA.trace("expval", program, np.zeros((3, 0)))
        np.testing.assert_allclose(found, [expected] * 3, atol=1e-12)
        assert XLA.trace("expval_vjp", program, np.zeros((3, 0)), np.ones((3, 1, 5))).size == 0


# --- derivatives of any order


@qml.qkernel(qubits=2)
def kernel(qc, x, w):
    for q in range(2):
        qc.ry(x[q], q)
        qc.rz(w[q] * x[q], q)
    qc.cx(0, 1)
    qc.rx(w[0], 1)
    return [qml.Z(0) @ qml.Z(1), qml.X(1), qml.probs(1)]


X, W = np.array([0.3, -0.7]), np.array([0.5, 0.2])
on = lambda kind: lambda x, w: kernel(x, w, backend=kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("derivative", "last"), [(jax.grad, 4), (jax.jacfwd, 6)], ids=["reverse", "forward"]
)
def test_the_kth_derivative_of_a_rotation_is_that_of_the_cosine(derivative, last):
    rotation = qml.qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    function = lambda t: rotation(t, backend="xla")
    for k in range(1, last + 1):
        function = derivative(function)
        value = jax.jit(function)(0.3)
        np.testing.assert_allclose(value, np.cos(0.3 + k * np.pi / 2), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev], ids=["fwd", "rev"])
@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev], ids=["of fwd", "of rev"])
def test_the_third_order_in_mixed_arguments_is_that_of_the_shift_rule(inner, outer):
    third = lambda f: jax.jit(outer(jax.jacrev(inner(f), 1)))
    expected = third(on("statevector"))(X, W)
    np.testing.assert_allclose(third(on("xla"))(X, W), expected, atol=1e-9)


def test_eager_and_jitted_derivatives_agree_with_the_reference():
    batched = lambda f: jax.vmap(jax.jacrev(f), (0, None))
    xs = np.stack([X, -X, 2 * X])
    expected = batched(on("reference"))(xs, W)
    np.testing.assert_allclose(batched(on("xla"))(xs, W), expected, atol=1e-12)
    np.testing.assert_allclose(jax.jit(batched(on("xla")))(xs, W), expected, atol=1e-12)


@pytest.mark.parametrize("primitive", ["expval", "expval_vjp", "expval_hvp"])
def test_an_angle_that_is_not_finite_stays_in_its_sample(primitive):
    program = random_program(2)
    arrays = operands(program, 2)[primitive]
    expected = XLA.trace(primitive, program, *arrays)
    for wrong in (np.nan, np.inf):
        arrays[0][1, 0] = wrong
        found = XLA.trace(primitive, program, *arrays)
        # What has no string in it is zero, whatever the angles.
        assert np.isnan(
            np.delete(found[1], 7, axis=-1) if primitive == "expval" else found[1]
        ).all()
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[2], expected[2])


# --- what it costs


def layered(num_qubits, depth):
    """Rotations of one angle each layer, and a gate: what repeats is a kind, not a gate."""
    circuit, parameters = QuantumCircuit(num_qubits), [Parameter(f"p{i}") for i in range(depth)]
    for i, parameter in enumerate(parameters):
        circuit.ry(parameter, i % num_qubits)
        circuit.rz(parameter, (i + 1) % num_qubits)
        circuit.cx(i % num_qubits, (i + 1) % num_qubits)
    outputs = [Expectation((Pauli(0, 1 << q),), (1.0,)) for q in range(num_qubits)]
    return lower(circuit, outputs, {p: i for i, p in enumerate(parameters)})


def equations(jaxpr):
    """How many operations a jaxpr holds, those of inner ones included."""
    inner = (x for e in jaxpr.eqns for x in jax.tree.leaves(list(e.params.values())))
    return len(jaxpr.eqns) + sum(equations(getattr(x, "jaxpr", x)) for x in inner if _holds(x))


def _holds(x):
    return hasattr(getattr(x, "jaxpr", x), "eqns")


@pytest.mark.parametrize("primitive", AXES)
def test_what_is_traced_does_not_grow_with_depth(primitive):
    counts = []
    for depth in (3, 300):
        program = layered(3, depth)
        trace = partial(XLA.trace, primitive, program)
        counts.append(equations(jax.make_jaxpr(trace)(*operands(program, 0)[primitive]).jaxpr))
    assert counts[0] == counts[1] > 10


@pytest.mark.parametrize("primitive", ["expval", "expval_vjp", "expval_hvp"])
def test_memory_does_not_grow_with_depth(primitive):
    """From 10 layers to 200 by less than one state: by a few numbers for every rotation."""
    batch, qubits, needed = 2, 12, []
    for depth in (10, 200):
        program = layered(qubits, depth)
        slots, outputs = program.num_slots, program.num_outputs
        shapes = {
            "expval": [(batch, slots)],
            "expval_vjp": [(batch, slots), (batch, 1, outputs)],
            "expval_hvp": [(batch, slots), (batch, 1, 1, slots), (batch, 1, 1, outputs)],
        }[primitive]
        trace = jax.jit(partial(XLA.trace, primitive, program))
        compiled = trace.lower(*(jax.ShapeDtypeStruct(s, np.float64) for s in shapes)).compile()
        needed.append(compiled.memory_analysis().temp_size_in_bytes)
    state = 16 * batch << qubits
    assert state < needed[0] and needed[1] - needed[0] < state


def test_five_calls_compile_once(caplog):
    fresh = qml.qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    step = jax.jit(jax.value_and_grad(lambda t: fresh(t, backend="xla")))
    angles = [jnp.float64(t) for t in range(5)]
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        values = [step(t)[0] for t in angles]
    finished = [r for r in caplog.messages if r.startswith("Finished XLA compilation")]
    assert len(finished) == 1
    np.testing.assert_allclose(values, np.cos(np.arange(5)), atol=1e-12)


def test_an_eager_call_is_recorded_and_compiled_code_calls_no_host():
    gradient = jax.jacrev(on("xla"))
    with recorded() as runs:
        gradient(X, W)
    assert [(r.primitive, r.gradient, r.kind, r.device, r.rows, r.shots) for r in runs] == [
        ("expval", "none", "xla", "CPU", 1, 0),
        ("expval_vjp", "adjoint", "xla", "CPU", 1, 0),
    ]
    lowered = jax.jit(gradient).lower(X, W)
    assert "callback" not in lowered.as_text()
    compiled = lowered.compile()
    with recorded() as runs:
        compiled(X, W)
    assert runs == []


def test_an_eager_request_takes_numpy_and_an_empty_one_is_no_run():
    program = random_program(0)
    a, c = operands(program, 0)["expval_vjp"]
    with recorded() as runs:
        found = execute("expval_vjp", program, XlaConfig(), 7, a, c)
        execute("expval_vjp", program, XlaConfig(), 7, a[:0], c[:0])
    assert [run.rows for run in runs] == [3]
    np.testing.assert_allclose(found, by_shifts("expval_vjp", program, a, c), atol=1e-11)


# --- limits


def test_the_engine_says_what_it_is():
    assert isinstance(XLA, TraceableEngine) and XLA.traceable == AXES.keys()
    assert not isinstance(engine(ReferenceConfig()), TraceableEngine)


def test_states_that_cannot_be_are_refused_with_what_they_need():
    wide = program_of(31, (), OUTPUTS[:1], 0)
    with pytest.raises(EngineError, match="31 qubits needs 16.0 GiB.*at most 30 qubits"):
        XLA.check(wide)
    XLA.check(program_of(20, (), OUTPUTS[:1], 0))
    small = XlaEngine(XlaConfig(memory=2**-8))
    with pytest.raises(EngineError, match="20 qubits needs 8.0 MiB.*budget is 4.0 MiB.*`memory`"):
        small.check(program_of(20, (), OUTPUTS[:1], 0))


def test_the_shift_rule_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match="'auto' or 'adjoint'.*JAX from a host callback"):
        kernel(X, W, backend="xla", gradient="parameter_shift")
    with pytest.raises(ConfigError, match="no key 'device'"):
        kernel(X, W, backend={"kind": "xla", "device": "GPU"})


# --- export and devices, in processes of their own


def run(source, *arguments, **environment):
    surroundings = {**os.environ, "JAX_ENABLE_X64": "1", **environment}
    command = [sys.executable, "-c", source, *map(str, arguments)]
    return subprocess.run(
        command, env=surroundings, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


LOADED = """
import sys
import numpy as np
import jax
from jax import export

exported = export.deserialize(open(sys.argv[1], "rb").read())
with np.load(sys.argv[2]) as given:
    x, w = given["x"], given["w"]
values = exported.call(x, w)
slope = jax.grad(lambda w: (exported.call(x, w) ** 2).sum())(w)
assert not [name for name in sys.modules if name.split(".")[0] in ("qml", "qiskit", "numba")]
np.savez(sys.argv[3], values=values, slope=slope)
"""


def test_an_exported_kernel_runs_and_differentiates_where_this_library_is_not(tmp_path):
    """Exported for any batch; called with 5 samples."""
    batched = jax.vmap(on("xla"), (0, None))
    (b,) = export.symbolic_shape("b")
    shapes = jax.ShapeDtypeStruct((b, 2), np.float64), jax.ShapeDtypeStruct((2,), np.float64)
    stored = export.export(jax.jit(batched))(*shapes).serialize(vjp_order=1)
    program, given, found = (tmp_path / name for name in ("program", "given.npz", "found.npz"))
    program.write_bytes(stored)
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.savez(given, x=x, w=W)
    run(LOADED, program, given, found)
    expected = jax.vmap(on("reference"), (0, None))
    with np.load(found) as answer:
        np.testing.assert_allclose(answer["values"], expected(x, W), atol=1e-12)
        slope = jax.grad(lambda w: (expected(x, w) ** 2).sum())(W)
        np.testing.assert_allclose(answer["slope"], slope, atol=1e-11)


def test_a_kernel_is_exported_for_devices_that_are_not_here():
    platforms = ("cpu", "cuda", "tpu")
    exported = export.export(jax.jit(jax.jacrev(on("xla"))), platforms=platforms)(X, W)
    assert exported.platforms == platforms
    np.testing.assert_allclose(exported.call(X, W), jax.jacrev(on("xla"))(X, W), atol=1e-12)


@pytest.mark.parametrize("kind", sorted(EXACT.keys() - {"xla"}))
def test_engines_that_are_no_jax_function_still_refuse_export(kind):
    with pytest.raises(EngineError, match=f"{kind!r} engine cannot be exported"):
        export.export(jax.jit(on(EXACT[kind])))(X, W)


PLACED = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
import qml

kernel = qml.qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
one = lambda t: kernel(t, backend="xla")
first, second = jax.devices()
for f in (one, jax.jit(one), jax.grad(one), jax.jit(jax.grad(one))):
    assert f(jax.device_put(jnp.float64(0.3), second)).devices() == {second}
mesh = jax.make_mesh((2,), ("b",), axis_types=(jax.sharding.AxisType.Auto,))
t = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, PartitionSpec("b")))
for f in (jax.vmap(jax.grad(one)), jax.jit(jax.vmap(jax.grad(one)))):
    np.testing.assert_allclose(f(t), -np.sin(np.arange(4.0)), atol=1e-12)
"""


def test_it_runs_where_its_arguments_are():
    run(PLACED, XLA_FLAGS="--xla_force_host_platform_device_count=2")


@pytest.mark.parametrize("primitive", sorted(STATES))
def test_a_batch_beyond_the_budget_runs_in_parts_with_the_same_numbers(primitive):
    """Seven samples of a circuit on 2 qubits, one or two at a time."""
    program = kernel.program(X, W)
    rng = np.random.default_rng(0)
    slots, outputs = program.num_slots, program.num_outputs
    shapes = {
        "expval": (),
        "expval_jvp": ((7, 2, slots),),
        "expval_vjp": ((7, 2, outputs),),
        "expval_hvp": ((7, 1, 2, slots), (7, 1, 2, outputs)),
        "expval_curvature": ((7, 1, 2, slots), (7, 1, 2, slots)),
    }[primitive]
    arrays = [rng.normal(size=shape) for shape in ((7, slots), *shapes)]
    whole, parts = (XlaEngine(XlaConfig(memory=memory)) for memory in (None, 1e-6))
    found, expected = (e.trace(primitive, program, *arrays) for e in (parts, whole))
    loops = [jax.make_jaxpr(partial(e.trace, primitive, program))(*arrays) for e in (whole, parts)]
    assert str(loops[0]).count("scan[") < str(loops[1]).count("scan[")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
