"""Microseconds per row of angles on Aer, ours and the peers', values compared.

    python benchmarks/aer_rows.py                  all, some minutes
    python benchmarks/aer_rows.py --peers          ours alone, some seconds

The workload: 4 qubits, 4 layers of RY, RY RZ and a CX ring (48 slots), <Z> on every qubit, exact;
forward, and the value with all 4 x 48 derivatives by parameter-shift. Each peer runs in a virtual
environment of its own, made on first use under .venv-peers/. Every library runs with one OpenMP
thread. What would take a peer more than a minute is left out. Values that differ are an error.

Of ours alone: the same by the public AerSimulator.run; our time against the time that Aer says
its C++ took; from 1,024 rows to 8,192; and exact noisy values against trajectories.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from environments import environment

HERE = Path(__file__).resolve()
NUM_QUBITS, LAYERS = 4, 4
NUM_SLOTS = 3 * NUM_QUBITS * LAYERS
ROWS = (1, 64, 2048)
SAMPLES = (1, 21)
"""Of value and parameter-shift gradient: 1 + 2 * 48 rows each, so that 21 samples are 2037 rows."""

ROWS_PER_SAMPLE = 1 + 2 * NUM_SLOTS

PATIENCE = 40.0
"""Seconds a measurement may take at the cost of the one before; longer ones are left out."""

TOLERANCE = 1e-10
"""Largest difference between values of two libraries."""

Angles = Any
Forward = Callable[[Angles], Any]
Gradient = Callable[[Angles], tuple[Any, Any]]


def gates(num_qubits: int = NUM_QUBITS) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """(name, qubits, slot) in order; a CX has slot -1."""
    slot = itertools.count()
    for _ in range(LAYERS):
        yield from (("ry", (q,), next(slot)) for q in range(num_qubits))
        for q in range(num_qubits):
            yield "ry", (q,), next(slot)
            yield "rz", (q,), next(slot)
        yield from (("cx", (q, (q + 1) % num_qubits), -1) for q in range(num_qubits))


def qiskit_circuit() -> tuple[Any, list[Any]]:
    from qiskit import QuantumCircuit
    from qiskit.circuit import Parameter

    parameters = [Parameter(f"a{k}") for k in range(NUM_SLOTS)]
    circuit = QuantumCircuit(NUM_QUBITS)
    for name, qubits, slot in gates():
        getattr(circuit, name)(*([parameters[slot]] if slot >= 0 else []), *qubits)
    return circuit, parameters


def engine(num_qubits: int = NUM_QUBITS, *, assemble: bool = True, **keys: Any) -> tuple[Any, Any]:
    """(our Aer engine, the workload as a Program)."""
    sys.path.insert(0, str(HERE.parents[1]))
    from qml.circuits.gates import FIXED
    from qml.circuits.paulis import Pauli, Z
    from qml.circuits.program import AngleMap, Fixed, Program, Rotation, expectation
    from qml.kinds import AerConfig
    from qml.simulators.aer.engine import AerEngine

    letters = {"ry": "Y", "rz": "Z"}
    operations = tuple(
        Fixed(name, qubits, FIXED[name])
        if slot < 0
        else Rotation(Pauli.from_letters(letters[name], qubits), slot)
        for name, qubits, slot in gates(num_qubits)
    )
    outputs = tuple(expectation(Z(q)) for q in range(num_qubits))
    none = np.zeros(0, np.int32)
    slots = AngleMap(0, none, none, np.zeros(0), np.zeros(3 * num_qubits * LAYERS))
    program = Program(num_qubits, operations, outputs, slots)
    return AerEngine(AerConfig(**keys), assemble=assemble), program


def ours(*, assemble: bool = True) -> tuple[Forward, Gradient]:
    aer, program = engine(assemble=assemble)
    from qml.gradients import expval_vjp

    def evaluate(rows: Angles, wanted: Any) -> Any:
        return aer.expval(program, rows, outputs=wanted, seed=0).values

    def forward(rows: Angles) -> Any:
        return evaluate(rows, np.ones(NUM_QUBITS, np.bool_))

    def gradient(rows: Angles) -> tuple[Any, Any]:
        each = np.broadcast_to(np.eye(NUM_QUBITS), (len(rows), NUM_QUBITS, NUM_QUBITS))
        return forward(rows), expval_vjp(evaluate, NUM_QUBITS, rows, each)

    return forward, gradient


def submitted() -> tuple[Forward, Gradient]:
    return ours(assemble=False)


def qiskit_machine_learning(estimator: Any) -> tuple[Forward, Gradient]:
    from qiskit.quantum_info import SparsePauliOp
    from qiskit_machine_learning.gradients import ParamShiftEstimatorGradient
    from qiskit_machine_learning.neural_networks import EstimatorQNN

    circuit, parameters = qiskit_circuit()
    network = EstimatorQNN(
        circuit=circuit,
        observables=[
            SparsePauliOp.from_sparse_list([("Z", [q], 1.0)], NUM_QUBITS) for q in range(NUM_QUBITS)
        ],
        input_params=parameters,
        estimator=estimator,
        gradient=ParamShiftEstimatorGradient(estimator),
        input_gradients=True,
        default_precision=0.0,
    )

    def gradient(rows: Angles) -> tuple[Any, Any]:
        return network.forward(rows, []), network.backward(rows, [])[0]

    return lambda rows: network.forward(rows, []), gradient


def on_statevector() -> tuple[Forward, Gradient]:
    from qiskit.primitives import StatevectorEstimator

    return qiskit_machine_learning(StatevectorEstimator(default_precision=0.0))


def on_aer() -> tuple[Forward, Gradient]:
    from qiskit_aer.primitives import EstimatorV2

    options = {"default_precision": 0.0, "backend_options": {"method": "statevector"}}
    return qiskit_machine_learning(EstimatorV2(options=options))


def pennylane_qiskit() -> tuple[Forward, Gradient]:
    import pennylane as qp

    # The default backend samples even without shots; this one computes expectation values.
    device = qp.device(
        "qiskit.aer", wires=NUM_QUBITS, backend="aer_simulator_statevector", shots=None
    )
    operations = {"ry": qp.RY, "rz": qp.RZ, "cx": qp.CNOT}

    @qp.qnode(device, diff_method="parameter-shift")
    def node(angles: Angles) -> Any:
        for name, qubits, slot in gates():
            operations[name](*([angles[..., slot]] if slot >= 0 else []), wires=qubits)
        return [qp.expval(qp.PauliZ(q)) for q in range(NUM_QUBITS)]

    stacked = lambda angles: qp.numpy.stack(node(angles))
    jacobian = qp.jacobian(stacked)

    def gradient(rows: Angles) -> tuple[Any, Any]:
        each = [jacobian(qp.numpy.array(row, requires_grad=True)) for row in rows]
        return forward(rows), np.stack(each)

    def forward(rows: Angles) -> Any:
        return np.stack(node(rows), axis=-1).reshape(len(rows), NUM_QUBITS)

    return forward, gradient


QML = ("qiskit-machine-learning==0.9.1", "qiskit==2.6.2", "qiskit-aer==0.18.2")
PENNYLANE = ("pennylane-qiskit==0.45.0", "pennylane==0.45.1", "qiskit==2.3.0", "qiskit-aer==0.17.2")

LIBRARIES: dict[str, tuple[Callable[[], tuple[Forward, Gradient]], tuple[str, ...]]] = {
    "ours": (ours, ()),
    "ours, by the public run": (submitted, ()),
    "QML, StatevectorEstimator": (on_statevector, QML),
    "QML, Aer EstimatorV2": (on_aer, QML),
    "PennyLane-Qiskit, Aer": (pennylane_qiskit, PENNYLANE),
}
"""name -> (what makes its two functions, the pins of its environment; none for this one)."""


class Clocked:
    """Aer's controller, and how long it says its C++ took."""

    def __init__(self, controller: Any) -> None:
        self._controller = controller
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._controller, name)

    def execute(self, *arguments: Any) -> Any:
        found = self._controller.execute(*arguments)
        self.seconds += found["metadata"]["time_taken_execute"]
        return found


