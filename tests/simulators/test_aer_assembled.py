"""Circuits assembled once: the same bits as by Aer's public run, and that run where it must be."""

from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from programs import gate, program, ry
from qiskit.quantum_info import random_unitary
from qiskit_aer.backends import aer_compiler, aer_simulator, aerbackend
from qiskit_aer.noise import NoiseModel

from qml.circuits.paulis import Pauli, X, Y, Z
from qml.circuits.program import (
    Fixed,
    Probabilities,
    Program,
    Rotation,
)
from qml.kinds import AerConfig
from qml.simulators.aer.engine import AerEngine
from qml.simulators.aer.requests import LAPS, OPERATIONS, QUBITS

CONFIGS = (
    {},
    {"precision": "single"},
    {"method": "density_matrix"},
    {"method": "matrix_product_state"},
    {"shots": 50},
    {"shots": 50, "method": "density_matrix"},
    {"shots": 50, "method": "matrix_product_state"},
    {"noise": "FakeManilaV2"},
    {"noise": "FakeManilaV2", "shots": 50},
    pytest.param(
        {"noise": "FakeManilaV2", "shots": 50, "method": "statevector"}, marks=pytest.mark.slow
    ),
)


OUTPUTS = (
    2.0 + Z(0) - 0.3 * X(1) @ Y(2),
    Probabilities((2, 0)),
    X(0) @ X(1),
    Y(2) * 0 + 3,
    Probabilities((1,)),
)

TURNED = program(
    3,
    [
        *(ry(q, q) for q in range(3)),
        gate("cx", 0, 1),
        Rotation(Pauli(0b011, 0b110), 3),  # X on 0, Y on 1, Z on 2
        gate("h", 2),
        Fixed("unitary", (2, 0), random_unitary(4, seed=0).data),
        ry(1, 5),  # slot 4 is used by nothing
        ry(1, 0),  # slot 0 is used twice
    ],
    OUTPUTS,
)
APART = program(
    4,
    [ry(3, 0), gate("cx", 3, 2), ry(1, 1), gate("cx", 1, 0), ry(3, 2)],
    [X(3) @ X(2), Z(1), Y(0), Probabilities((3,))],
)
"""Two halves that never meet: of each measurement, Aer leaves out qubits that do not matter."""

FIXED_ALONE = program(3, [gate("h", 0), gate("cx", 0, 1), gate("s", 2), gate("h", 2)], OUTPUTS)


def values(
    engine: AerEngine, circuit: Program, rows: int, mask: Any = None, seed: int = 3
) -> np.ndarray:
    angles = np.random.default_rng(rows).normal(scale=3, size=(rows, circuit.num_slots))
    outputs = np.ones(circuit.num_outputs, np.bool_) if mask is None else np.array(mask)
    return engine.expval(circuit, angles, outputs=outputs, seed=seed).values


