"""The compiled engine: every primitive natively, in both precisions and both uses of the lanes."""

import jax
import numpy as np
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter
from qiskit.quantum_info import random_unitary

import qml
from qml.circuits.lowering import lower
from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Probabilities
from qml.errors import EngineError
from qml.gradients import expval_curvature, expval_hvp, expval_jvp, expval_vjp
from qml.kinds import ReferenceConfig, StatevectorConfig
from qml.simulators.reference import ReferenceEngine
from qml.simulators.statevector import engine as module, ffi, tables
from qml.simulators.statevector.engine import StatevectorEngine

GATES = {
    "rx": 1, "ry": 1, "rz": 1, "h": 1, "s": 1, "t": 1, "y": 1, "sx": 1,
    "rxx": 2, "ryy": 2, "rzz": 2, "rzx": 2, "cx": 2, "cy": 2, "cz": 2, "swap": 2, "crx": 2,
    "ccx": 3, "dense2": 2, "dense3": 3, "constant": 1,
}  # fmt: skip


def random_program(seed, num_qubits=5, length=25):
    """A circuit of every kind of step, with Pauli sums and probabilities as outputs."""
    rng = np.random.default_rng(seed)
    circuit, parameters = QuantumCircuit(num_qubits), []
    for name in rng.choice(list(GATES), length):
        qubits = [int(q) for q in rng.permutation(num_qubits)[: GATES[name]]]
        if name.startswith("dense"):
            matrix = random_unitary(2 ** GATES[name], seed=int(rng.integers(1 << 30)))
            circuit.unitary(matrix, qubits)
        elif name == "constant":
            circuit.ry(0.3, *qubits)
        elif name.startswith(("r", "cr")):
            parameters.append(Parameter(f"p{len(parameters)}"))
            getattr(circuit, name)(parameters[-1], *qubits)
        else:
            getattr(circuit, name)(*qubits)
    strings = tuple(Pauli(int(x), int(z)) for x, z in rng.integers(1 << num_qubits, size=(3, 2)))
    outputs = [Expectation((Pauli(0, 1 << q),), (1.0,)) for q in range(num_qubits)]
    outputs += [Expectation(strings, (0.3, -1.2, 0.7)), Probabilities((2, 0))]
    return lower(circuit, outputs, {p: i for i, p in enumerate(parameters)})


def operands(program, seed):
    """a (3, K), t (3, 2, 3, K), u (3, 2, 2, K), c (3, 2, 2, M)"""
    rng = np.random.default_rng(seed)
    slots, outputs = program.num_slots, program.num_outputs
    shapes = (3, slots), (3, 2, 3, slots), (3, 2, 2, slots), (3, 2, 2, outputs)
    return [2 * rng.normal(size=shape) for shape in shapes]


def by_shifts(program, a, t, u, c):
    """Every primitive by the shift rule on the reference engine."""
    reference, outputs = ReferenceEngine(ReferenceConfig()), program.num_outputs

    def evaluate(rows, wanted):
        return reference.expval(program, rows, outputs=wanted, seed=0).values

    return {
        "expval": evaluate(a, np.ones(outputs, np.bool_)),
        "expval_vjp": expval_vjp(evaluate, outputs, a, c[:, 0]),
        "expval_jvp": expval_jvp(evaluate, outputs, a, t[:, 0]),
        "expval_hvp": expval_hvp(evaluate, outputs, a, t, c),
        "expval_curvature": expval_curvature(evaluate, outputs, a, t, u),
    }


def natively(program, a, t, u, c, threads=None):
    engine = StatevectorEngine(StatevectorConfig(threads=threads))
    return {
        "expval": engine.compute("expval", program, a),
        "expval_vjp": engine.compute("expval_vjp", program, a, c[:, 0]),
        "expval_jvp": engine.compute("expval_jvp", program, a, t[:, 0]),
        "expval_hvp": engine.compute("expval_hvp", program, a, t, c),
        "expval_curvature": engine.compute("expval_curvature", program, a, t, u),
    }


