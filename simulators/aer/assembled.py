"""How circuits get to Aer: assembled once, or by the public AerSimulator.run.

AerSimulator.run assembles its circuits, in Python, whenever it is called, which takes longer than
to simulate a few rows of a small circuit, and wraps what Aer found in objects of every kind. The
calls it makes are not public; Assembled makes them one by one, and the most of them only once.
Versions of Aer may change them: `obstacle` tries them out.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.transpiler import PassManager
from qiskit_aer import AerError, AerSimulator

from qml.circuits.paulis import Pauli
from qml.circuits.program import AngleMap, Expectation, Program, Rotation
from qml.errors import EngineError
from qml.simulators.aer.compilation import Compiled, compiled
from qml.simulators.aer.requests import LAPS, Answer, Counts, Expectations, Request
from qml.simulators.measurement import groups
from qml.simulators.shortage import shortage

NOT_AS_KNOWN = (
    ImportError,
    AttributeError,
    TypeError,
    ValueError,
    LookupError,
    RuntimeError,
    AerError,
)
"""What calls raise that do not exist, or want or give something else. EngineError is one."""

FEWER: Final = "Use fewer qubits, or another 'method'."

INSTEAD: Final = {
    "statevector": "Use fewer qubits, precision = 'single', which needs half, or method = "
    "'matrix_product_state', which needs little where there is little entanglement.",
    "density_matrix": "Use fewer qubits, or method = 'statevector', which needs the square root of "
    "it; with noise it samples, so set 'shots' too.",
}
"""What to do where the memory is too small for a method."""

Part = tuple[slice, list[Answer]]
"""Some rows of a request, and what was found at them: an Answer for every circuit."""


@dataclass(frozen=True)
class Assembly:
    """Circuits as Aer wants them, to be run together.

    Attributes:
        circuits: Aer's own objects.
        holes: for every circuit, where values of parameters go, as Aer counts operations and their
            parameters, and which row of the table of values goes there.
    """

    circuits: list[Any]
    holes: list[list[tuple[tuple[int, int], int]]]

    def filled(self, table: list[list[float]]) -> list[list[tuple[tuple[int, int], list[float]]]]:
        """Aer's parameterizations."""
        return [[(place, table[row]) for place, row in holes] for holes in self.holes]


