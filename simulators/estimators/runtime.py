"""IBM's quantum computers, and their fake devices on this machine, as an engine."""

from __future__ import annotations

import importlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from qiskit.exceptions import QiskitError
from qiskit.primitives import BaseEstimatorV2

from qml.circuits.program import Program
from qml.errors import ConfigError, EngineError
from qml.kinds import RuntimeConfig
from qml.simulators.base import Evaluation, Status
from qml.simulators.estimators.compilation import Compiled
from qml.simulators.estimators.engine import Prepared, Pub, PubEngine, precision_of
from qml.simulators.estimators.jobs import Job, failures
from qml.simulators.estimators.service import Mode, opened, runtime
from qml.simulators.fake_devices import Part, fake_device
from qml.simulators.qiskit_circuit import cut_down

NEW_ESTIMATOR: Final = "qiskit_ibm_runtime.executor_estimator"

EXECUTIONS: Final = 10_000_000
"""Circuits times shots in one job, of IBM's published limits."""

PAYLOAD: Final = 64_000_000
"""Bytes of one job, of IBM's published limits."""

BYTES_PER_ANGLE: Final = 40
"""Of the payload, at most; measured 11, and 31 where circuits are folded to extrapolate."""

BYTES_PER_CIRCUIT: Final = 64
"""Of the payload, beside its angles, at most; measured 12 to 25."""

DECIMALS: Final = 12
"""To which a fake device rounds angles, in units of pi / 2; left alone it keeps 5."""


class RuntimeEngine(PubEngine):
    """Expectation values by qiskit-ibm-runtime; see qml.kinds.RuntimeConfig.

    With its new estimator, which mitigates errors here and runs circuits there; with the older
    EstimatorV2 where that one is missing. On a fake device the same code runs on this machine, with
    the noise of the real one, and each request's seed; a real machine takes no seed.

    Attributes:
        service: IBM's, or None on a fake device.

    Raises:
        MissingDependencyError: qiskit-ibm-runtime is not installed.
        UnknownNameError: there is no machine, or no fake device, of that name.
        ConfigError: there is no token or account, or the resilience level needs a newer version.
        EngineError: the service could not be reached.
    """

    config: RuntimeConfig

    def __init__(self, config: RuntimeConfig) -> None:
        self.service: Any = None
        if config.fake is not None:
            machine = fake_device(config.fake, "fake")
            self.precision = "double"
        else:
            self.service, machine, self.hide = opened(config)
            self.precision = "-"
        self.device = str(machine.name)
        with failures(f"asking for the gates of {self.device}", self.hide):
            super().__init__(config, machine)
        self._mode = Mode(config.mode, self.hide)
        self._executor = _executor()
        if self._executor is None and config.fake is not None and config.resilience_level:
            raise ConfigError(
                f"resilience_level = {config.resilience_level} has no effect on a fake device in "
                "this version of qiskit-ibm-runtime. Set it to 0, or upgrade the package."
            )
        # Runs when the engine is dropped, and when Python exits.
        self.close: Callable[[], object] = self._mode.close
        weakref.finalize(self, self._mode.close)

    def send(self, circuit: Compiled, pub: Pub, shots: int, seed: int, tag: str) -> Job:
        with self._closed_on_failure():
            mode = self._mode.on(circuit.machine)
            if self._executor is not None:
                return self._estimator(mode, shots, seed, tag).run([pub])
            with warnings.catch_warnings():  # that it is given up is no news for our user
                warnings.filterwarnings("ignore", category=DeprecationWarning)
                old: Any = runtime().EstimatorV2(mode=mode)
                if self.service is not None:
                    old.options.resilience_level = self.config.resilience_level
                self._label(old.options, seed, tag)
                return old.run([pub], precision=precision_of(shots))

    def collect(
        self,
        job: str,
        program: Program,
        rows: int,
        *,
        outputs: NDArray[np.bool_],
        report: Callable[[Status], None],
    ) -> Evaluation:
        with self._closed_on_failure():
            return super().collect(job, program, rows, outputs=outputs, report=report)

    def fetch(self, job: str) -> Job | None:
        if self.service is None:
            return None
        missing = importlib.import_module("qiskit_ibm_runtime.exceptions").RuntimeJobNotFound
        try:
            found: Job = self.service.job(job)
        except missing:
            return None
        return found

    def find(self, tag: str) -> str | None:
        if self.service is None:
            return None
        with failures("looking for a job by its tag", self.hide):
            found = self.service.jobs(limit=1, job_tags=[tag])
        return str(found[0].job_id()) if found else None

    def runs(self, circuit: Compiled, pub: Pub, shots: int, groups: int) -> tuple[int, int]:
        if self._executor is None:
            return super().runs(circuit, pub, shots, groups)
        estimator = self._estimator(circuit.machine, shots, 0, "")
        prepare = importlib.import_module(f"{NEW_ESTIMATOR}.prepare").prepare
        program, _ = prepare([pub], estimator.options, add_tags=False, backend=circuit.machine)
        return sum(item.size() for item in program.items), int(program.shots)

    def rows_allowed(self, prepared: Prepared) -> int:
        """The limits of the service; the same on a fake device, which imitates it."""
        readout = prepared.readout
        angles = len(prepared.compiled.slots) * readout.circuits
        circuits = max(readout.groups, readout.circuits)
        rows = PAYLOAD // (BYTES_PER_ANGLE * angles + BYTES_PER_CIRCUIT * circuits)
        if self._executor is not None:  # jobs of the older estimator are split over there
            most = EXECUTIONS // prepared.shots - prepared.once
            rows = min(rows, most // prepared.circuits)
        return rows

    def seconds(self, circuit: Compiled, shots: int) -> float | None:
        """Of the real machine: shots times the length of the circuit and the pause after it."""
        machine: Any = self._machine
        pause = getattr(machine, "default_rep_delay", None)
        if self.service is None or pause is None:
            return None
        measured = circuit.circuit.copy()
        measured.measure_active()
        try:
            length = measured.estimate_duration(machine.target, unit="s")
        except QiskitError:  # a gate whose length the machine does not state
            return None
        return float(shots * (length + pause))

    def _compile(self, program: Program) -> Compiled:
        """On a fake device, cut down to the qubits in use: it would simulate all of them."""
        whole = super()._compile(program)
        if self.service is not None or self._machine is None:
            return whole
        circuit, layout, qubits = cut_down(whole.circuit)
        return Compiled(circuit, whole.slots, layout, Part(self._machine, qubits))

    def _estimator(self, mode: Any, shots: int, seed: int, tag: str) -> BaseEstimatorV2:
        estimator = self._executor(mode=mode)
        estimator.options.default_shots = shots
        estimator.options.resilience_level = self.config.resilience_level
        self._label(estimator.options, seed, tag)
        if self.service is None:
            estimator.options.simulator.angle_decimals = DECIMALS
        return estimator

    def _label(self, options: Any, seed: int, tag: str) -> None:
        if self.service is None:
            options.simulator.seed_simulator = seed
        elif tag:
            options.environment.job_tags = [tag]

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """A session costs by the minute: nothing may leave one open, Ctrl-C included."""
        try:
            yield
        except BaseException as error:
            try:
                self._mode.close()
            except EngineError as another:
                error.add_note(str(another))
            raise


def _executor() -> Any:
    """The class of the new estimator; None where the package is too old to have it."""
    runtime()
    try:
        importlib.import_module(f"{NEW_ESTIMATOR}.prepare")
    except ModuleNotFoundError:
        return None
    return importlib.import_module(NEW_ESTIMATOR).Estimator
