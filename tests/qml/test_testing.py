"""The conformance suite: all of our engines pass it, and each check fails an engine made for it."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from qiskit.primitives import StatevectorEstimator

from qml import oracle
from qml.checks import CHECKS
from qml.circuits.gates import FIXED
from qml.circuits.program import Expectation, Fixed, Probabilities, Rotation
from qml.errors import ArgumentError, EngineError
from qml.settings import EngineConfig
from qml.simulators.base import Cost, Evaluation, JobEngine, Status
from qml.simulators.reference import ReferenceEngine
from qml.simulators.registry import ENGINES
from qml.subjects import Subject
from qml.testing import check_engine


def exact_estimator():
    """For kind = "estimator"; found by the name of this module, which pytest makes up."""
    return StatevectorEstimator()


OURS = [
    ("reference", {}),
    ("statevector", {}),
    ("aer", {}),
    ({"kind": "aer", "shots": 50}, {"qubits": 2}),
    ({"kind": "aer", "noise": {"readout": 0.1, "depolarizing_1q": 0.02}}, {"ideal": False}),
    ({"kind": "aer", "noise": "FakeManilaV2", "shots": 50}, {"qubits": 2, "ideal": False}),
    ({"kind": "pennylane", "device": "default.qubit"}, {"qubits": 3}),
    ({"kind": "pennylane", "device": "lightning.qubit"}, {"qubits": 3}),
    ({"kind": "pennylane", "device": "lightning.qubit", "shots": 50}, {"qubits": 2}),
    ({"kind": "estimator", "factory": f"{__name__}:exact_estimator"}, {"qubits": 3}),
    pytest.param(
        {"kind": "runtime", "fake": "FakeManilaV2", "shots": 64, "resilience_level": 0},
        {"qubits": 2, "ideal": False},
        marks=pytest.mark.slow,
    ),
    # Every circuit is compiled, half a minute in all.
    pytest.param("xla", {"qubits": 2}, marks=pytest.mark.full),
]
CASES = [case.values if hasattr(case, "values") else case for case in OURS]


def named(case):
    return " ".join(map(str, case.values())) if isinstance(case, dict) else None


@pytest.mark.parametrize(("backend", "exemptions"), OURS, ids=named)
def test_our_engines_pass(backend, exemptions):
    applied = check_engine(backend, **exemptions)
    assert {"values", "masks", "cost", "threads", "too wide", "pickling"} <= set(applied)
    sampled = isinstance(backend, dict) and "shots" in backend
    assert {"seeds", "shots"} & set(applied) == ({"seeds", "shots"} if sampled else set())


def test_an_engine_of_every_kind_is_checked():
    kinds = {backend["kind"] if isinstance(backend, dict) else backend for backend, _ in CASES}
    assert kinds == ENGINES.keys()


@pytest.mark.parametrize(
    ("backend", "extra"),
    [
        ("statevector", {"derivatives"}),
        ({"kind": "pennylane", "device": "lightning.qubit"}, {"derivatives"}),
        ({"kind": "pennylane", "device": "default.mixed"}, set()),
        ("reference", set()),
    ],
    ids=str,
)
def test_what_an_engine_can_besides_is_checked(backend, extra):
    assert {"derivatives", "jobs"} & set(check_engine(backend, qubits=2)) == extra


# --- engines that break one promise each


class Exact(ReferenceEngine):
    """The reference engine, with a place to break its circuits and one for its values."""

    def __init__(self, config=None):
        super().__init__(config or EngineConfig(kind="broken"))

    def circuit(self, program):
        return program

    def values(self, program, values, outputs, seed):
        return values

    def expval(self, program, angles, *, outputs, seed):
        found = super().expval(self.circuit(program), angles, outputs=outputs, seed=seed)
        return replace(found, values=self.values(program, found.values, outputs, seed))


class Sampling(Exact):
    """Every output is sampled on its own, from normal deviates of the right variance."""

    shots = 40

    def rng(self, program, rows, seed):
        return np.random.default_rng([seed, int(program.digest[:8], 16)])

    def expval(self, program, angles, *, outputs, seed):
        exact = super().expval(program, angles, outputs=outputs, seed=seed).values
        rng = self.rng(program, len(angles), seed)
        drawn, column = exact.copy(), 0
        for output in program.outputs:
            columns = slice(column, column := column + output.size)
            if isinstance(output, Probabilities):
                weights = np.clip(exact[:, columns], 0, None)
                weights /= np.where(weights.sum(axis=1), weights.sum(axis=1), 1)[:, None]
                if outputs[columns].all():
                    drawn[:, columns] = rng.multinomial(self.shots, weights) / self.shots
            elif sum(map(abs, output.coefficients)) and any(p.support for p in output.paulis):
                scale = sum(map(abs, output.coefficients))
                up = np.clip((exact[:, columns] / scale + 1) / 2, 0, 1)
                drawn[:, columns] = scale * (2 * rng.binomial(self.shots, up) / self.shots - 1)
        used = self.cost(program, len(angles), outputs).shots
        return Evaluation(np.where(outputs, drawn, 0.0), shots=used)

    def cost(self, program, rows, outputs):
        return Cost(rows, self.shots * rows)


class Jobs(Exact):
    """Its jobs run when they are submitted."""

    def __init__(self):
        super().__init__()
        self.done, self.tags = {}, {}

    def limit(self, program, outputs):
        return 2

    def submit(self, program, angles, *, outputs, seed, tag):
        job = f"job {len(self.done)}"
        self.done[job] = self.expval(program, angles, outputs=outputs, seed=seed)
        self.tags[tag] = job
        return job

    def find(self, tag):
        return self.tags.get(tag)

    def collect(self, job, program, rows, *, outputs, report):
        report(Status(job, "DONE"))
        return self.done[job]


class Native(Exact):
    native = frozenset({"expval_vjp", "expval_jvp"})

    def compute(self, primitive, program, a, *operands):
        jacobian = oracle.jacobian(program, a.astype(np.float64))
        if primitive == "expval_vjp":
            return np.einsum("rkm,rcm->rck", jacobian, *operands).astype(a.dtype)
        return np.einsum("rkm,rtk->rtm", jacobian, *operands).astype(a.dtype)

    def has_xla_call(self):
        return False

    def xla_call(self, primitive, program, a, *operands):
        raise EngineError("not compiled")


@pytest.mark.parametrize("engine", [Exact(), Sampling(), Jobs(), Native()])
def test_the_engines_that_are_broken_below_pass_unbroken(engine):
    applied = check_engine(engine, qubits=3)
    assert ("seeds" in applied) == isinstance(engine, Sampling)
    assert ("jobs" in applied) == isinstance(engine, Jobs) == isinstance(engine, JobEngine)
    assert ("derivatives" in applied) == isinstance(engine, Native)


class DropsAGate(Exact):
    def circuit(self, program):
        kept = [o for o in program.operations if not (isinstance(o, Fixed) and o.name == "sdg")]
        return replace(program, operations=tuple(kept))


class TurnsBackwards(Exact):
    def circuit(self, program):
        turned = [
            replace(o, angle=-o.angle) if isinstance(o, Rotation) else o for o in program.operations
        ]
        return replace(program, operations=tuple(turned))


class ReversesLongBatches(Exact):
    def values(self, program, values, outputs, seed):
        return values[::-1] if len(values) > 64 else values


class DoublesWhatIsAskedAlone(Exact):
    def values(self, program, values, outputs, seed):
        return values if outputs.all() else 2 * values


class AnswersUnasked(Exact):
    def expval(self, program, angles, *, outputs, seed):
        return super().expval(program, angles, outputs=np.ones_like(outputs), seed=seed)


class BigEndian(Exact):
    def circuit(self, program):
        changed = [
            Probabilities(o.qubits[::-1]) if isinstance(o, Probabilities) else o
            for o in program.outputs
        ]
        return replace(program, outputs=tuple(changed))


class IdleInOne(Exact):
    def circuit(self, program):
        busy = set()
        for o in program.operations:
            busy.update(o.qubits if isinstance(o, Fixed) else o.pauli.support)
        idle = [q for q in range(program.num_qubits) if q not in busy]
        flips = tuple(Fixed("x", (q,), FIXED["x"]) for q in idle)
        return replace(program, operations=program.operations + flips)


class LosesProbability(Exact):
    def values(self, program, values, outputs, seed):
        blocks = [isinstance(o, Probabilities) for o in program.outputs]
        lost = np.repeat(blocks, [o.size for o in program.outputs])
        return np.where(lost, 0.99 * values, values)


class LastStringWins(Exact):
    def circuit(self, program):
        changed = []
        for o in program.outputs:
            if isinstance(o, Expectation):
                terms = dict(zip(o.paulis, o.coefficients, strict=True))
                o = Expectation(tuple(terms), tuple(terms.values()))
            changed.append(o)
        return replace(program, outputs=tuple(changed))


class ForgetsConstants(Exact):
    def circuit(self, program):
        changed = []
        for o in program.outputs:
            if isinstance(o, Expectation):
                kept = [(p, c) for p, c in zip(o.paulis, o.coefficients, strict=True) if p.support]
                o = Expectation(tuple(p for p, _ in kept), tuple(c for _, c in kept))
            changed.append(o)
        return replace(program, outputs=tuple(changed))


class OneRowWithoutSlots(Exact):
    def expval(self, program, angles, *, outputs, seed):
        rows = angles if program.num_slots else angles[:1]
        return super().expval(program, rows, outputs=outputs, seed=seed)


class UsesTheSeed(Exact):
    def values(self, program, values, outputs, seed):
        return values + 1e-13 * seed * outputs


class IgnoresTheSeed(Sampling):
    def rng(self, program, rows, seed):
        return np.random.default_rng(0)


class DrawsAnew(Sampling):
    def rng(self, program, rows, seed):
        return np.random.default_rng()


class SharesDraws(Sampling):
    """Rows in pairs draw alike."""

    def expval(self, program, angles, *, outputs, seed):
        found = super().expval(program, angles, outputs=outputs, seed=seed)
        return replace(found, values=np.repeat(found.values[::2], 2, axis=0)[: len(angles)])


class ClaimsMoreShots(Sampling):
    def cost(self, program, rows, outputs):
        return Cost(rows, 4 * self.shots * rows)


class Biased(Sampling):
    def expval(self, program, angles, *, outputs, seed):
        found = super().expval(program, angles, outputs=outputs, seed=seed)
        return replace(found, values=np.where(outputs, found.values + 0.1, 0.0))


class Cheap(Sampling):
    def cost(self, program, rows, outputs):
        return Cost(rows, self.shots * rows * (2 if rows == 3 else 1))

    def expval(self, program, angles, *, outputs, seed):
        found = super().expval(program, angles, outputs=outputs, seed=seed)
        return replace(found, shots=self.shots * len(angles))


class OneJobMore(Exact):
    def expval(self, program, angles, *, outputs, seed):
        found = super().expval(program, angles, outputs=outputs, seed=seed)
        return replace(found, jobs=2)


class NotForThreads(Exact):
    def __init__(self):
        super().__init__()
        self.busy, self.lock = 0, threading.Lock()

    def values(self, program, values, outputs, seed):
        with self.lock:
            self.busy += 1
        time.sleep(0.02)
        wrong = self.busy > 1
        with self.lock:
            self.busy -= 1
        return values + outputs * wrong


class AnyWidth(Exact):
    def check(self, program):
        pass

    def expval(self, program, angles, *, outputs, seed):
        if program.num_qubits <= 20:
            return super().expval(program, angles, outputs=outputs, seed=seed)
        return Evaluation(np.ones((len(angles), program.num_outputs)))


class Forgetful(EngineConfig):
    kind: str = "broken"

    def __reduce__(self):
        return Forgetful, ()


class CannotBePickled(Exact):
    def __init__(self):
        super().__init__(Forgetful(seed=3))


class WrongSlope(Native):
    def compute(self, primitive, program, a, *operands):
        value = super().compute(primitive, program, a, *operands)
        return -value if primitive == "expval_jvp" else value


class DoubleOnly(Native):
    def compute(self, primitive, program, a, *operands):
        return super().compute(primitive, program, a, *operands).astype(np.float64)


class NoPrimitive(Native):
    native = frozenset({"expval_vpj"})


class WrongTrace(Exact):
    traceable = frozenset({"expval"})

    def trace(self, primitive, program, a):
        return 1.01 * oracle.expval(program, a.astype(np.float64)).astype(a.dtype)


class FindsAnything(Jobs):
    def find(self, tag):
        return "job 0"


class FindsAnother(Jobs):
    def find(self, tag):
        return self.tags.get(tag) and "job of somebody"


class CollectsTheFirst(Jobs):
    def collect(self, job, program, rows, *, outputs, report):
        return replace(self.done[job], values=-self.done[job].values)


class ReportsAnother(Jobs):
    def collect(self, job, program, rows, *, outputs, report):
        report(Status("job of somebody", "DONE"))
        return self.done[job]


class NoRows(Jobs):
    def limit(self, program, outputs):
        return 0


class NoId(Jobs):
    def submit(self, program, angles, *, outputs, seed, tag):
        super().submit(program, angles, outputs=outputs, seed=seed, tag=tag)


BROKEN = [
    ("values", DropsAGate, "values: output"),
    ("values", TurnsBackwards, "by Qiskit's Statevector, the engine found"),
    ("values", Biased, "values: output"),
    ("batches", ReversesLongBatches, "batches: 100 rows of RX differ"),
    ("masks", DoublesWhatIsAskedAlone, "masks: output"),
    ("masks", AnswersUnasked, "for outputs not asked for"),
    ("endianness", BigEndian, "endianness: output 1 "),
    ("idle qubits", IdleInOne, "idle qubits: output"),
    ("probabilities", LosesProbability, "probabilities: output"),
    ("Pauli sums", LastStringWins, "Pauli sums: output"),
    ("Pauli sums", ForgetsConstants, "Pauli sums: output 0 "),
    ("no slots", OneRowWithoutSlots, r"gave values \(1, 5\), expected \(3, 5\)"),
    ("no slots", ForgetsConstants, "the constant 1.5 became"),
    ("seed ignored", UsesTheSeed, "depend on the seed"),
    ("seeds", IgnoresTheSeed, "repeated with another seed"),
    ("seeds", DrawsAnew, "drew anew with the same seed"),
    ("seeds", SharesDraws, "neighbouring rows of coins .* are correlated"),
    ("shots", ClaimsMoreShots, "means of 160 coins each"),
    ("shots", Biased, "shots: "),
    ("cost", Cheap, "240 shots were announced .* 120 were used"),
    ("cost", OneJobMore, r"cost: 1 job\(s\)"),
    ("threads", NotForThreads, "threads: with 4 threads"),
    ("too wide", AnyWidth, "flipped qubits is -1, found 1"),
    ("pickling", CannotBePickled, "pickling: "),
    ("derivatives", WrongSlope, "derivatives: expval_jvp"),
    ("derivatives", DoubleOnly, "in float32 gave float64"),
    ("derivatives", NoPrimitive, "'expval_vpj'.* are no primitives"),
    ("derivatives", WrongTrace, "derivatives: expval of"),
    ("jobs", FindsAnything, "for a tag that was never sent"),
    ("jobs", FindsAnother, "found 'job of somebody'"),
    ("jobs", CollectsTheFirst, "jobs: output"),
    ("jobs", ReportsAnother, "was reported as"),
    ("jobs", NoRows, "may have 0 rows"),
    ("jobs", NoId, "submit gave None"),
]


def subject_of(engine, **exemptions):
    given = {"qubits": 3, "seed": 0, "tolerance": None, "ideal": True, "seeded": True}
    return Subject(engine, getattr(engine, "config", None), **{**given, **exemptions})


@pytest.mark.parametrize(
    ("check", "broken", "message"), BROKEN, ids=[f"{c}-{b.__name__}" for c, b, _ in BROKEN]
)
def test_each_check_fails_an_engine_that_breaks_its_promise(check, broken, message):
    subject = subject_of(broken())
    applies, run = CHECKS[check]
    assert applies(subject)
    with pytest.raises(AssertionError, match=message):
        run(subject)
    with pytest.raises(AssertionError):
        check_engine(subject.engine, qubits=3)


def test_every_check_can_fail():
    assert {check for check, _, _ in BROKEN} == CHECKS.keys()


# --- what every answer must be


def answering(**changes):
    class Answering(Exact):
        def expval(self, program, angles, *, outputs, seed):
            found = super().expval(program, angles, outputs=outputs, seed=seed)
            return replace(found, **{k: change(found) for k, change in changes.items()})

    return Answering()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": lambda found: found.values.tolist()}, "gave list, no array"),
        ({"values": lambda found: found.values[0]}, "gave values"),
        ({"values": lambda found: found.values.astype(np.float32)}, "gave float32"),
        ({"values": lambda found: found.values * np.nan}, "not finite"),
        ({"device": lambda found: ""}, "named no device"),
        ({"precision": lambda found: "half"}, "the precision 'half'"),
    ],
)
def test_an_answer_of_another_form_fails(changes, message):
    with pytest.raises(AssertionError, match=message):
        check_engine(answering(**changes), qubits=2)


def test_an_engine_that_writes_into_its_arrays_fails():
    class Writing(Exact):
        def expval(self, program, angles, *, outputs, seed):
            found = super().expval(program, angles, outputs=outputs, seed=seed)
            angles += 1
            return found

    with pytest.raises(AssertionError, match="changed the arrays"):
        check_engine(Writing(), qubits=2)


def test_an_object_without_the_methods_fails():
    with pytest.raises(AssertionError, match="lacks a method"):
        check_engine(object())


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [
        *(({"qubits": wrong}, "'qubits' must be an integer from 2 to 12")
          for wrong in (1, 0, -3, 13, 2.0, "2", True, None, [2])),
        *(({"seed": wrong}, r"'seed' must be an integer from 0 to 2\*\*32 - 1")
          for wrong in (-1, 2**32, 0.0, "0", False, None)),
        *(({"tolerance": wrong}, "'tolerance' must be a finite number above 0, or None")
          for wrong in (0, -1e-9, float("nan"), float("inf"), "1e-9", True, [1e-9])),
        *(({name: wrong}, f"{name!r} must be True or False")
          for name in ("ideal", "seeded") for wrong in (1, 0, "no", None)),
    ],
)  # fmt: skip
def test_arguments_of_another_type_or_range_are_refused_before_any_check(keys, allowed):
    asked = []

    class Watched(Exact):
        def check(self, program):
            asked.append(program)

    with pytest.raises(ArgumentError, match=f"check_engine: {allowed}, got "):
        check_engine(Watched(), **keys)
    assert not asked


def test_numbers_of_numpy_are_numbers():
    given = {"qubits": np.int64(2), "seed": np.uint32(3), "tolerance": np.float64(1e-8)}
    assert "values" in check_engine("reference", **given)


# --- exemptions and tolerance


def test_draws_that_follow_from_no_seed_pass_only_if_that_is_said():
    check_engine(DrawsAnew(), qubits=2, seeded=False)


def test_noise_passes_only_if_that_is_said():
    noisy = {"kind": "aer", "noise": {"depolarizing_1q": 0.02}}
    with pytest.raises(AssertionError, match="values: output"):
        check_engine(noisy, qubits=2)
    check_engine(noisy, qubits=2, ideal=False)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (LosesProbability, "values: Probabilities"),
        (BigEndian, "endianness: with qubit 0 flipped"),
        (ReversesLongBatches, "batches: rows of RX in another order"),
    ],
)
def test_noise_excuses_no_impossible_values(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_engine(broken(), qubits=2, ideal=False)


def test_the_tolerance_is_that_of_the_stated_precision_or_the_given_one():
    class Rough(Exact):
        def values(self, program, values, outputs, seed):
            return values + 1e-6 * outputs

    with pytest.raises(AssertionError, match="1.0e-09 is allowed"):
        check_engine(Rough(), qubits=2)
    check_engine(Rough(), qubits=2, tolerance=1e-5)


def test_the_seed_chooses_the_circuits():
    class Recording(Exact):
        def __init__(self):
            super().__init__()
            self.seen = set()

        def circuit(self, program):
            self.seen.add(program.digest)
            return program

    recorders = [Recording() for _ in range(3)]
    for recorder, seed in zip(recorders, (0, 0, 1), strict=True):
        check_engine(recorder, qubits=2, seed=seed)
    first, again, other = (recorder.seen for recorder in recorders)
    assert first == again and first != other


@pytest.mark.parametrize(
    ("answer", "says"),
    [(None, "AttributeError: 'NoneType'"), (np.zeros((1, 1)), "AttributeError: 'numpy.ndarray'")],
)
def test_an_engine_that_ends_with_an_error_of_its_own_fails_the_check_by_name(answer, says):
    class Broken(ReferenceEngine):
        def expval(self, *_, **__):
            return answer

    with pytest.raises(AssertionError, match=rf"the check '.+' ended with {says}"):
        check_engine(Broken(EngineConfig(kind="broken")), qubits=2)


def test_a_class_in_place_of_an_engine_is_told():
    with pytest.raises(AssertionError, match="is a class"):
        check_engine(ReferenceEngine)