def evaluation(aer: Any, program: Any, rows: int) -> Callable[[int], Any]:
    """A function of the seed: the values at random angles, the same at every call."""
    angles = np.random.default_rng(0).normal(size=(rows, program.num_slots))
    everything = np.ones(program.num_outputs, np.bool_)
    return lambda seed: aer.expval(program, angles, outputs=everything, seed=seed).values


def fastest(call: Callable[[int], Any]) -> float:
    """Seconds of the fastest of the calls that fit into two seconds, at least one; one before."""
    call(0)
    times: list[float] = []
    while not times or sum(times) < 2.0:
        start = time.perf_counter()
        call(0)
        times.append(time.perf_counter() - start)
    return min(times)


def overhead() -> str:
    """What is not Aer's C++, at the smallest and at the largest request."""
    lines = ["| qubits, rows | us per row | C++ of Aer | ratio |", "|---|---|---|---|"]
    for num_qubits, rows in ((4, 1), (4, 2048), (10, 1), (10, 2048)):
        aer, program = engine(num_qubits)
        clock = aer._simulator._controller = Clocked(aer._simulator._controller)
        call = evaluation(aer, program, rows)
        call(0)
        pairs: list[tuple[float, float]] = []
        while len(pairs) < 5 or sum(total for total, _ in pairs) < 2.0:
            clock.seconds = 0.0
            start = time.perf_counter()
            call(0)
            pairs.append((time.perf_counter() - start, clock.seconds))
        total, inside = min(pairs)
        lines.append(
            f"| {num_qubits}, {rows} | {1e6 * total / rows:,.1f} | {1e6 * inside / rows:,.1f} "
            f"| {total / inside:.2f} |"
        )
    return "\n".join(lines)