@pytest.fixture(params=["samples", "amplitudes", "tiles", "shared tiles"])
def layout(request, monkeypatch):
    """What the lanes of a row hold, and whether steps act on tiles, whatever the batch."""
    amplitudes = request.param == "amplitudes"
    monkeypatch.setattr(module, "AMPLITUDE_COST", 0.0 if amplitudes else np.inf)
    if "tiles" in request.param:
        for where in (module, tables):
            monkeypatch.setattr(where, "TILE_BITS", 2)
        monkeypatch.setattr(module, "WHOLE_BITS", 2)
    if "shared" in request.param:
        monkeypatch.setattr(module, "WHOLE_BITS", 9)
        monkeypatch.setattr(module, "TILING_COST", 0.0)
    return request.param


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-11), (np.float32, 1e-4)])
def test_every_primitive_is_that_of_the_shift_rule(seed, dtype, tolerance, layout):
    program = random_program(seed)
    arrays = operands(program, seed)
    expected = by_shifts(program, *arrays)
    found = natively(program, *(x.astype(dtype) for x in arrays))
    for primitive, value in expected.items():
        assert found[primitive].dtype == dtype
        scale = max(1, np.abs(value).max())
        np.testing.assert_allclose(found[primitive] / scale, value / scale, atol=tolerance)