class Assembled:
    """A request whose circuits are assembled once, at its first run, if they have parameters.

    A request runs once at a time; Aer holds Python's global lock meanwhile anyway.
    """

    def __init__(
        self, simulator: AerSimulator, request: Request, compiled: Compiled, shots: int | None
    ) -> None:
        self._simulator = simulator
        self._request = request
        self._bindings = compiled.bindings
        self._shots = shots or 1
        noise = compiled.noise_model
        self._noise_option = {} if noise is None else {"noise_model": noise}
        self._noise = {} if noise is None else noise.to_dict(serializable=True)
        self._lock = Lock()

    def __call__(self, angles: NDArray[np.float64], seed: int | None) -> list[Part]:
        """One run at all rows of slot angles (R, K); where nothing is varied or drawn, R is 1.

        Raises:
            EngineError: Aer failed.
            NOT_AS_KNOWN: this version of Aer has other private calls.
        """
        rows, laps = len(angles), self._request.laps
        table = self._bindings.values(angles)
        in_laps = rows - rows % laps if laps > 1 else 0
        circuits: list[Any] = []
        parameters: list[Any] = []
        parts: list[tuple[slice, int]] = []
        if in_laps:
            turns = table[:, :in_laps].reshape(len(table), -1, laps).transpose(2, 0, 1)
            lists = turns.reshape(len(table) * laps, -1).tolist()
            circuits += self._lapped.circuits
            parameters += self._lapped.filled(lists)
            parts.append((slice(0, in_laps), in_laps // laps))
        if in_laps < rows:
            single = self._single if self._bindings.parameters else self._fresh(rows)
            circuits += single.circuits
            parameters += single.filled(table[:, in_laps:].tolist())
            parts.append((slice(in_laps, rows), rows - in_laps))
        data = self._run(circuits, parameters, seed)
        answers: list[Part] = []
        begin = 0
        for part, experiments in parts:
            ends = [begin + experiments * (c + 1) for c in range(len(self._request.circuits))]
            answers.append((part, [data[end - experiments : end] for end in ends]))
            begin = ends[-1]
        return answers

    @cached_property
    def _config(self) -> Any:
        compiler = importlib.import_module("qiskit_aer.backends.aer_compiler")
        utilities = importlib.import_module("qiskit_aer.backends.backend_utils")
        circuits = list(self._request.circuits)
        config = compiler.generate_aer_config(circuits, self._simulator.options, shots=self._shots)
        config.library_dir = utilities.LIBRARY_DIR
        return config

    @cached_property
    def _single(self) -> Assembly:
        return self._assembly(self._request.circuits, 1)

    def _fresh(self, rows: int) -> Assembly:
        """For circuits without parameters: each row has its own, and its own seed.

        Aer renumbers the qubits of circuits it runs, leaving out those that do not matter, and
        would look up their noise by the new numbers. Circuits with parameters it copies first.
        """
        return self._assembly([one for one in self._request.circuits for _ in range(rows)], 1)

    @cached_property
    def _lapped(self) -> Assembly:
        return self._assembly(self._request.lapped(), self._request.laps)

    def _assembly(self, circuits: Sequence[QuantumCircuit], laps: int) -> Assembly:
        """Row `lap * P + p` of the table goes where lap `lap` has parameter p."""
        compiler = importlib.import_module("qiskit_aer.backends.aer_compiler")
        ready, _ = self._simulator._compile(list(circuits), **self._noise_option)
        assembled, places = compiler.assemble_circuits(ready)
        number = {parameter: p for p, parameter in enumerate(self._bindings.parameters)}
        holes: list[list[tuple[tuple[int, int], int]]] = []
        for circuit, place in zip(ready, places, strict=True):
            length = len(circuit.data) // laps
            holes.append(
                [
                    ((place[i], j), i // length * len(number) + number[parameter])
                    for i, one in enumerate(circuit.data)
                    if one.operation.is_parameterized()
                    for j, parameter in enumerate(one.operation.params)
                    if parameter in number
                ]
            )
        return Assembly(assembled, holes)

    def _run(self, circuits: list[Any], parameters: list[Any], seed: int | None) -> Answer:
        with self._lock:
            self._config.parameterizations = parameters if any(parameters) else []
            if seed is not None:
                self._config.seed_simulator = seed
            found = self._simulator._controller.execute(circuits, self._noise, self._config)
        if not found["success"]:
            raise failure([found["status"], *(one["status"] for one in found["results"])])
        return [one["data"] for one in found["results"]]


class Submitted:
    """A request by the public AerSimulator.run, which assembles its circuits at every call."""

    def __init__(
        self, simulator: AerSimulator, request: Request, compiled: Compiled, shots: int | None
    ) -> None:
        self._simulator = simulator
        self._circuits = request.circuits
        self._bindings = compiled.bindings
        self._options: dict[str, Any] = {"shots": shots or 1}
        if compiled.noise_model is not None:
            self._options["noise_model"] = compiled.noise_model

    def __call__(self, angles: NDArray[np.float64], seed: int | None) -> list[Part]:
        """See Assembled.__call__."""
        rows = len(angles)
        options = {**self._options, "seed_simulator": seed}
        circuits = list(self._circuits)
        parameters = self._bindings.parameters
        if parameters:
            columns = self._bindings.values(angles).tolist()
            table = dict(zip(parameters, columns, strict=True))
            options["parameter_binds"] = [table] * len(circuits)
        else:
            circuits = [one for one in circuits for _ in range(rows)]
        result = self._simulator.run(circuits, **options).result()
        if not result.success:
            raise failure([result.status, *(one.status for one in result.results)])
        data = [experiment.data.to_dict() for experiment in result.results]
        return [(slice(rows), [data[i : i + rows] for i in range(0, len(data), rows)])]


def failure(statuses: Sequence[str]) -> EngineError:
    """What is raised where Aer ends with these statuses, of the run and of each experiment."""
    if short := shortage(" ".join(statuses)):
        method, figures = short
        return EngineError(f"Aer has too little memory: {figures}. {INSTEAD.get(method, FEWER)}")
    # The status of a run repeats those of its experiments, with a number before each.
    plain = (re.sub(r"^ERROR:\s*(\[Experiment \d+\]\s*)?", "", status) for status in statuses)
    reasons = "; ".join(reason for reason in dict.fromkeys(plain) if reason not in ("", "DONE"))
    return EngineError(
        f"Aer could not run the request: {reasons or 'it does not say why'}. Choose another "
        "'method', or another kind of backend."
    )


def obstacle(simulator: AerSimulator, passes: PassManager, *, laps: bool) -> str | None:
    """Why Assembled cannot be used with this simulator; None where it can.

    A qubit is rotated at more rows than two laps take; its exact and its sampled <X> and <Z> are
    compared bit for bit with those of Submitted.
    """
    none = np.zeros(0, np.int32)
    slot = AngleMap(0, none, none, np.zeros(0), np.zeros(1))
    outputs = tuple(Expectation((letter,), (1.0,)) for letter in (Pauli(1, 0), Pauli(0, 1)))
    program = Program(1, (Rotation(Pauli(1, 1), 0),), outputs, slot)
    asked = np.ones(2, np.bool_)
    circuit = compiled(program, passes, None)
    angles = np.linspace(-3, 3, 2 * LAPS + 3).reshape(-1, 1)
    exact = Expectations(program, asked, circuit, laps=laps)
    for request, shots, seed in (
        (exact, None, None),
        (Counts(groups(program, asked), circuit), 100, 7),
    ):
        right, found = np.zeros((2, len(angles), 2))
        for part, data in Submitted(simulator, request, circuit, shots)(angles, seed):
            request.read(data, right[part])
        try:
            for part, data in Assembled(simulator, request, circuit, shots)(angles, seed):
                request.read(data, found[part])
        except NOT_AS_KNOWN as error:
            return f"{type(error).__name__}: {error}"
        if not np.array_equal(found, right):
            return f"values differ by {np.abs(found - right).max():.1e}"
    return None
