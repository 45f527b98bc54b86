"""The checks of qml.testing.check_engine: each asks an engine for one thing that it promises."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import qml.oracle as oracle
from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Fixed, Probabilities, Program, Rotation
from qml.errors import EngineError
from qml.oracle import program_of
from qml.simulators.base import (
    Cost,
    Evaluation,
    JobEngine,
    NativeEngine,
    Status,
    TraceableEngine,
)
from qml.subjects import (
    COIN,
    SIGMAS,
    TOLERANCE,
    TURN,
    Z0,
    Array,
    Mask,
    Subject,
    angles_for,
    every,
    expect,
)

COINS: Final = 200
"""Rows of single coins: their standard deviation is known to 5 %."""

ROWS: Final = 100
THREADS: Final = 4
WIDE: Final = 100
"""Qubits that no vector of amplitudes holds."""


def values(subject: Subject) -> None:
    """Random circuits of every kind of operation, at one row and at several."""
    rng = subject.rng()
    for width in range(1, subject.qubits + 1):
        program = oracle.random_program(rng, width)
        subject.agrees("values", program, angles_for(rng, program, 3))
    program = oracle.every_gate(rng, subject.qubits)
    subject.agrees("values", program, angles_for(rng, program, 1))


def batches(subject: Subject) -> None:
    """Rows do not depend on their neighbours, nor on how many there are."""
    rows = ROWS
    angles = np.linspace(0, np.pi, rows)[:, None]
    found = subject.ask(TURN, angles)
    expected = np.cos(angles)
    allowed = subject.tolerance or TOLERANCE[found.precision]
    if subject.samples:
        allowed += SIGMAS * np.sqrt(rows / found.shots)
    error = np.abs(found.values - expected).max()
    if subject.ideal:
        expect(error <= allowed, f"batches: {rows} rows of RX differ by {error} from cosines.")
    sign = np.sign(found.values) == np.sign(expected)
    clear = np.abs(expected) > 0.9
    expect(bool(sign[clear].all()), f"batches: rows of RX in another order: {found.values}.")


def masks(subject: Subject) -> None:
    """Outputs that were not asked for are zero, and the others do not depend on it."""
    rng = subject.rng()
    program = oracle.random_program(rng, subject.qubits)
    angles = angles_for(rng, program, 2)
    for i in range(4):
        mask = rng.random(program.num_outputs) < 0.4 if i else ~every(program)
        subject.agrees("masks", program, angles, mask)


def endianness(subject: Subject) -> None:
    """Qubit 0, and the first qubit of a block, is the least significant bit."""
    flip = Rotation(Pauli(1, 0), 0)
    blocks = [Probabilities((0, 1)), Probabilities((1, 0))]
    program = program_of(2, [flip], [*blocks, Z0, Expectation((Pauli(0, 2),), (1.0,))], slots=1)
    subject.agrees("endianness", program, np.array([[np.pi]]))
    found = subject.ask(program, np.array([[np.pi]])).values[0]
    likely = int(found[:4].argmax()), int(found[4:8].argmax())
    expect(likely == (1, 2), f"endianness: with qubit 0 flipped, {blocks} are largest at {likely}.")
    order = f"endianness: with qubit 0 flipped, <Z0> and <Z1> are {found[8:]}."
    expect(bool(found[8] < found[9]), order)


def idle_qubits(subject: Subject) -> None:
    """Qubits without a gate are in state 0, wherever they are and whether measured or not."""
    width = subject.qubits
    words: list[Expectation | Probabilities] = [
        Expectation((Pauli(0, 1 << q),), (1.0,)) for q in range(width)
    ]
    for busy in (0, width // 2, width - 1):
        turn = Rotation(Pauli(1 << busy, 1 << busy), 0)
        program = program_of(width, [turn], [*words, Probabilities(tuple(range(width)))], slots=1)
        subject.agrees("idle qubits", program, np.array([[0.7], [-2.0]]))
        for read in (busy, busy - 1):
            program = program_of(width, [turn], [words[read]], slots=1)
            subject.agrees("idle qubits", program, np.array([[0.7]]))


def probabilities(subject: Subject) -> None:
    """Blocks of qubits in any order, several at once, are marginals of one distribution."""
    rng = subject.rng()
    circuit = oracle.random_program(rng, subject.qubits)
    orders = [tuple(rng.permutation(subject.qubits).tolist()) for _ in range(2)]
    blocks = [Probabilities(order[: k + 1]) for order in orders for k in range(subject.qubits)]
    program = program_of(subject.qubits, circuit.operations, blocks, circuit.num_slots)
    angles = angles_for(rng, program, 2)
    subject.agrees("probabilities", program, angles)
    subject.possible("probabilities", program, every(program), subject.ask(program, angles))


def pauli_sums(subject: Subject) -> None:
    """Sums with many strings, with constants, with strings twice, and with none."""
    rng = subject.rng()
    circuit = oracle.random_program(rng, subject.qubits)
    strings = tuple(oracle.random_pauli(rng, subject.qubits) for _ in range(12))
    coefficients = tuple(rng.normal(size=12).tolist())
    outputs = [
        Expectation((*strings, Pauli(0, 0)), (*coefficients, 2.0)),
        Expectation((strings[0], strings[1], strings[0]), (1.0, 0.5, -0.25)),
        Expectation((Pauli(0, 0),), (-3.0,)),
        Expectation((), ()),
    ]
    program = program_of(subject.qubits, circuit.operations, outputs, circuit.num_slots)
    angles = angles_for(rng, program, 2)
    subject.agrees("Pauli sums", program, angles)
    constant = subject.ask(program, angles).values[:, 2:]
    near = np.abs(constant - [-3.0, 0.0]).max() <= TOLERANCE["single"]
    expect(bool(near), f"Pauli sums: the constants -3 and 0 became {constant}.")


def no_slots(subject: Subject) -> None:
    """Circuits without slots, without operations, and without outputs that need a circuit."""
    outputs = (Z0, Probabilities((1, 0)))
    gate = Fixed("x", (1,), FIXED["x"])
    # Noise that touches nothing of a circuit may be refused.
    for operations in ((), (gate,)) if subject.ideal else ((gate,),):
        program = program_of(2, operations, outputs)
        for rows in (1, 3):
            subject.agrees("no slots", program, np.zeros((rows, 0)))
    constant = program_of(2, [gate], [Expectation((Pauli(0, 0),), (1.5,))])
    found = subject.ask(constant, np.zeros((2, 0))).values
    near = np.abs(found - 1.5).max() <= TOLERANCE["single"]
    expect(bool(near), f"no slots: the constant 1.5 became {found}.")


def seeds(subject: Subject) -> None:
    """Two calls with a seed draw the same, with another seed otherwise; rows are independent."""
    for program in (COIN, TURN):
        angles = np.full((COINS, program.num_slots), np.pi / 2)
        first, again, other = (
            subject.ask(program, angles, seed=seed).values[:, 0] for seed in (1, 1, 2)
        )
        name = "coins without slots" if program is COIN else "coins with a slot"
        same = bool((first == again).all())
        expect(same or not subject.seeded, f"seeds: {name} drew anew with the same seed.")
        expect(bool((first != other).any()), f"seeds: {name} repeated with another seed.")
        for what, one, two in (
            ("neighbouring rows", first[:-1], first[1:]),
            ("rows of two seeds", first, other),
        ):
            spread = np.std(one) * np.std(two)
            alike = np.mean((one - one.mean()) * (two - two.mean())) / spread if spread else 1.0
            far = abs(alike) < SIGMAS / np.sqrt(COINS)
            expect(bool(far), f"seeds: {what} of {name} are correlated by {alike:.2f}.")


def seed_ignored(subject: Subject) -> None:
    """Exact values do not depend on the seed."""
    angles = np.array([[0.3]])
    one, two = (subject.ask(TURN, angles, seed=seed).values for seed in (1, 2))
    expect(bool((one == two).all()), f"seeds: exact values {one} and {two} depend on the seed.")


def shots(subject: Subject) -> None:
    """The spread of coins is that of the shots that were paid for."""
    found = subject.ask(COIN, np.zeros((COINS, 0)), seed=3)
    each = found.shots / COINS
    expect(each >= 1, f"shots: {found.shots} shots are not enough for {COINS} rows.")
    mean, spread = found.values.mean(), found.values.std(ddof=1)
    expected = np.sqrt(max(1 - mean**2, 0.0) / each)
    fits = abs(spread / expected - 1) <= SIGMAS / np.sqrt(2 * COINS) if expected else False
    expect(
        fits,
        f"shots: {COINS} means of {each:.0f} coins each spread by {spread:.4f}, where that many "
        f"shots give {expected:.4f}.",
    )
    off = abs(mean) * np.sqrt(found.shots)
    expect(off <= SIGMAS or not subject.ideal, f"shots: the mean of {found.shots} coins is {mean}.")


def costs(subject: Subject) -> None:
    """What a request costs is what was said before."""
    rng = subject.rng()
    program = oracle.random_program(rng, subject.qubits)
    nothing = ~every(program)
    some = np.arange(program.num_outputs) == 0
    for rows, mask in ((1, every(program)), (3, every(program)), (3, some), (2, nothing)):
        said = subject.engine.cost(program, rows, mask)
        expect(isinstance(said, Cost), f"cost: is {type(said).__name__}, expected Cost.")
        found = subject.ask(program, angles_for(rng, program, rows), mask)
        expect(
            (said.jobs, said.shots) == (found.jobs, found.shots),
            f"cost: {said.jobs} job(s) and {said.shots} shots were announced for {rows} row(s) and "
            f"{mask.sum()} output(s), {found.jobs} and {found.shots} were used.",
        )
        least = 0 if not mask.any() else rows
        expect(said.circuits >= least, f"cost: {said.circuits} circuits for {rows} row(s).")


def threads(subject: Subject) -> None:
    """Requests of several threads at once give what they give one after the other."""
    rng = subject.rng()
    programs = [oracle.random_program(rng, subject.qubits, depth=8) for _ in range(THREADS)]
    angles = [angles_for(rng, program, 2) for program in programs]

    def evaluate(i: int) -> Array:
        which = i % THREADS
        return subject.ask(programs[which], angles[which], seed=which).values

    alone = [evaluate(i) for i in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(evaluate, range(3 * THREADS)))
    if subject.samples and not subject.seeded:
        return
    for i, found in enumerate(together):
        error = np.abs(found - alone[i % THREADS]).max()
        allowed = 0.0 if subject.samples else subject.tolerance or TOLERANCE["double"]
        fine = f"threads: with {THREADS} threads values differ by {error} from those of one."
        expect(error <= allowed, fine)


def too_wide(subject: Subject) -> None:
    """A circuit on 100 qubits is refused by EngineError, or its value is right."""
    flips = [Fixed("x", (q,), FIXED["x"]) for q in range(WIDE - 1)]
    parity = Expectation((Pauli(0, (1 << WIDE) - 1),), (1.0,))
    program = program_of(WIDE, flips, [parity])
    try:
        found = subject.ask(program, np.zeros((1, 0))).values[0, 0]
    except EngineError:
        return
    right = abs(found + 1) < TOLERANCE["single"] or not subject.ideal
    expect(right, f"too wide: the parity of {WIDE - 1} flipped qubits is -1, found {found}.")


def pickling(subject: Subject) -> None:
    """A configuration is the same in another process."""
    config = subject.config
    copy = pickle.loads(pickle.dumps(config))
    same = type(copy) is type(config) and copy == config and hash(copy) == hash(config)
    expect(same, f"pickling: {config!r} came back as {copy!r}.")


def derivatives(subject: Subject) -> None:
    """What an engine computes itself is what the shift rule gives on the oracle."""
    runner, rng = subject.engine, subject.rng()
    program = oracle.random_program(rng, subject.qubits, depth=8)
    given = oracle.operands(rng, program, rows=2)
    expected = oracle.primitives(program, given)
    if isinstance(runner, NativeEngine):
        _compare(subject, runner.compute, runner.native, program, given, expected)
    if isinstance(runner, TraceableEngine):
        _compare(subject, runner.trace, runner.traceable, program, given, expected)


def _compare(
    subject: Subject,
    function: Callable[..., Any],
    primitives: frozenset[str],
    program: Program,
    given: Mapping[str, tuple[Array, ...]],
    expected: Mapping[str, Array],
) -> None:
    unknown = primitives - given.keys()
    expect(not unknown, f"derivatives: {sorted(unknown)} are no primitives: {[*given]}.")
    for primitive in sorted(primitives):
        for dtype, tolerance in ((np.float64, subject.tolerance or 1e-9), (np.float32, 1e-4)):
            arrays = [array.astype(dtype) for array in given[primitive]]
            found = np.asarray(function(primitive, program, *arrays))
            asked = f"derivatives: {primitive} of {program!r} in {np.dtype(dtype)}"
            if isinstance(subject.engine, TraceableEngine) and found.dtype == np.float32:
                tolerance = 1e-4  # JAX computes in single precision unless it is told otherwise
            else:
                expect(found.dtype == dtype, f"{asked} gave {found.dtype}.")
            shape = expected[primitive].shape
            expect(found.shape == shape, f"{asked} gave {found.shape}, expected {shape}.")
            error = np.abs(found - expected[primitive]).max(initial=0)
            largest = max(1.0, np.abs(expected[primitive]).max(initial=0))
            fine = error <= tolerance * largest
            expect(
                bool(fine),
                f"{asked} differs by {error:.1e} from the shift rule on Qiskit's "
                f"Statevector, where {tolerance * largest:.1e} is allowed.",
            )


def jobs(subject: Subject) -> None:
    """A job that is submitted is found by its tag, or not at all, and collected."""
    runner = subject.engine
    assert isinstance(runner, JobEngine)
    program = oracle.random_program(subject.rng(), subject.qubits)
    limit = runner.limit(program, every(program))
    expect(limit >= 1, f"jobs: a job may have {limit} rows, expected at least 1.")
    missing = runner.find("check-engine-never-sent")
    expect(missing is None, f"jobs: a job {missing!r} was found for a tag that was never sent.")
    reports: list[Status] = []

    def by_job(
        program: Program, angles: Array, outputs: Mask | None = None, seed: int = 0
    ) -> Evaluation:
        mask = every(program) if outputs is None else outputs
        parts = []
        for start in range(0, len(angles), limit):
            tag = f"check-engine-{subject.seed}-{id(reports)}-{start}"
            rows = angles[start : start + limit]
            job = runner.submit(program, rows, outputs=mask, seed=seed + start, tag=tag)
            expect(isinstance(job, str) and bool(job), f"jobs: submit gave {job!r}, no id.")
            found = runner.find(tag)
            expect(found in (None, job), f"jobs: the tag of job {job!r} found {found!r}.")
            parts.append(
                runner.collect(job, program, len(rows), outputs=mask, report=reports.append)
            )
            ids = {report.job for report in reports[-1:]}
            expect(ids <= {job}, f"jobs: {job!r} was reported as {ids}.")
        values = np.concatenate([part.values for part in parts])
        shots = sum(part.shots for part in parts)
        return Evaluation(values, shots, len(parts), parts[0].device, parts[0].precision)

    subject.agrees("jobs", program, angles_for(subject.rng(), program, 1), ask=by_job)


def differentiates(subject: Subject) -> bool:
    """Whether it has derivatives of its own that the oracle knows."""
    native: frozenset[str] = getattr(subject.engine, "native", frozenset())
    traceable: frozenset[str] = getattr(subject.engine, "traceable", frozenset())
    return subject.ideal and bool(native | traceable)


def always(subject: Subject) -> bool:
    return True


CHECKS: Final[Mapping[str, tuple[Callable[[Subject], bool], Callable[[Subject], None]]]] = (
    MappingProxyType(
        {
            "values": (always, values),
            "batches": (always, batches),
            "masks": (always, masks),
            "endianness": (always, endianness),
            "idle qubits": (always, idle_qubits),
            "probabilities": (always, probabilities),
            "Pauli sums": (always, pauli_sums),
            "no slots": (always, no_slots),
            "seeds": (lambda subject: subject.samples, seeds),
            "seed ignored": (lambda subject: not subject.samples, seed_ignored),
            "shots": (lambda subject: subject.samples, shots),
            "cost": (always, costs),
            "threads": (always, threads),
            "too wide": (always, too_wide),
            "pickling": (lambda subject: subject.config is not None, pickling),
            "derivatives": (differentiates, derivatives),
            "jobs": (lambda subject: isinstance(subject.engine, JobEngine), jobs),
        }
    )
)
"""name -> (whether it applies, the check)."""
