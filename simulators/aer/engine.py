"""The Aer engine: one transpilation per Program, one run per request."""

from __future__ import annotations

import math
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from qiskit_aer import AerSimulator

from qml.circuits.program import Program
from qml.errors import DeviceError, EngineError
from qml.kinds import AerConfig
from qml.simulators.aer.compilation import Compiled, compiled, native_passes
from qml.simulators.aer.measurement import constants
from qml.simulators.aer.noise import Machine
from qml.simulators.aer.requests import Counts, Distributions, Expectations, Request
from qml.simulators.base import Cost, Evaluation

PROGRAMS: Final = 256
"""Compiled Programs an engine keeps, the least recently used dropped first."""

REQUESTS: Final = 1024
"""Choices of outputs it keeps, over all Programs."""

EXPERIMENTS: Final = 4096
"""Circuits times rows in one run. Aer answers each with kilobytes of Python objects: larger runs
take more memory and, measured, more time per row."""


class AerEngine:
    """Expectation values by Qiskit Aer; see qml.kinds.AerConfig for what can be chosen.

    Exact values come from Aer's saved expectation values, or with noise from the saved
    distribution of every group of qubit-wise commuting strings; with `shots` each group is
    measured that many times at every row.

    Attributes:
        config: what it was made from.
        device: where it runs, "CPU" or "GPU".
        transpilations: how many Programs it has compiled.

    Raises:
        DeviceError: the device is not there and no fallback is allowed.
        UnknownNameError: `noise` names no fake device.
        MissingDependencyError: `noise` is set and qiskit-ibm-runtime is not installed.
    """

    def __init__(self, config: AerConfig) -> None:
        self.config = config
        self.device = _device(config)
        self.transpilations = 0
        self._machine = Machine(config.noise) if config.noise is not None else None
        self._simulator = AerSimulator(
            method=config.effective_method,
            device=self.device,
            precision=config.precision,
            max_parallel_threads=config.threads or 0,
            runtime_parameter_bind_enable=True,
        )
        self._passes = native_passes(self._simulator)
        self._lock = Lock()
        self._compiled = lru_cache(PROGRAMS)(self._compile)
        self._request = lru_cache(REQUESTS)(self._prepare)

    def check(self, program: Program) -> None:
        """See Engine.check: a noisy machine must have enough qubits."""
        if self._machine is not None:
            self._machine.check(program.num_qubits)

    def expval(
        self,
        program: Program,
        angles: NDArray[np.float64],
        *,
        outputs: NDArray[np.bool_],
        seed: int,
    ) -> Evaluation:
        """One run of all rows; see qml.simulators.base.Engine.expval.

        Raises:
            EngineError: Aer failed, or the noisy machine cannot run the circuit.
        """
        with self._lock:
            circuit = self._compiled(program)
            request = self._request(program, outputs.tobytes())
        rows = len(angles)
        values = np.tile(constants(program, outputs), (rows, 1))
        jobs = 0
        if request.circuits:
            step = max(1, EXPERIMENTS // len(request.circuits))
            for start in range(0, rows, step):
                part = slice(start, start + step)
                data = self._run(circuit, request, angles[part], seed, jobs)
                request.read(data, values[part])
                jobs += 1
        values[:, ~outputs] = 0.0
        shots = (self.config.shots or 0) * len(request.circuits) * rows
        return Evaluation(values, shots=shots, jobs=jobs, device=self.device)

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """See Engine.cost."""
        with self._lock:
            circuits = len(self._request(program, outputs.tobytes()).circuits)
        runs = math.ceil(rows / max(1, EXPERIMENTS // circuits)) if circuits else 0
        return Cost(circuits * rows, (self.config.shots or 0) * circuits * rows, runs)

    def _compile(self, program: Program) -> Compiled:
        self.transpilations += 1
        return compiled(program, self._passes, self._machine)

    def _prepare(self, program: Program, mask: bytes) -> Request:
        outputs = np.frombuffer(mask, dtype=np.bool_)
        circuit = self._compiled(program)
        if self.config.shots is not None:
            return Counts(program, outputs, circuit)
        if self._machine is not None:
            return Distributions(program, outputs, circuit)
        return Expectations(program, outputs, circuit)

    def _run(
        self,
        circuit: Compiled,
        request: Request,
        angles: NDArray[np.float64],
        seed: int,
        part: int,
    ) -> list[list[Any]]:
        """What Aer saved: [circuit][row]."""
        rows = len(angles)
        options: dict[str, Any] = {"shots": self.config.shots or 1}
        if request.sampled:
            options["seed_simulator"] = _seed(seed, part)
        if circuit.noise_model is not None:
            options["noise_model"] = circuit.noise_model
        circuits = list(request.circuits)
        if circuit.bindings:
            options["parameter_binds"] = [circuit.bind(angles)] * len(circuits)
        elif request.sampled:
            circuits = [one for one in circuits for _ in range(rows)]
        result = self._simulator.run(circuits, **options).result()
        if not result.success:
            raise EngineError(f"Aer could not run the request: {_failure(result)}")
        data = [experiment.data for experiment in result.results]
        each = len(data) // len(request.circuits)
        answers = [data[c * each : (c + 1) * each] for c in range(len(request.circuits))]
        # Without parameters and chance all rows are one.
        return answers if each == rows else [one * rows for one in answers]


def _device(config: AerConfig) -> str:
    available = AerSimulator().available_devices()
    if config.device in available:
        return config.device
    if config.fallback is not None:
        return config.fallback
    raise DeviceError(
        f"device = {config.device!r} was asked for; the installed Aer finds "
        f"{', '.join(available)} here. Install qiskit-aer-gpu on a machine with a GPU, use "
        "device = 'CPU', or allow it by fallback = 'CPU'."
    )


def _seed(seed: int, part: int) -> int:
    """Aer's 63-bit seed. Aer gives experiment i of a run the seed plus a multiple of i.

    So that no row of one request meets a row of another, requests spread over all 63 bits.
    """
    return int(np.random.SeedSequence([seed, part]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _failure(result: Any) -> str:
    reasons = dict.fromkeys([result.status, *(one.status for one in result.results)])
    return "; ".join(reason for reason in reasons if reason != "DONE")
