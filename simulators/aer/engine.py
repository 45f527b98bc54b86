"""The Aer engine: one transpilation per Program, one run per request."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Final

import numpy as np
import qiskit
import qiskit_aer
from numpy.typing import NDArray
from qiskit_aer import AerSimulator

from qml.circuits.program import Program
from qml.errors import DeviceError
from qml.kinds import AerConfig
from qml.simulators.aer.assembled import Assembled, Part, Submitted, obstacle
from qml.simulators.aer.compilation import Compiled, compiled, native_passes
from qml.simulators.aer.machines import machine
from qml.simulators.aer.requests import Counts, Distributions, Expectations, Request
from qml.simulators.base import Cost, Evaluation
from qml.simulators.measurement import constants, groups, shots_of

PROGRAMS: Final = 256
"""Compiled Programs an engine keeps, the least recently used dropped first."""

REQUESTS: Final = 256
"""Choices of outputs it keeps, over all Programs; their assembled circuits may take a megabyte."""

EXPERIMENTS: Final = 2048
"""Circuits times rows in one run. Aer answers each with kilobytes of Python objects: larger runs
take more memory and, measured, some per cent more time per row."""


@dataclass(frozen=True)
class Batch:
    """Circuits that are run together.

    Attributes:
        request: the circuits, and how to read what Aer answers.
        run: runs them at rows of slot angles (R, K) with a seed, None where nothing is drawn.
        shots: of each circuit at each row; 0 means exact.
    """

    request: Request
    run: Callable[[NDArray[np.float64], int | None], list[Part]]
    shots: int


@dataclass(frozen=True)
class Task:
    """All that is known of a request before its angles and its seed.

    Attributes:
        batches: its circuits; where shots are weighted, those of equal shots together.
        constants: (M,), the part of the values that needs no circuit.
        hidden: the columns of outputs not asked for.
        varies: whether two rows may have different values.
    """

    batches: tuple[Batch, ...]
    constants: NDArray[np.float64]
    hidden: NDArray[np.intp]
    varies: bool

    def runs(self, rows: int) -> list[tuple[Batch, slice]]:
        """The rows of each run; the first row alone where all have its values."""
        stop = rows if self.varies else min(rows, 1)
        return [
            (batch, slice(start, min(start + step, stop)))
            for batch in self.batches
            if (circuits := len(batch.request.circuits))
            for step in [max(1, EXPERIMENTS // circuits)]
            for start in range(0, stop, step)
        ]

    def cost(self, rows: int) -> Cost:
        """What runs at that many rows."""
        runs = self.runs(rows)
        circuits = [len(one.request.circuits) * (part.stop - part.start) for one, part in runs]
        shots = sum(n * one.shots for n, (one, _) in zip(circuits, runs, strict=True))
        return Cost(sum(circuits), shots, len(runs))

    def values(self, angles: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
        """(R, M), zero in columns of outputs not asked for."""
        values = np.empty((len(angles), len(self.constants)))
        values[:] = self.constants
        for number, (batch, rows) in enumerate(self.runs(len(angles))):
            drawn = _seed(seed, number) if batch.request.sampled else None
            answers = batch.run(angles[rows], drawn)
            while answers:  # what was read is dropped, for the next run to use its memory
                part, data = answers.pop()
                batch.request.read(data, values[rows][part])
                del data
        if not self.varies:
            values[:] = values[:1]
        if self.hidden.size:
            values[:, self.hidden] = 0.0
        return values


class AerEngine:
    """Expectation values by Qiskit Aer; see qml.kinds.AerConfig for what can be chosen.

    Exact values come from what Aer saves: expectation values and distributions, or with noise the
    distribution of every group of qubit-wise commuting strings. With `shots` each group is measured
    that many times at every row, or with `allocation` = "weighted" as often as its coefficients
    say, in a run of its own.

    Circuits are assembled once per Program and choice of outputs (qml.simulators.aer.assembled),
    by private calls of Aer that are tried out first. Where the installed Aer has others, or gives
    other values than by its public `run`, that is said by a RuntimeWarning, and `run` is used.

    Args:
        assemble: False: by the public `run` in any case, slower and bit for bit the same.

    Attributes:
        config: what it was made from.
        device: where it runs, "CPU" or "GPU".
        assembled: whether circuits are assembled once.
        transpilations: how many Programs it has compiled.

    Raises:
        DeviceError: the device is not there and no fallback is allowed.
        UnknownNameError: `noise` names no fake device.
        MissingDependencyError: `noise` is set and qiskit-ibm-runtime is not installed.
    """

    def __init__(self, config: AerConfig, *, assemble: bool = True) -> None:
        self.config = config
        self.device = _device(config)
        self.transpilations = 0
        self._machine = machine(config.noise)
        on_gpu = self.device == "GPU"
        self._simulator = AerSimulator(
            method=config.effective_method,
            device=self.device,
            precision=config.precision,
            max_parallel_threads=config.threads or 0,
            runtime_parameter_bind_enable=True,
            cuStateVec_enable=config.custatevec and on_gpu,
            batched_shots_gpu=config.batched_shots and on_gpu,
        )
        self._passes = native_passes(self._simulator)
        # On other states to begin a lap anew costs as much as it saves.
        self._in_laps = config.effective_method == "statevector" and not on_gpu
        self.assembled = assemble and self._can_assemble()
        self._lock = Lock()
        self._compiled = lru_cache(PROGRAMS)(self._compile)
        self._task = lru_cache(REQUESTS)(self._prepare)

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
        """One run of all rows, unless they are many; see qml.simulators.base.Engine.expval.

        Raises:
            EngineError: Aer failed, or the noisy machine cannot run the circuit.
        """
        task = self._known(program, outputs)
        values, cost = task.values(angles, seed), task.cost(len(angles))
        return Evaluation(values, cost.shots, cost.jobs, self.device, self.config.precision)

    def cost(self, program: Program, rows: int, outputs: NDArray[np.bool_]) -> Cost:
        """See Engine.cost."""
        return self._known(program, outputs).cost(rows)

    def _known(self, program: Program, outputs: NDArray[np.bool_]) -> Task:
        with self._lock:
            self._compiled(program)  # as a use: both caches forget the same Programs
            return self._task(program, outputs.tobytes())

    def _compile(self, program: Program) -> Compiled:
        self.transpilations += 1
        whole = self.config.effective_method == "density_matrix"
        return compiled(program, self._passes, self._machine, whole=whole)

    def _prepare(self, program: Program, mask: bytes) -> Task:
        outputs = np.frombuffer(mask, dtype=np.bool_)
        circuit = self._compiled(program)
        if self.config.shots is not None:
            batches = self._sampled(program, outputs, circuit, self.config.shots)
        elif self._machine is not None:
            batches = [self._batch(Distributions(program, outputs, circuit), circuit, 0)]
        else:
            exact = Expectations(program, outputs, circuit, laps=self._in_laps)
            batches = [self._batch(exact, circuit, 0)]
        return Task(
            tuple(batches),
            constants(program, outputs),
            np.flatnonzero(~outputs),
            varies=bool(circuit.bindings.parameters) or self.config.shots is not None,
        )

    def _sampled(
        self, program: Program, outputs: NDArray[np.bool_], circuit: Compiled, shots: int
    ) -> list[Batch]:
        """One batch, but where shots are weighted one for each number of them."""
        found = groups(program, outputs)
        given = shots_of(found, shots, self.config.allocation)
        batches = []
        for each in sorted(set(given)):
            alike = [group for group, n in zip(found, given, strict=True) if n == each]
            batches.append(self._batch(Counts(alike, circuit), circuit, each))
        return batches

    def _batch(self, request: Request, circuit: Compiled, shots: int) -> Batch:
        run = Assembled if self.assembled else Submitted
        return Batch(request, run(self._simulator, request, circuit, shots or None), shots)

    def _can_assemble(self) -> bool:
        reason = obstacle(self._simulator, self._passes, laps=self._in_laps)
        if reason is None:
            return True
        warnings.warn(
            "circuits are assembled anew for every request, which takes a millisecond or more; "
            "values are the same. The private calls that avoid it work with qiskit-aer 0.18, and "
            f"not with qiskit-aer {qiskit_aer.__version__}, qiskit {qiskit.__version__}: {reason}.",
            RuntimeWarning,
            stacklevel=3,
        )
        return False


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