def experiments(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of experiments of every run of Aer by engines that are made from now on."""
    counts: list[int] = []
    controller = aer_simulator.aer_controller_execute

    class Counting:
        def __init__(self) -> None:
            self._controller = controller()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._controller, name)

        def execute(self, *arguments: Any) -> Any:
            found = self._controller.execute(*arguments)
            counts.append(len(found["results"]))
            return found

    monkeypatch.setattr(aer_simulator, "aer_controller_execute", Counting)
    return counts


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: " ".join(map(str, c.values())) or "exact")
def test_both_ways_give_the_same_bits(config: dict[str, Any]) -> None:
    ways = [AerEngine(AerConfig(**config), assemble=assemble) for assemble in (True, False)]
    assert [way.assembled for way in ways] == [True, False]
    for circuit in (TURNED, APART, FIXED_ALONE):
        for rows in (1, 2, 2 * LAPS, LAPS + 5, 0, 1):
            columns = np.arange(circuit.num_outputs)
            for mask in (columns >= 0, columns % 3 == 0, columns == columns[-1]):
                found, right = (values(way, circuit, rows, mask) for way in ways)
                np.testing.assert_array_equal(found, right)
                assert not rows or np.abs(right).max() > 0.01


def test_what_is_not_asked_for_is_zero_both_ways() -> None:
    mask = np.array([False, False, True, False, False, False, False, False, False])
    for assemble in (True, False):
        found = values(AerEngine(AerConfig(), assemble=assemble), TURNED, 3, mask)
        np.testing.assert_array_equal(found[:, ~mask], 0)
        assert np.all(found[:, mask] > 0)


# --- laps ----------------------------------------------------------------------------------------


def layers(num_qubits: int, depth: int) -> Program:
    rotations = [ry(q, d * num_qubits + q) for d in range(depth) for q in range(num_qubits)]
    return program(num_qubits, rotations, [Z(0), Probabilities((1, 0))])


def test_small_exact_circuits_take_many_rows_in_an_experiment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = experiments(monkeypatch)
    engine = AerEngine(AerConfig())
    counts.clear()
    circuit = layers(QUBITS, 1)
    for rows in (1, LAPS - 1, LAPS, 2 * LAPS + 3):
        values(engine, circuit, rows)
    assert counts == [1, LAPS - 1, 1, 2 + 3]


@pytest.mark.parametrize(
    ("config", "circuit"),
    [
        ({}, layers(QUBITS + 1, 1)),
        ({}, layers(2, OPERATIONS // 2)),
        ({"method": "density_matrix"}, layers(2, 1)),
        ({"method": "matrix_product_state"}, layers(2, 1)),
        ({"shots": 10}, layers(2, 1)),
        ({"noise": "FakeManilaV2"}, layers(2, 1)),
    ],
    ids=["wide", "deep", "density matrix", "matrix product state", "sampled", "noisy"],
)
def test_all_others_take_one(
    config: dict[str, Any], circuit: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = experiments(monkeypatch)
    engine = AerEngine(AerConfig(**config))
    counts.clear()
    values(engine, circuit, LAPS + 1)
    assert counts == [LAPS + 1]


def test_deep_circuits_take_fewer_laps(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assembled circuit stays within its number of operations, the saved values included."""
    counts = experiments(monkeypatch)
    engine = AerEngine(AerConfig())
    counts.clear()
    depth = OPERATIONS // 4 // 2 - 1  # and an operation to begin the lap, and one to save
    values(engine, layers(2, depth), 12)
    values(engine, layers(2, depth + 1), 12)
    assert counts == [3, 4]


# --- once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{}, {"shots": 10}, {"noise": "FakeManilaV2"}], ids=str)
def test_a_request_is_assembled_once(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assembled: list[int] = []
    described: list[NoiseModel] = []
    assemble, describe = aer_compiler.assemble_circuits, NoiseModel.to_dict
    monkeypatch.setattr(
        aer_compiler, "assemble_circuits", lambda c: assembled.append(len(c)) or assemble(c)
    )
    monkeypatch.setattr(
        NoiseModel, "to_dict", lambda m, **o: described.append(m) or describe(m, **o)
    )
    engine = AerEngine(AerConfig(**config))
    assembled.clear()
    for step in range(20):
        values(engine, TURNED, 1 + step, seed=step)
    assert assembled == ([3] if config else [1, 1])  # three measurements; or one circuit, and laps
    assert len(described) == ("noise" in config)


# --- other versions of Aer -----------------------------------------------------------------------


def works_by_run(reason: str) -> None:
    """An engine made now says why in one warning, and has the values of the public run."""
    both = rf"qiskit-aer {version('qiskit-aer')}, qiskit {version('qiskit')}: .*{reason}"
    with pytest.warns(RuntimeWarning, match=both) as caught:
        engine = AerEngine(AerConfig())
    assert len(caught) == 1
    assert not engine.assembled
    right = values(AerEngine(AerConfig(), assemble=False), TURNED, LAPS + 1)
    np.testing.assert_array_equal(values(engine, TURNED, LAPS + 1), right)


@pytest.mark.parametrize("name", ["assemble_circuits", "generate_aer_config"])
def test_without_a_private_function_it_runs_by_the_public_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(aer_compiler, name)
    works_by_run(f"AttributeError: .*{name}")


def test_with_other_arguments_it_runs_by_the_public_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assemble = aer_compiler.assemble_circuits
    monkeypatch.setattr(
        aer_compiler, "assemble_circuits", lambda circuits, *, target: assemble(circuits)
    )
    works_by_run("TypeError: .*target")


def test_with_other_results_it_runs_by_the_public_one(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = aer_simulator.aer_controller_execute

    class Nested:
        """Answers a private caller in another form; `run` reads a result that it knows."""

        def __getattr__(self, name: str) -> Any:
            return getattr(controller(), name)

        def execute(self, circuits: Any, noise: Any, config: Any) -> Any:
            return {"success": True, "status": "COMPLETED", "experiments": []}

    def public(self: Any, circuits: Any, noise: Any, config: Any) -> Any:
        return execute(controller(), circuits, noise, config)

    execute = aer_simulator.cpp_execute_circuits
    monkeypatch.setattr(aer_simulator, "aer_controller_execute", Nested)
    monkeypatch.setattr(aer_simulator.AerSimulator, "_execute_circuits", public)
    works_by_run("KeyError: 'results'")


def test_with_other_values_it_runs_by_the_public_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Angles that go to the wrong place are not noticed by any exception."""
    generate = aer_compiler.generate_aer_config

    def seeded(*arguments: Any, **options: Any) -> Any:
        config = generate(*arguments, **options)
        config.precision = "single"
        return config

    monkeypatch.setattr(aer_compiler, "generate_aer_config", seeded)
    assert aerbackend.generate_aer_config is generate  # the public run is as it was
    works_by_run(r"values differ by \d\.\de-0[78]")
