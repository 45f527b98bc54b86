"""What every engine of the registry promises, and that all give the same values."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from engines import EXACT, NOISY, SAMPLING
from hypothesis import given, strategies as st

from qml import oracle
from qml.circuits.paulis import Pauli
from qml.circuits.program import CONSTANT, Expectation, Probabilities, Rotation
from qml.config import resolve
from qml.errors import UnknownNameError
from qml.kinds import KINDS
from qml.oracle import program_of
from qml.settings import EngineConfig
from qml.simulators.base import Engine
from qml.simulators.registry import ENGINES, engine
from qml.subjects import COIN, TURN, every

DEVICES = {"estimator": "StatevectorEstimator", "pennylane": "default.qubit"}
"""Where it says that it ran; the others on the "CPU"."""


def random_program(seed, num_qubits):
    """That of the oracle, two rotations by the angle of each slot."""
    program = oracle.random_program(np.random.default_rng(seed), num_qubits)
    operations = [
        replace(o, slot=o.slot // 2) if isinstance(o, Rotation) and o.slot != CONSTANT else o
        for o in program.operations
    ]
    return program_of(num_qubits, operations, program.outputs, -(-program.num_slots // 2))


@pytest.fixture(params=EXACT)
def exact(request):
    return engine(resolve(EXACT[request.param]))


@pytest.fixture(params=SAMPLING)
def sampling(request):
    return engine(resolve({**SAMPLING[request.param], "shots": 200}))


@pytest.mark.parametrize("kind", EXACT)
@given(seed=st.integers(0, 2**32 - 1), num_qubits=st.integers(1, 5), rows=st.integers(1, 3))
def test_exact_values_are_those_of_qiskit(kind, seed, num_qubits, rows):
    program = random_program(seed, num_qubits)
    angles = np.random.default_rng(seed).uniform(-7, 7, size=(rows, program.num_slots))
    found = engine(resolve(EXACT[kind])).expval(program, angles, outputs=every(program), seed=0)
    np.testing.assert_allclose(found.values, oracle.expval(program, angles), rtol=0, atol=1e-10)
    assert found.values.dtype == np.float64
    assert (found.shots, found.device) == (0, DEVICES.get(kind, "CPU"))


def test_the_registry_makes_engines_once_and_names_the_nearest(exact):
    assert isinstance(exact, Engine)
    assert engine(exact.config.model_copy()) is exact
    assert engine(exact.config.model_copy(update={"seed": 9})) is not exact
    with pytest.raises(UnknownNameError, match="kind 'referense': did you mean 'reference'"):
        engine(EngineConfig(kind="referense"))


def test_every_kind_that_can_be_configured_has_an_engine_and_is_tested():
    assert ENGINES.keys() == KINDS.keys() == EXACT.keys() | NOISY.keys()
    assert [kind for kind in KINDS if "shots" in KINDS[kind].model_fields] == sorted(
        {**SAMPLING, **NOISY}
    )


def test_outputs_that_were_not_asked_for_are_zero_and_the_others_right(exact):
    program = random_program(5, 3)
    angles = np.random.default_rng(0).normal(size=(4, program.num_slots))
    whole = exact.expval(program, angles, outputs=every(program), seed=0).values
    for seed in range(6):
        mask = np.random.default_rng(seed).random(program.num_outputs) < 0.4
        found = exact.expval(program, angles, outputs=mask, seed=0).values
        np.testing.assert_allclose(found, np.where(mask, whole, 0.0), rtol=0, atol=1e-12)
        assert (found[:, ~mask] == 0).all()


def test_rows_do_not_depend_on_their_neighbours_nor_on_how_many_there_are(exact):
    program = random_program(6, 2)
    rows = 300 if exact.config.kind == "estimator" else 3000  # Qiskit simulates row by row
    angles = np.random.default_rng(0).normal(size=(rows, program.num_slots))
    outputs = every(program)
    whole = exact.expval(program, angles, outputs=outputs, seed=0).values
    for part in (slice(0, 1), slice(rows // 2 - 2, rows // 2 + 2), slice(rows - 1, rows)):
        found = exact.expval(program, angles[part], outputs=outputs, seed=0).values
        np.testing.assert_allclose(found, whole[part], rtol=0, atol=1e-12)


def test_angles_are_periodic_and_left_alone(exact):
    program = random_program(7, 3)
    angles = np.random.default_rng(0).normal(size=(2, program.num_slots))
    before = angles.copy()
    outputs = every(program)
    near = exact.expval(program, angles, outputs=outputs, seed=0).values
    far = exact.expval(program, angles + 4 * np.pi * 5, outputs=outputs, seed=0).values
    np.testing.assert_allclose(far, near, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(angles, before)


def test_a_program_without_slots_or_operations_runs(exact):
    outputs = (Expectation((Pauli(0, 1),), (2.0,)), Probabilities((1, 0)))
    for rows in (1, 3):
        empty = program_of(2, [], outputs, 0)
        found = exact.expval(empty, np.zeros((rows, 0)), outputs=every(empty), seed=0)
        np.testing.assert_allclose(found.values, [[2, 1, 0, 0, 0]] * rows, atol=1e-12)


def test_threads_share_an_engine(exact):
    programs = [random_program(seed, 3) for seed in range(4)]
    angles = [np.random.default_rng(1).normal(size=(5, p.num_slots)) for p in programs]

    def evaluate(i):
        program = programs[i % 4]
        found = exact.expval(program, angles[i % 4], outputs=every(program), seed=0)
        return found.values

    expected = [evaluate(i) for i in range(4)]
    with ThreadPoolExecutor(8) as pool:
        for i, values in enumerate(pool.map(evaluate, range(40))):
            np.testing.assert_allclose(values, expected[i % 4], rtol=0, atol=1e-12)


# --- shots


@pytest.mark.parametrize("program", [COIN, TURN], ids=["no slot", "one slot"])
def test_rows_draw_independently_and_a_seed_repeats(sampling, program):
    angles = np.full((200, program.num_slots), np.pi / 2)
    draw = lambda seed: sampling.expval(program, angles, outputs=every(program), seed=seed)
    first = draw(1)
    assert first.shots == 200 * 200
    np.testing.assert_array_equal(first.values, draw(1).values)
    assert (first.values != draw(2).values).any()
    np.testing.assert_allclose(first.values.mean(), 0, atol=4 / np.sqrt(200 * 200))
    # Of 200 rows: the error of a standard deviation is 1/sqrt(400) of it.
    np.testing.assert_allclose(first.values.std(), 1 / np.sqrt(200), rtol=4 / np.sqrt(400))
    neighbours = np.corrcoef(first.values[:-1, 0], first.values[1:, 0])[0, 1]
    assert abs(neighbours) < 4 / np.sqrt(200)


def test_samples_have_the_mean_of_the_exact_values(sampling):
    program = random_program(5, 3)
    row = np.random.default_rng(0).normal(size=(1, program.num_slots))
    angles = np.repeat(row, 300, axis=0)
    found = sampling.expval(program, angles, outputs=every(program), seed=3)
    expected = oracle.expval(program, row)[0]
    weights = [
        sum(map(abs, o.coefficients)) if isinstance(o, Expectation) else 1 for o in program.outputs
    ]
    largest = np.repeat(weights, [output.size for output in program.outputs])
    error = np.abs(found.values.mean(axis=0) - expected)
    assert (error <= 5 * largest / np.sqrt(300 * 200) + 1e-12).all()


@pytest.mark.parametrize("table", [*SAMPLING.values(), *NOISY.values()], ids=str)
def test_sampled_outputs_that_were_not_asked_for_are_zero(table):
    program = random_program(5, 3)
    angles = np.random.default_rng(0).normal(size=(4, program.num_slots))
    mask = np.arange(program.num_outputs) % 2 == 0
    runner = engine(resolve({**table, "shots": 200}))
    found = runner.expval(program, angles, outputs=mask, seed=0)
    assert (found.values[:, ~mask] == 0).all() and (found.values[:, mask] != 0).any()
