"""PennyLane's devices as engines: real devices, one of the user's own, and what each is asked."""

import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pennylane
import pytest
from hypothesis import given, settings, strategies as st
from pennylane.devices import DefaultQubit, Device

import qml
from qml import oracle
from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Fixed, Probabilities, Rotation
from qml.config import resolve
from qml.errors import (
    ConfigError,
    DifferentiationError,
    EngineError,
    MissingDependencyError,
    QMLError,
    UnknownNameError,
)
from qml.oracle import program_of
from qml.simulators.base import NativeEngine
from qml.simulators.pennylane import measurement
from qml.simulators.pennylane.circuits import GATES
from qml.simulators.pennylane.derivatives import walsh
from qml.simulators.registry import engine
from qml.subjects import TURN, every
from qml.testing import check_engine

ROOT = Path(qml.__file__).resolve().parents[1]
HERE = __name__
DEVICES = ["default.qubit", "lightning.qubit", "default.mixed", "reference.qubit"]
OWN_DERIVATIVES = ["default.qubit", "lightning.qubit"]


def config(device, **keys):
    return resolve({"kind": "pennylane", "device": device, **keys})


def engine_of(device, **keys):
    return engine(config(device, **keys))


# --- devices of a user, found as "module:function"


class Recording(DefaultQubit):
    """default.qubit that keeps what it is given; `calls` is shared by all of them."""

    calls: list = []

    def execute(self, circuits, execution_config=None):
        Recording.calls.append(list(circuits))
        return super().execute(circuits, execution_config)

    def compute_derivatives(self, circuits, execution_config=None):
        Recording.calls.append(list(circuits))
        return super().compute_derivatives(circuits, execution_config)


class Plain(Device):
    """The least a user writes: `execute`, one circuit after the other, numbers and no arrays."""

    name = "plain"

    def execute(self, circuits, execution_config=None):
        results = []
        for circuit in circuits:
            assert circuit.batch_size is None
            results.append(DefaultQubit().execute([circuit])[0])
        return tuple(results)


class Slopes(Plain):
    """With derivatives of its own, by finite differences of the parameters marked trainable."""

    def compute_derivatives(self, circuits, execution_config=None):
        step = 1e-6
        jacobians = []
        for circuit in circuits:
            columns = []
            for i, value in zip(circuit.trainable_params, circuit.get_parameters(), strict=True):
                ends = [circuit.bind_new_parameters([value + sign * step], [i]) for sign in (1, -1)]
                up, down = (np.ravel(result) for result in self.execute(ends))
                columns.append((up - down) / (2 * step))
            jacobians.append(np.transpose(columns))
        return tuple(jacobians)


class Warm(Plain):
    def execute(self, circuits, execution_config=None):
        raise pennylane.exceptions.DeviceError("the fridge is warm")


class Ragged(Plain):
    """Claims to take arrays of angles, and answers for the first only."""

    def preprocess_transforms(self, execution_config=None):
        pipeline = pennylane.CompilePipeline()
        pipeline.add_transform(pennylane.transforms.cancel_inverses)
        return pipeline

    def execute(self, circuits, execution_config=None):
        return tuple(np.array([0.5]) for _ in circuits)


class Doubling(DefaultQubit):
    """Rewrites every RX by a into two by a/2, so the derivative by its parameter is not by a."""

    def preprocess_transforms(self, execution_config=None):
        pipeline = super().preprocess_transforms(execution_config)
        pipeline.add_transform(halved)
        return pipeline


@pennylane.transform
def halved(tape):
    made = []
    for op in tape.operations:
        if op.name == "RX":
            made += [pennylane.RX(op.data[0] / 2, op.wires)] * 2
        else:
            made.append(op)
    return [tape.copy(operations=made)], lambda results: results[0]


class Labelled(DefaultQubit):
    """Its wires have names, and there are three of them."""

    def __init__(self):
        super().__init__(wires=["a", "b", "c"])


