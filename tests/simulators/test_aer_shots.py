"""The Aer engine with shots: honest statistics, independent draws, reproducible by the seed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from programs import gate, program, rx, ry

from qml.circuits.paulis import Pauli, PauliSum, X, Y, Z
from qml.circuits.program import (
    Probabilities,
    Program,
)
from qml.kinds import AerConfig
from qml.simulators.aer import engine as engine_module
from qml.simulators.aer.engine import AerEngine
from qml.simulators.base import Evaluation

METHODS = ("statevector", "density_matrix", "matrix_product_state")


@pytest.fixture(scope="module", autouse=True, params=[True, False], ids=["assembled", "submitted"])
def assemble(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Every test runs both ways: engines are made with this as the default of `assemble`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AerEngine.__init__, "__kwdefaults__", {"assemble": request.param})
        yield request.param


def bell(*outputs: PauliSum | Probabilities) -> Program:
    return program(2, [gate("h", 0), gate("cx", 0, 1)], outputs)


def sample(shots: int, program: Program, angles: Any, seed: int = 0, **config: Any) -> Evaluation:
    engine = AerEngine(AerConfig(shots=shots, **config))
    rows = np.asarray(angles, np.float64)
    return engine.expval(program, rows, outputs=np.ones(program.num_outputs, np.bool_), seed=seed)


NO_SLOTS = np.zeros((1, 0))


@pytest.mark.parametrize("method", METHODS)
def test_a_bell_pair_has_its_non_commuting_values(method: str) -> None:
    circuit = bell(X(0) @ X(1), Y(0) @ Y(1), Z(0) @ Z(1), Z(0))
    found = sample(4096, circuit, NO_SLOTS, method=method)
    np.testing.assert_array_equal(found.values[0, :3], [1, -1, 1])
    assert 0 < abs(found.values[0, 3]) < 5 / np.sqrt(4096)  # random, and not biased
    assert found.shots == 3 * 4096


@pytest.mark.parametrize("method", METHODS)
def test_qubit_0_is_the_least_significant_bit(method: str) -> None:
    circuit = program(2, [ry(0, 0), ry(1, 1)], [Probabilities((0, 1)), Probabilities((1, 0))])
    found = sample(40000, circuit, [[0.5, 2.0]], method=method).values[0]
    right = np.array([0.274058, 0.017868, 0.664733, 0.043340])
    np.testing.assert_allclose(found[:4], right, atol=0.0125)  # 5 standard deviations
    np.testing.assert_array_equal(found[4:], found[[0, 2, 1, 3]])  # one measurement serves both


def test_labels_count_qubits_from_the_right() -> None:
    flipped = program(3, [gate("x", 0)], [Z(2), Z(0), Z(0) @ Z(2)])
    np.testing.assert_array_equal(sample(10, flipped, NO_SLOTS).values, [[1, -1, -1]])


@pytest.mark.parametrize("shots", [1, 2, 10, 63])
def test_few_shots_give_multiples_of_their_inverse(shots: int) -> None:
    circuit = program(2, [ry(0, 0), ry(1, 1)], [Probabilities((0, 1)), X(0)])
    found = sample(shots, circuit, np.full((4, 2), 1.1))
    times = found.values * shots
    np.testing.assert_allclose(times, np.rint(times), atol=1e-9)
    np.testing.assert_allclose(found.values[:, :4].sum(axis=1), 1)
    assert np.abs(found.values).max() <= 1
    assert found.shots == 2 * 4 * shots


def test_no_shots_is_exact_and_says_so() -> None:
    circuit = program(1, [ry(0, 0)], [Z(0)])
    exact = AerEngine(AerConfig()).expval(
        circuit, np.array([[0.3]]), outputs=np.array([True]), seed=0
    )
    np.testing.assert_allclose(exact.values, [[np.cos(0.3)]], atol=1e-12)
    assert exact.shots == 0


def test_a_shift_rule_gradient_has_the_right_spread() -> None:
    circuit = program(1, [rx(0, 0)], [Z(0)])
    engine = AerEngine(AerConfig(shots=1000))
    angles = np.array([[0.5 + np.pi / 2], [0.5 - np.pi / 2]])
    gradients = np.array(
        [
            np.subtract(*engine.expval(circuit, angles, outputs=np.array([True]), seed=s).values)
            / 2
            for s in range(400)
        ]
    ).ravel()
    assert abs(gradients.mean() + 0.4794) < 0.003
    # The spread of 400 draws is itself known to 1/sqrt(800); four of those.
    np.testing.assert_allclose(gradients.std(), np.cos(0.5) / np.sqrt(2000), rtol=4 / np.sqrt(800))
    assert len(np.unique(gradients)) > 40


def test_equal_seeds_agree_and_different_ones_differ() -> None:
    circuit = program(2, [ry(0, 0), ry(1, 1)], [Z(0), X(1)])
    angles = np.full((6, 2), 1.0)
    first, again, other = (sample(200, circuit, angles, seed).values for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5


def correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("slots", [0, 1])
def test_rows_of_one_request_draw_independently(slots: int) -> None:
    operations = [ry(0, 0)] if slots else [gate("h", 0)]
    angles = np.full((1000, slots), np.pi / 2)
    values = sample(100, program(1, operations, [Z(0)]), angles).values[:, 0]
    np.testing.assert_allclose(values.std(), 0.1, rtol=4 / np.sqrt(2000))
    assert abs(correlation(values[1:], values[:-1])) < 5 / np.sqrt(999)


def test_groups_of_one_request_draw_independently() -> None:
    # S H |0> lies along Y: measuring X and measuring Z are both fair coins.
    circuit = program(1, [gate("h", 0), gate("s", 0)], [X(0), Z(0)])
    values = sample(100, circuit, np.zeros((1000, 0))).values
    assert abs(correlation(*values.T)) < 5 / np.sqrt(1000)


def test_neighbouring_seeds_draw_independently() -> None:
    circuit = program(1, [ry(0, 0)], [Z(0)])
    angles = np.full((1000, 1), np.pi / 2)
    # 2113 is the step between Aer's own row seeds: as a seed it must not shift the rows by one.
    first, near, step = (sample(100, circuit, angles, s).values[:, 0] for s in (5, 6, 5 + 2113))
    assert abs(correlation(first, near)) < 5 / np.sqrt(1000)
    assert abs(correlation(first[1:], step[:-1])) < 5 / np.sqrt(999)


def test_runs_of_a_split_request_draw_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "EXPERIMENTS", 500)
    circuit = program(1, [ry(0, 0)], [Z(0)])
    found = sample(100, circuit, np.full((1000, 1), np.pi / 2))
    assert found.jobs == 2
    assert found.shots == 100 * 1000
    first, second = found.values[:, 0].reshape(2, 500)
    assert abs(correlation(first, second)) < 5 / np.sqrt(500)


def test_sums_constants_and_blocks_have_the_right_mean() -> None:
    outputs = [
        2.0 + 0.5 * Z(0) @ Z(1) - 1.5 * X(0) + 0.25 * Y(1),
        Probabilities((1,)),
        X(1) * 0 + 3,
    ]
    circuit = program(2, [ry(0, 0), rx(1, 1)], outputs)
    rows = np.tile([[0.7, 2.1]], (400, 1))
    found = sample(500, circuit, rows).values
    a, b = 0.7, 2.1
    sums = 2 + 0.5 * np.cos(a) * np.cos(b) - 1.5 * np.sin(a) - 0.25 * np.sin(b)
    right = [sums, np.cos(b / 2) ** 2, np.sin(b / 2) ** 2, 3.0]
    error = np.abs(found.mean(axis=0) - right)
    assert np.all(error <= 5 * found.std(axis=0) / np.sqrt(400))
    assert error[:3].max() > 0
    assert error[3] == 0


def test_commuting_strings_share_a_measurement() -> None:
    angles = np.ones((2, 2))
    circuit = program(2, [ry(0, 0), ry(1, 1)], [Z(0), Z(1) @ Z(0), Z(1), Probabilities((0, 1))])
    assert sample(50, circuit, angles).shots == 2 * 50
    mixed = program(2, [ry(0, 0), ry(1, 1)], [X(0), Z(1), X(0) @ Z(1), Z(0)])
    assert sample(50, mixed, angles).shots == 2 * 2 * 50
    engine = AerEngine(AerConfig(shots=50))
    only = engine.expval(mixed, angles, outputs=np.array([True, False, False, False]), seed=0)
    assert only.shots == 2 * 50
    np.testing.assert_array_equal(only.values[:, 1:], 0)


# S H |0> lies along Y: measuring X and measuring Z are both fair coins.
ALONG_Y = [gate("h", 0), gate("s", 0)]


def test_weighted_shots_are_the_same_total_and_the_cost_says_so() -> None:
    circuit = program(
        2, [*ALONG_Y, ry(1, 0)], [7 * Z(0) - X(0), Probabilities((0,)), Z(1), 4 * X(1), Z(0) + 5]
    )
    everything = np.ones(circuit.num_outputs, np.bool_)
    for allocation in ("uniform", "weighted"):
        engine = AerEngine(AerConfig(shots=100, allocation=allocation))
        found = engine.expval(circuit, np.zeros((5, 1)), outputs=everything, seed=0)
        cost = engine.cost(circuit, 5, everything)
        assert (found.shots, found.jobs) == (cost.shots, cost.jobs)
        assert cost.shots == 5 * 2 * 100 and cost.circuits == 5 * 2
        # Z(0), twice, the block and Z(1) weigh 7 + 1 + 1 + 1; X(0) and X(1) weigh 1 + 4.
        assert cost.jobs == {"uniform": 1, "weighted": 2}[allocation]
    runs = engine._known(circuit, everything).runs(5)
    assert sorted(batch.shots for batch, _ in runs) == [67, 133]


def test_groups_of_equal_weight_are_one_run_and_constants_none() -> None:
    engine = AerEngine(AerConfig(shots=100, allocation="weighted"))
    circuit = program(1, ALONG_Y, [2 * Z(0), 2 * X(0), PauliSum({Pauli(0, 0): 3.0})])
    masks = np.array([[True, True, True], [True, False, True], [False, False, True]])
    costs = [engine.cost(circuit, 5, mask) for mask in masks]
    assert [(cost.circuits, cost.shots, cost.jobs) for cost in costs] == [
        (10, 1000, 1),
        (5, 500, 1),
        (0, 0, 0),
    ]
    found = sample(100, circuit, np.zeros((5, 0)), allocation="weighted")
    np.testing.assert_array_equal(found.values[:, 2], 3)


def test_weighted_shots_have_the_variance_that_theory_says() -> None:
    """Each group g has the variance W_g^2 / N_g here, N_g being its shots."""
    circuit = program(1, ALONG_Y, [15 * Z(0) + X(0)])
    rows = np.zeros((2000, 0))
    variance = {"uniform": (15**2 + 1) / 128, "weighted": 15**2 / 240 + 1 / 16}
    for allocation, expected in variance.items():
        found = sample(128, circuit, rows, allocation=allocation)
        assert found.shots == 2000 * 2 * 128
        np.testing.assert_allclose(found.values.var(), expected, rtol=4 * np.sqrt(2 / 2000))
        assert abs(found.values.mean()) < 5 * np.sqrt(expected / 2000)


def test_groups_of_different_shots_draw_independently() -> None:
    circuit = program(1, ALONG_Y, [X(0), 3 * Z(0)])
    values = sample(100, circuit, np.zeros((1000, 0)), allocation="weighted").values
    assert abs(correlation(*values.T)) < 5 / np.sqrt(1000)


def test_more_than_64_qubits_are_sampled() -> None:
    everything = [gate("x", q) for q in range(0, 70, 2)] + [ry(1, 0)]
    parity = PauliSum({Pauli(0, (1 << 70) - 1): 1.0})
    circuit = program(70, everything, [Z(68), Z(69), parity, Probabilities((68, 69))])
    found = sample(20, circuit, [[np.pi]], method="matrix_product_state")
    np.testing.assert_allclose(found.values, [[-1, 1, 1, 0, 1, 0, 0]], atol=1e-12)