def test_the_layouts_under_test_are_those_they_are_called(layout):
    engine = StatevectorEngine(StatevectorConfig(threads=2))
    found = engine._layout("expval", 5, 16, np.dtype(np.float64))
    assert (found.lane_bits > 0) == (layout == "amplitudes")
    assert found.tiled == ("tiles" in layout)
    assert found.threads == (2 if layout == "shared tiles" and found.tiled else 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_with_amplitudes_in_the_lanes(threads, monkeypatch):
    for where in (module, tables):
        monkeypatch.setattr(where, "TILE_BITS", 2)
    monkeypatch.setattr(module, "WHOLE_BITS", 3)
    program = random_program(2, num_qubits=8, length=30)
    arrays = [x[:1] for x in operands(program, 2)]
    engine = StatevectorEngine(StatevectorConfig(threads=threads))
    layout = engine._layout("expval_hvp", 8, 1, np.dtype(np.float64))
    assert layout.tiled and layout.lane_bits == 3 and layout.threads == threads
    found, expected = natively(program, *arrays, threads=threads), by_shifts(program, *arrays)
    for primitive, value in expected.items():
        scale = max(1, np.abs(value).max())
        np.testing.assert_allclose(found[primitive] / scale, value / scale, atol=1e-11)


def test_a_budget_that_is_tight_costs_threads_and_not_the_request():
    """Two samples of 2 x 2 KiB fit only one after the other."""
    program = random_program(0, num_qubits=7)
    one = StatevectorEngine(StatevectorConfig(memory=5e-6, threads=2))
    both = StatevectorEngine(StatevectorConfig(threads=2))
    a = np.random.default_rng(0).normal(size=(2, program.num_slots))
    c = np.random.default_rng(1).normal(size=(2, 1, program.num_outputs))
    assert one._layout("expval_vjp", 7, 2, a.dtype).workers == 1
    assert both._layout("expval_vjp", 7, 2, a.dtype).workers == 2
    found, expected = (e.compute("expval_vjp", program, a, c) for e in (one, both))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("qubits", [1, 2, 3, 6])
def test_any_width_and_batch_works(qubits):
    program = random_program(qubits, num_qubits=max(qubits, 3), length=12)
    engine = StatevectorEngine(StatevectorConfig())
    for batch in (1, 2, 7, 17, 40):
        a = np.random.default_rng(batch).normal(size=(batch, program.num_slots))
        reference = ReferenceEngine(ReferenceConfig()).expval(
            program, a, outputs=np.ones(program.num_outputs, np.bool_), seed=0
        )
        np.testing.assert_allclose(
            engine.compute("expval", program, a), reference.values, atol=1e-12
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_qubits", [3, 9])
def test_reproducible_results_depend_on_no_split_and_no_thread(num_qubits, dtype):
    """By default a single sample of 9 qubits has amplitudes in its lanes, and other last bits."""
    program = random_program(11, num_qubits, 60)
    rng = np.random.default_rng(0)
    slots, outputs = program.num_slots, program.num_outputs
    a = rng.normal(size=(19, slots)).astype(dtype)
    t, c = (rng.normal(size=(19, 2, size)).astype(dtype) for size in (slots, outputs))
    given = {
        "expval": (a,),
        "expval_vjp": (a, c),
        "expval_jvp": (a, t),
        "expval_hvp": (a, t[:, None], c[:, None]),
    }
    for primitive, whole in given.items():
        found = []
        for threads, parts in ((1, [19]), (2, [19]), (2, [1] * 19), (1, [2, 5, 12])):
            engine = StatevectorEngine(StatevectorConfig(threads=threads, reproducible=True))
            ends = np.cumsum(parts)[:-1]
            pieces = zip(*(np.split(operand, ends) for operand in whole), strict=True)
            found.append(
                np.concatenate([engine.compute(primitive, program, *piece) for piece in pieces])
            )
        for other in found[1:]:
            np.testing.assert_array_equal(found[0], other)


def test_threads_and_the_split_of_a_batch_change_no_bit():
    program = random_program(3)
    a = np.random.default_rng(0).normal(size=(64, program.num_slots))
    c = np.random.default_rng(1).normal(size=(64, 1, program.num_outputs))
    one = StatevectorEngine(StatevectorConfig(threads=1)).compute("expval_vjp", program, a, c)
    two = StatevectorEngine(StatevectorConfig(threads=2)).compute("expval_vjp", program, a, c)
    np.testing.assert_array_equal(one, two)


def test_states_beyond_the_budget_are_refused_with_what_they_need():
    program = random_program(0)
    engine = StatevectorEngine(StatevectorConfig(memory=1e-7))
    with pytest.raises(EngineError, match=r"needs 512 bytes .*budget is 107 bytes. Raise `memory`"):
        engine.compute("expval", program, np.zeros((1, program.num_slots)))


@qml.qkernel(qubits=3)
def kernel(qc, x, w):
    for q in range(3):
        qc.ry(x[q], q)
        qc.rz(w[q] * x[q], q)
    qc.cx(0, 1)
    qc.crx(w[0], 1, 2)
    return [qml.Z(0) @ qml.Z(2), qml.X(1), qml.probs(1, 2)]


@pytest.mark.parametrize(
    "transform", [jax.jacrev, jax.jacfwd, jax.hessian], ids=lambda t: t.__name__
)
def test_compiled_code_calls_it_without_python(transform):
    """XLA's custom call and the eager function agree, and no request reaches Python."""
    x, w = np.array([0.3, -0.7, 1.1]), np.array([0.5, 0.2, -0.4])
    with qml.use("reference"):
        expected = transform(kernel)(x, w)
    with qml.use("statevector"):
        eager = transform(kernel)(x, w)
        jitted = jax.jit(jax.vmap(transform(kernel), (0, None)))
        with qml.recorded() as runs:
            compiled = jitted(np.tile(x, (5, 1)), w)
    assert runs == []
    np.testing.assert_allclose(eager, expected, atol=1e-12)
    np.testing.assert_allclose(compiled[4], expected, atol=1e-12)


@pytest.mark.parametrize("gradient", ["adjoint", "parameter_shift"])
def test_the_rule_that_was_asked_for_is_the_one_that_runs(gradient):
    x, w = np.array([0.3, -0.7, 1.1]), np.array([0.5, 0.2, -0.4])
    with qml.recorded() as runs:
        jax.jacrev(kernel)(x, w, backend="statevector", gradient=gradient)
    slots = kernel.program(x, w).num_slots
    rows = {"adjoint": 1, "parameter_shift": 2 * slots}[gradient]
    assert [(r.primitive, r.gradient, r.rows) for r in runs] == [
        ("expval", "none", 1),
        ("expval_vjp", gradient, rows),
    ]


def test_the_kth_derivative_of_a_rotation_is_that_of_the_cosine():
    rotation = qml.qkernel(qubits=1)(lambda qc, t: qc.rx(t, 0) and qml.Z(0))
    function = lambda t: rotation(t, backend="statevector")
    for k in range(6):
        np.testing.assert_allclose(function(0.3), np.cos(0.3 + k * np.pi / 2), atol=1e-9)
        function = jax.grad(function)


def test_where_xla_takes_no_handler_compiled_code_calls_python_and_says_so(monkeypatch):
    def refuse(*arguments, **options):
        raise ValueError("version 9")

    monkeypatch.setattr(ffi, "target", refuse)
    ffi.available.cache_clear()
    x, w = np.array([0.3, -0.7, 1.1]), np.array([0.5, 0.2, -0.4])
    step = jax.jit(lambda x, w: jax.value_and_grad(lambda w: kernel(x, w).sum())(w))
    try:
        with (
            pytest.warns(RuntimeWarning, match=r"\(version 9\).*through Python"),
            qml.recorded() as runs,
        ):
            value, gradient = jax.block_until_ready(step(x, w))
    finally:
        ffi.available.cache_clear()
    assert [run.primitive for run in runs] == ["expval", "expval_vjp"]
    np.testing.assert_allclose(value, kernel(x, w).sum(), atol=1e-14)
    np.testing.assert_allclose(gradient, jax.grad(lambda w: kernel(x, w).sum())(w), atol=1e-14)