def labelled(wires):
    return Labelled()


def depolarised(wires, seed, probability=0.1):
    """Every RX is followed by a depolarising channel."""
    condition = pennylane.noise.op_in([pennylane.RX])
    channel = pennylane.noise.partial_wires(pennylane.DepolarizingChannel, probability)
    device = pennylane.device("default.mixed", wires=wires, seed=seed)
    return pennylane.add_noise(device, pennylane.NoiseModel({condition: channel}))


def no_device(wires):
    return "a device"


@pytest.fixture
def calls():
    Recording.calls.clear()
    return Recording.calls


# --- values


@pytest.mark.parametrize("name", DEVICES)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 3), rows=st.integers(1, 3))
def test_exact_values_are_those_of_qiskit(name, seed, width, rows):
    rng = np.random.default_rng(seed)
    program = oracle.random_program(rng, width)
    angles = rng.uniform(-7, 7, size=(rows, program.num_slots))
    found = engine_of(name).expval(program, angles, outputs=every(program), seed=0)
    np.testing.assert_allclose(found.values, oracle.expval(program, angles), rtol=0, atol=1e-10)
    assert (found.shots, found.jobs, found.device) == (0, 1, name)


def test_every_gate_of_our_table_has_one_of_theirs():
    assert GATES.keys() == FIXED.keys()
    for name, matrix in FIXED.items():
        width = len(matrix).bit_length() - 1
        wires = list(range(width))
        theirs = pennylane.matrix(GATES[name](wires=wires), wire_order=wires[::-1])
        np.testing.assert_allclose(theirs, matrix, atol=1e-15)


def test_probabilities_are_turned_from_big_to_little_endian():
    program = program_of(2, [Rotation(Pauli(1, 0), 0)], [Probabilities((0, 1))], 1)
    found = engine_of("lightning.qubit").expval(
        program, np.array([[np.pi]]), outputs=every(program), seed=0
    )
    np.testing.assert_allclose(found.values, [[0, 1, 0, 0]], atol=1e-12)


def test_a_device_without_arrays_of_angles_gets_one_circuit_per_row():
    own = engine_of(f"{HERE}:Plain")
    angles = np.linspace(0, 3, 5)[:, None]
    found = own.expval(TURN, angles, outputs=every(TURN), seed=0)
    np.testing.assert_allclose(found.values, np.cos(angles), atol=1e-12)
    assert (found.device, found.jobs) == ("plain", 1)


def test_wires_with_names_are_taken_in_their_order():
    rng = np.random.default_rng(0)
    program = oracle.random_program(rng, 3)
    angles = rng.normal(size=(2, program.num_slots))
    found = engine_of(f"{HERE}:labelled").expval(program, angles, outputs=every(program), seed=0)
    np.testing.assert_allclose(found.values, oracle.expval(program, angles), atol=1e-10)


def test_noise_of_a_device_is_in_its_values():
    """A depolarising channel of probability p shrinks <Z> by 1 - 4p/3."""
    noisy = engine_of(f"{HERE}:depolarised", options={"probability": 0.15})
    angles = np.array([[0.3], [2.0]])
    found = noisy.expval(TURN, angles, outputs=every(TURN), seed=0)
    np.testing.assert_allclose(found.values, 0.8 * np.cos(angles), atol=1e-12)


def test_states_of_long_batches_are_not_held_at_once(calls, monkeypatch):
    monkeypatch.setattr("qml.simulators.pennylane.engine.BATCH", 8)
    found = engine_of(f"{HERE}:Recording").expval(
        TURN, np.zeros((10, 1)), outputs=every(TURN), seed=0
    )
    assert [[circuit.batch_size for circuit in call] for call in calls] == [[4, 4, 2]]
    np.testing.assert_allclose(found.values, 1)


# --- requests