ROUNDS = 20


def scaling() -> str:
    """From 1,024 to 8,192 rows, in turns: so that a drift of the machine is in all of them."""
    lines = ["| rows | ms | factor to half of them |", "|---|---|---|"]
    aer, program = engine()
    calls = {rows: evaluation(aer, program, rows) for rows in (1024, 2048, 4096, 8192)}
    times: dict[int, list[float]] = {rows: [] for rows in calls}
    for seed in range(ROUNDS):
        for rows, call in calls.items():
            start = time.perf_counter()
            call(seed)
            times[rows].append(time.perf_counter() - start)
    for rows, some in times.items():
        factor = f"{min(some) / min(times[rows // 2]):.2f}" if rows // 2 in times else ""
        lines.append(f"| {rows:,} | {1e3 * min(some):,.1f} | {factor} |")
    return "\n".join(lines)


NOISE = "FakeManilaV2"
SHOTS = 1000
ERROR = 0.01


def noise() -> str:
    """Exact noisy values by density matrices, and the same by trajectories of 1000 shots.

    The error of a trajectory estimate is the root mean square of its differences from the exact
    values; it falls with the square root of the shots, by which times for another are scaled.
    """
    rows, repeats = 16, 3
    exact = evaluation(*engine(noise=NOISE), rows)
    per_row = fastest(exact) / rows
    right = exact(0)
    sampled = evaluation(*engine(noise=NOISE, shots=SHOTS, method="statevector"), rows)
    sampled(0)
    start = time.perf_counter()
    found = np.array([sampled(seed) for seed in range(repeats)])
    trajectories = (time.perf_counter() - start) / repeats / rows
    error = float(np.sqrt(np.mean((found - right) ** 2)))
    equal = trajectories * (error / ERROR) ** 2
    return "\n".join(
        [
            "| way | us per row | error | factor |",
            "|---|---|---|---|",
            f"| density matrix | {1e6 * per_row:,.0f} | 0 | |",
            f"| trajectories, {SHOTS} shots | {1e6 * trajectories:,.0f} | {error:.4f} "
            f"| {trajectories / per_row:,.0f}x |",
            f"| trajectories, {SHOTS * (error / ERROR) ** 2:,.0f} shots (computed) "
            f"| {1e6 * equal:,.0f} | {ERROR} | {equal / per_row:,.0f}x |",
        ]
    )