def test_a_request_is_one_call_of_the_device_with_all_rows(calls):
    own = engine_of(f"{HERE}:Recording")
    program = oracle.random_program(np.random.default_rng(0), 2)
    own.expval(program, np.zeros((50, program.num_slots)), outputs=every(program), seed=0)
    (circuits,) = calls
    assert [circuit.batch_size for circuit in circuits] == [50]


def test_a_request_with_shots_is_one_call_with_a_circuit_for_each_group(calls):
    own = engine_of(f"{HERE}:Recording", shots=7)
    words = [Pauli(1, 0), Pauli(0, 1), Pauli(2, 0), Pauli(3, 0)]  # X0, Z0, X1, X0 X1
    program = program_of(2, [Rotation(Pauli(1, 1), 0)], [Expectation(tuple(words), (1.0,) * 4)], 1)
    found = own.expval(program, np.zeros((3, 1)), outputs=every(program), seed=0)
    (circuits,) = calls
    assert [circuit.shots.total_shots for circuit in circuits] == [7, 7]
    assert found.shots == 2 * 7 * 3 == own.cost(program, 3, every(program)).shots


def test_constants_need_no_device(calls):
    program = program_of(1, [], [Expectation((Pauli(0, 0),), (2.0,))])
    for keys in ({}, {"shots": 5}):
        own = engine_of(f"{HERE}:Recording", **keys)
        found = own.expval(program, np.zeros((2, 0)), outputs=every(program), seed=0)
        assert (found.values == 2).all() and (found.jobs, found.shots, calls) == (0, 0, [])


def test_a_kernel_and_its_gradient_are_one_request_each(calls):
    @qml.qkernel(qubits=2)
    def kernel(qc, x):
        qc.rx(x[0], 0)
        qc.cx(0, 1)
        qc.ry(x[1], 1)
        return [qml.Z(0), qml.probs(1)]

    backend = {"kind": "pennylane", "device": f"{HERE}:Recording"}
    x = np.array([[0.3, -0.5], [1.0, 2.0]])
    loss = lambda x: (jax.vmap(lambda row: kernel(row, backend=backend))(x) ** 2).sum()
    with qml.recorded() as runs:
        found = jax.grad(loss)(x)
    exact = lambda x: (jax.vmap(lambda row: kernel(row, backend="reference"))(x) ** 2).sum()
    np.testing.assert_allclose(found, jax.grad(exact)(x), atol=1e-10)
    assert [(run.primitive, run.gradient) for run in runs] == [
        ("expval", "none"),
        ("expval_vjp", "adjoint"),
    ]
    assert len(calls) == 2


# --- derivatives


@pytest.mark.parametrize("name", [*OWN_DERIVATIVES, f"{HERE}:Slopes"])
@pytest.mark.parametrize("seed", range(3))
def test_the_devices_own_derivatives_are_those_of_the_shift_rule(name, seed):
    rng = np.random.default_rng(seed)
    program = oracle.random_program(rng, 1 + seed)
    given = oracle.operands(rng, program, rows=2)
    expected = oracle.primitives(program, given)
    own = engine_of(name)
    assert isinstance(own, NativeEngine) and own.native == {"expval_vjp", "expval_jvp"}
    for primitive in own.native:
        found = own.compute(primitive, program, *given[primitive])
        tolerance = 1e-10 if name in OWN_DERIVATIVES else 1e-7
        np.testing.assert_allclose(found, expected[primitive], rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_are_computed_in_double_and_cast_once(dtype):
    a, c = np.array([[0.3], [2.0]], dtype), np.ones((2, 1, 1), dtype)
    found = engine_of("lightning.qubit").compute("expval_vjp", TURN, a, c)
    assert found.dtype == dtype
    expected = -np.sin(a.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-15)


def test_derivatives_at_angles_that_are_not_finite_are_not_numbers():
    a = np.array([[0.3], [np.nan]])
    found = engine_of("lightning.qubit").compute("expval_vjp", TURN, a, np.ones((2, 1, 1)))
    np.testing.assert_allclose(found.ravel(), [-np.sin(0.3), np.nan])


def test_a_slot_in_several_rotations_gets_the_product_rule():
    turns = [Rotation(Pauli(1, 1), 0), Rotation(Pauli(1, 1), 0)]
    program = program_of(1, turns, [Expectation((Pauli(0, 1),), (1.0,))], 1)
    found = engine_of("lightning.qubit").compute(
        "expval_vjp", program, np.array([[0.4]]), np.ones((1, 1, 1))
    )
    np.testing.assert_allclose(found.ravel(), -2 * np.sin(0.8), atol=1e-12)


def test_one_circuit_is_differentiated_for_each_row_and_cotangent(calls):
    own = engine_of(f"{HERE}:Recording")
    program = oracle.random_program(np.random.default_rng(1), 2)
    a = np.zeros((3, program.num_slots))
    c = np.ones((3, 2, program.num_outputs))
    c[0, 1] = 0
    own.compute("expval_vjp", program, a, c)
    (circuits,) = calls
    assert len(circuits) == 5 and all(len(each.measurements) == 1 for each in circuits)


def test_long_lists_of_circuits_are_differentiated_in_parts(calls, monkeypatch):
    monkeypatch.setattr("qml.simulators.pennylane.derivatives.CIRCUITS", 2)
    own = engine_of(f"{HERE}:Recording")
    a = np.linspace(0, 2, 5)[:, None]
    found = own.compute("expval_vjp", TURN, a, np.ones((5, 1, 1)))
    assert [len(call) for call in calls] == [2, 2, 1]
    np.testing.assert_allclose(found[:, 0], -np.sin(a), atol=1e-12)


@pytest.mark.parametrize("name", ["default.mixed", "reference.qubit", f"{HERE}:Plain"])
def test_a_device_without_derivatives_is_differentiated_by_shifts(name):
    assert engine_of(name).native == frozenset()
    with pytest.raises(DifferentiationError, match="no derivatives.*'parameter_shift', 'spsa'"):
        engine_of(name, gradient="adjoint")


def test_the_device_is_not_asked_for_derivatives_that_are_not_wanted():
    for gradient in ("parameter_shift", "spsa"):
        assert engine_of("lightning.qubit", gradient=gradient).native == frozenset()
    assert engine_of("lightning.qubit", shots=10).native == frozenset()


def test_adjoint_with_shots_is_refused():
    with pytest.raises((ConfigError, DifferentiationError), match="adjoint.*shots"):
        engine_of("lightning.qubit", gradient="adjoint", shots=10)


def test_a_device_that_rewrites_the_angles_is_not_trusted_with_derivatives():
    with pytest.raises(EngineError, match="rewrites this circuit.*'parameter_shift'"):
        engine_of(f"{HERE}:Doubling").check(TURN)
    shifted = engine_of(f"{HERE}:Doubling", gradient="parameter_shift")
    shifted.check(TURN)
    found = shifted.expval(TURN, np.array([[0.3]]), outputs=every(TURN), seed=0)
    np.testing.assert_allclose(found.values, np.cos(0.3))


@given(st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_the_walsh_transform_is_the_sum_over_parities(bits, seed):
    values = np.random.default_rng(seed).normal(size=(2, 1 << bits))
    i = np.arange(1 << bits)
    signs = 1 - 2 * (np.bitwise_count(i[:, None] & i) % 2).astype(int)
    np.testing.assert_allclose(walsh(values), values @ signs, atol=1e-12)


# --- shots


@pytest.mark.parametrize("name", ["default.qubit", "lightning.qubit", "default.mixed"])
def test_draws_follow_from_the_seed_and_leave_numpys_alone(name):
    sampling = engine_of(name, shots=30)
    state = np.random.get_state()[1].copy()
    draw = lambda seed: (
        sampling.expval(TURN, np.full((20, 1), 1.0), outputs=every(TURN), seed=seed).values
    )
    np.testing.assert_array_equal(draw(5), draw(5))
    assert (draw(5) != draw(6)).any()
    np.testing.assert_array_equal(np.random.get_state()[1], state)


def test_a_device_that_takes_no_seed_keeps_all_other_promises():
    check_engine(config(f"{HERE}:Plain", shots=50), qubits=2, seeded=False)


def test_weighted_shots_keep_all_promises():
    check_engine(config("lightning.qubit", shots=50, allocation="weighted"), qubits=2)


def test_weighted_shots_go_where_the_coefficients_are(calls):
    own = engine_of(f"{HERE}:Recording", shots=100, allocation="weighted")
    total = Expectation((Pauli(0, 1), Pauli(1, 0)), (3.0, 1.0))
    program = program_of(1, [Rotation(Pauli(1, 1), 0)], [total], 1)
    found = own.expval(program, np.zeros((2, 1)), outputs=every(program), seed=0)
    (circuits,) = calls
    assert [circuit.shots.total_shots for circuit in circuits] == [150, 50]
    assert found.shots == 2 * 200 == own.cost(program, 2, every(program)).shots


def test_a_string_on_many_qubits_is_sampled_by_its_parity(monkeypatch):
    monkeypatch.setattr(measurement, "WIDE", 1)
    flips = [Fixed("x", (0,), FIXED["x"]), Fixed("h", (1,), FIXED["h"])]
    both = Pauli(2, 1)  # Z on qubit 0, X on qubit 1
    outputs = [Expectation((both,), (2.0,)), Expectation((both, Pauli(0, 1)), (1.0, 4.0))]
    program = program_of(2, flips, outputs)
    found = engine_of("default.qubit", shots=5).expval(
        program, np.zeros((2, 0)), outputs=every(program), seed=0
    )
    np.testing.assert_allclose(found.values, [[-2, -5]] * 2)
    assert found.shots == 2 * 2 * 5


# --- threads


def test_a_circuit_being_recorded_elsewhere_is_left_alone():
    """Operators that are made go to the one recording of the process, in whatever thread."""
    stop = threading.Event()
    own = engine_of("default.qubit")
    angles = np.zeros((2, 1))

    def evaluate():
        while not stop.is_set():
            own.expval(TURN, angles, outputs=every(TURN), seed=0)

    worker = threading.Thread(target=evaluate)
    worker.start()
    try:
        lengths = set()
        for _ in range(50):
            with pennylane.queuing.AnnotatedQueue() as recording:
                for q in range(5):
                    pennylane.RX(0.1, q)
            lengths.add(len(recording.queue))
    finally:
        stop.set()
        worker.join()
    assert lengths == {5}


def test_a_kernel_within_a_qnode_is_no_part_of_its_circuit():
    own = engine_of("default.qubit")
    with pennylane.queuing.AnnotatedQueue() as recording:
        pennylane.Hadamard(0)
        own.expval(TURN, np.zeros((1, 1)), outputs=every(TURN), seed=0)
    assert [operator.name for operator in recording.queue] == ["Hadamard"]


# --- refusals


def test_an_unknown_device_lists_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean 'lightning\.qubit'"):
        engine_of("lightning.qbit")


@pytest.mark.parametrize(
    ("where", "kind", "said"),
    [
        ("no_such_module:device", ConfigError, "cannot be imported: ModuleNotFoundError.*PYTHONPA"),
        (f"{HERE}:depolarized", UnknownNameError, "no function .*; did you mean 'depolarised'"),
        ("builtins:dict", ConfigError, "does not say what it takes"),
    ],
)
def test_a_function_that_is_not_there_is_named(where, kind, said):
    with pytest.raises(kind, match=f"device = '{where}'.*{said}"):
        engine_of(where)


@pytest.mark.parametrize("place", ["__init__", "supports_derivatives", "preprocess_transforms"])
@pytest.mark.parametrize("error", [KeyError("channel"), ImportError("no driver"), OSError("gone")])
def test_whatever_a_device_raises_when_it_is_made_is_told_as_its_fault(place, error, monkeypatch):
    def fail(self, *given, **keys):
        raise error

    monkeypatch.setattr(Slopes, place, fail)
    engine.cache_clear()
    with pytest.raises(EngineError) as caught:
        engine_of(f"{HERE}:Slopes").check(TURN)
    name = f"{HERE}:Slopes" if place == "__init__" else "plain"
    assert str(caught.value).startswith(f"the PennyLane device {name!r} ")
    assert f"{type(error).__name__}: {error}. Change the backend's options" in str(caught.value)
    assert caught.value.__cause__ is error


def test_a_registered_device_that_cannot_be_loaded_is_named(monkeypatch):
    class Entry:
        def load(self):
            raise ZeroDivisionError("broken wheel")

    monkeypatch.setitem(pennylane.plugin_devices, "their.device", Entry())
    with pytest.raises(
        EngineError, match="'their.device' cannot be loaded: ZeroDivisionError: bro"
    ):
        engine_of("their.device")


def test_a_function_that_makes_no_device_is_named():
    with pytest.raises(ConfigError, match="made str, which is no"):
        engine_of(f"{HERE}:no_device")


@pytest.mark.parametrize("key", ["shots", "seed"])
def test_options_that_are_keys_of_the_backend_are_refused(key):
    with pytest.raises(ConfigError, match=f"{key!r} is a key of the backend itself"):
        engine_of("default.qubit", options={key: 3})


def test_a_wrong_option_is_told_by_the_device():
    with pytest.raises(EngineError, match="could not be made with wires, colour.*colour"):
        engine_of("default.qubit", options={"colour": "red"})


def test_too_few_wires_are_refused_early():
    narrow = engine_of("default.qubit", options={"wires": 2})
    program = oracle.random_program(np.random.default_rng(0), 3)
    narrow.check(oracle.random_program(np.random.default_rng(0), 2))
    with pytest.raises(EngineError, match=r"2 wire\(s\), the kernel 3 qubits"):
        narrow.check(program)


@pytest.mark.parametrize("name", DEVICES)
def test_a_state_that_cannot_be_is_refused_before_it_is_made(name):
    with pytest.raises(EngineError, match="a state of 60 qubits on .* needs"):
        engine_of(name).check(program_of(60, [], [Expectation((Pauli(0, 1 << 59),), (1.0,))]))


def test_a_device_that_answers_in_another_shape_is_told_what_to_do():
    with pytest.raises(EngineError, match=r"2 row\(s\) of angles.*broadcast_expand"):
        engine_of(f"{HERE}:Ragged").expval(TURN, np.zeros((2, 1)), outputs=every(TURN), seed=0)


def test_what_a_device_cannot_do_is_told_in_its_words():
    with pytest.raises(EngineError, match="'plain' failed: DeviceError: the fridge is warm"):
        engine_of(f"{HERE}:Warm").expval(TURN, np.zeros((1, 1)), outputs=every(TURN), seed=0)


def test_a_call_from_compiled_code_is_refused():
    own = engine_of("lightning.qubit")
    assert not own.has_xla_call()
    with pytest.raises(EngineError, match="cannot be called by compiled code"):
        own.xla_call("expval_vjp", TURN, None)


def test_without_pennylane_the_extra_is_named():
    source = (
        "import sys; sys.modules['pennylane'] = None\n"
        "import qml.errors\n"
        "from qml.config import resolve\n"
        "from qml.simulators.registry import engine\n"
        "try:\n"
        "    engine(resolve({'kind': 'pennylane', 'device': 'default.qubit'}))\n"
        "except qml.errors.MissingDependencyError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "pip install 'hybrid-qml[pennylane]'" in run.stdout
    assert issubclass(MissingDependencyError, QMLError)