FIGURES: dict[str, Callable[[], str]] = {"overhead": overhead, "scaling": scaling, "noise": noise}


OURS, PEERS = list(LIBRARIES)[:2], list(LIBRARIES)[2:]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def measure(library: str, angles: Angles) -> dict[str, Any]:
    """The best seconds per row for every size that patience allows, and the values."""
    found: dict[str, Any] = {}
    forward, gradient = LIBRARIES[library][0]()
    for kind, function, sizes in (("forward", forward, ROWS), ("gradient", gradient, SAMPLES)):
        function(angles[:1])  # first calls compile
        expected = 0.0
        for size in sizes:
            if expected * size > PATIENCE:
                break
            times: list[float] = []
            while not times or (sum(times) < 2.0 and len(times) < 50):
                start = time.perf_counter()
                values = function(angles[:size])
                times.append(time.perf_counter() - start)
            expected = min(times) / size
            found[f"{kind} {size}"] = expected / (1 if kind == "forward" else ROWS_PER_SAMPLE)
            found[f"{kind} values"] = values if kind == "forward" else values[1]
    return found


def run(library: str, angles: Angles) -> dict[str, Any]:
    """Measures a library in its own process and environment."""
    python = environment(LIBRARIES[library][1])
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder, "angles.npy"), Path(folder, "found.npz")
        np.save(given, angles)
        command = [python, str(HERE), "--measure", library, str(given), str(answer)]
        subprocess.run(command, check=True, env=ONE_THREAD)
        with np.load(answer) as stored:
            return dict(stored)


def agree(found: dict[str, Any], right: dict[str, Any]) -> float:
    """The largest difference of the values two libraries both computed."""
    worst = 0.0
    for kind in ("forward values", "gradient values"):
        rows = min(len(found[kind]), len(right[kind]))
        worst = max(worst, float(np.abs(found[kind][:rows] - right[kind][:rows]).max()))
    return worst


def table(results: dict[str, dict[str, Any]]) -> str:
    columns = [f"forward {n}" for n in ROWS] + [f"gradient {n}" for n in SAMPLES]
    head = ["1 row", *(f"{n} rows" for n in ROWS[1:])]
    head += [f"gradient, {n * ROWS_PER_SAMPLE} rows" for n in SAMPLES]
    lines = ["| | " + " | ".join(head) + " | largest difference |", "|---" * (len(head) + 2) + "|"]
    for library, found in results.items():
        cells = []
        for column in columns:
            if column not in found:
                cells.append("-")
                continue
            ratio = float(found[column]) / float(results["ours"][column])
            cells.append(
                f"{float(found[column]) * 1e6:,.0f}"
                + (f" ({ratio:.0f}x)" if library != "ours" else "")
            )
        difference = f"{agree(found, results['ours']):.0e}" if library != "ours" else ""
        lines.append(f"| {library} | " + " | ".join([*cells, difference]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=None)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--figure", choices=list(FIGURES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.figure:
        print(FIGURES[arguments.figure]())
        return
    if arguments.measure:
        library, given, answer = arguments.measure
        np.savez(answer, **measure(library, np.load(given)))
        return
    peers = PEERS if arguments.peers is None else arguments.peers
    others = [*OURS[1:], *peers]
    angles = np.random.default_rng(0).normal(size=(max(ROWS), NUM_SLOTS))
    results = {}
    for library in [OURS[0], *others]:
        results[library] = run(library, angles)
        print(f"{library}: done", flush=True)
    print(table(results))
    for peer in others:
        if (difference := agree(results[peer], results["ours"])) > TOLERANCE:
            sys.exit(f"{peer} and ours differ by {difference:.1e}: the times compare nothing.")
    for figure, function in FIGURES.items():
        print(f"\n{inspect.getdoc(function)}\n", flush=True)
        subprocess.run([sys.executable, str(HERE), "--figure", figure], check=True, env=ONE_THREAD)


if __name__ == "__main__":
    main()
