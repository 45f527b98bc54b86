"""Random search: the same number of trials for every family of models, from a table of spaces.

A trial's settings are drawn from the seed, the trial's number and the setting's name alone. So a
search that is stopped goes on as if it had not been, one with more trials repeats the first ones,
and families are tried at the same values of what they share.

    space = {"training.rate": Between(1e-3, 1e-1, logarithmic=True)}
    search = Search("network", space, data=digest(...), seed=0)
    best = run(search, evaluate, trials=24, log=Path("network.jsonl"))
    freeze([best], Path("tuned.json"))

Settings are named by their place in a configuration, as "training.energy_weight"; `placed` puts
them there.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from files import write_atomically
from problems import MDError

FORMAT = "tuned settings, version 1"

Settings = dict[str, Any]
"""Names, as "training.rate", to plain values."""
Report = Callable[[str, int, int, str], None]
"""Called with the family, what is done, what there is to do, and a few words."""


@dataclass(frozen=True)
class Between:
    """A number from `low` to `high`, even in the number, or in its logarithm."""

    low: float
    high: float
    logarithmic: bool = False

    def __post_init__(self) -> None:
        if not (self.low < self.high and (self.low > 0 or not self.logarithmic)):
            raise MDError(f"low must be below high, and above 0 for a logarithm, got {self}")

    def draw(self, rng: np.random.Generator) -> float:
        if self.logarithmic:
            return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True)
class OneOf:
    """One of some values, each as likely; a table stands for several settings that go together."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise MDError("OneOf needs a value to choose")

    def draw(self, rng: np.random.Generator) -> Any:
        return deepcopy(self.values[int(rng.integers(len(self.values)))])


Space = Mapping[str, Between | OneOf]
"""Names of settings to what they may be; a name with OneOf tables is not a setting itself."""


def digest(value: Any) -> str:
    """16 hexadecimal digits that tell plain values and arrays apart."""
    told = hashlib.sha256()
    _tell(told.update, value)
    return told.hexdigest()[:16]


def _tell(update: Callable[[bytes], None], value: Any) -> None:
    if isinstance(value, np.ndarray):
        update(f"{value.dtype.str}{value.shape}".encode())
        update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        update(b"{")
        for name in sorted(value):
            update(json.dumps(name).encode())
            _tell(update, value[name])
        update(b"}")
    elif isinstance(value, list | tuple):
        update(b"[")
        for one in value:
            _tell(update, one)
        update(b"]")
    elif isinstance(value, Between | OneOf):
        update(type(value).__name__.encode())
        _tell(update, asdict(value))
    else:
        update(json.dumps(value).encode() + b",")


@dataclass(frozen=True)
class Search:
    """What decides the settings and the outcome of every trial.

    Attributes:
        family: its name.
        space: what is drawn.
        data: digest of the data, and of what else is the same for all families.
        seed: of the draws.
        fixed: what the family holds fixed, as the terms of its model; plain values.
    """

    family: str
    space: Space
    data: str
    seed: int = 0
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """A digest of all of it; trials of another one are not mixed in."""
        return digest([self.family, self.space, self.data, self.seed, self.fixed])

    def settings(self, trial: int) -> Settings:
        """The settings of a trial, numbered from 0."""
        drawn: Settings = {}
        for name, choice in self.space.items():
            word = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
            value = choice.draw(np.random.default_rng([self.seed, trial, word]))
            drawn |= value if isinstance(value, dict) else {name: value}
        return dict(json.loads(json.dumps(drawn)))  # as they come back out of the log


@dataclass(frozen=True)
class Trial:
    """A finished trial.

    Attributes:
        search: the identity of its search.
        number: from 0.
        settings: what was tried.
        error: on the validation set; None where it failed.
        problem: why it failed, or "".
        seconds: how long it took.
    """

    search: str
    number: int
    settings: Settings
    error: float | None
    problem: str
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """The outcome of a search.

    Attributes:
        family, seed, data, search: of the search; the last is its identity.
        trials: how many there were.
        failed: how many of them had no finite error.
        number: of the best trial.
        error: its error.
        settings: its settings.
    """

    family: str
    seed: int
    data: str
    search: str
    trials: int
    failed: int
    number: int
    error: float
    settings: Settings


def quiet(what: str, done: int, total: int, words: str) -> None: ...


def run(
    search: Search,
    evaluate: Callable[[Settings], float],
    trials: int,
    log: Path,
    report: Report = quiet,
) -> Tuned:
    """The best of so many trials. Those that the log holds are not run again.

    Args:
        evaluate: settings -> error on the validation set, smaller is better. Where it raises
            MDError or its error is not finite, the trial has failed, and counts as one.
        log: a file to which every finished trial is appended as a line of JSON.
        report: is told of progress.

    Raises:
        MDError: the log is of another search or broken, no trial is asked for, or all have failed.
    """
    if trials < 1:
        raise MDError(f"trials must be at least 1, got {trials}")
    done = {trial.number: trial for trial in recall(search, log)}
    for number in range(trials):
        if number not in done:
            done[number] = _tried(search, evaluate, number)
            _append(log, done[number])
        report(search.family, number + 1, trials, _words(done, number))
    tried = [done[number] for number in range(trials)]
    errors = [(trial.error, trial.number) for trial in tried if trial.error is not None]
    if not errors:
        raise MDError(
            f"all {trials} trials of {search.family} failed, the first with: {tried[0].problem}. "
            f"See {log}"
        )
    error, number = min(errors)
    return Tuned(
        family=search.family,
        seed=search.seed,
        data=search.data,
        search=search.identity,
        trials=trials,
        failed=trials - len(errors),
        number=number,
        error=error,
        settings=done[number].settings,
    )


def _tried(search: Search, evaluate: Callable[[Settings], float], number: int) -> Trial:
    settings, began = search.settings(number), time.perf_counter()
    try:
        error = float(evaluate(deepcopy(settings)))
        problem = "" if math.isfinite(error) else f"the error is {error}"
    except MDError as failure:
        error, problem = math.nan, str(failure)
    seconds = round(time.perf_counter() - began, 2)
    told = None if problem else error
    return Trial(search.identity, number, settings, told, problem, seconds)


def _words(done: Mapping[int, Trial], number: int) -> str:
    errors = [t.error for k, t in done.items() if k <= number and t.error is not None]
    return f"best error {min(errors):.3g}" if errors else "none has succeeded yet"


def _append(log: Path, trial: Trial) -> None:
    """Adds a line, after what a killed run may have left of one is cut off."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(asdict(trial), allow_nan=False).encode() + b"\n")
        file.flush()


def recall(search: Search, log: Path) -> list[Trial]:
    """The finished trials in a log; none where there is no file.

    A last line without its end is of a run that was killed, and no trial.

    Raises:
        MDError: a line is no trial, or one of another search.
    """
    if not log.exists():
        return []
    try:
        text = log.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MDError(f"{log} cannot be read: {error}. Move it away to start anew") from error
    trials = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            trial = Trial(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise MDError(
                f"{log}, line {number} is no trial: {error}. Move the file away"
            ) from error
        if trial.search != search.identity:
            raise MDError(
                f"{log}, line {number} is a trial of another search: of another space, seed, "
                f"data or model than {search.family} now has. Move the file away to start anew"
            )
        trials.append(trial)
    return trials


def freeze(tuned: Iterable[Tuned], path: Path) -> None:
    """Writes outcomes, by family, as JSON; all families with the same number of trials.

    Raises:
        MDError: there are none, or their trials or data differ: that is no fair comparison.
    """
    outcomes = list(tuned)
    for what in ("trials", "data"):
        if len(found := {getattr(one, what) for one in outcomes}) != 1:
            raise MDError(
                f"families must be tuned with the same {what}, got {sorted(found)}: tune them again"
            )
    families = {one.family: asdict(one) for one in outcomes}
    content = {"format": FORMAT, "families": families}
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def frozen(path: Path) -> dict[str, Tuned]:
    """Family -> outcome, as `freeze` wrote them.

    Raises:
        MDError: the file is not there, or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        return {family: Tuned(**one) for family, one in content["families"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise MDError(f"{path} holds no {FORMAT}: {error!r}. Write it by tune.py") from error


def placed(settings: Settings, table: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration's table with settings in their places; places on the way are made.

    >>> placed({"training.rate": 0.1}, {"training": {"rate": 1, "seed": 0}})
    {'training': {'rate': 0.1, 'seed': 0}}

    Raises:
        MDError: a place on the way is a value and no table.
    """
    result = deepcopy(dict(table))
    for name, value in settings.items():
        *way, last = name.split(".")
        place = result
        for step in way:
            if place.get(step) is None:
                place[step] = {}
            place = place[step]
            if not isinstance(place, dict):
                raise MDError(f"{name}: {step} is {place!r} in the configuration, and no table")
        place[last] = value
    return result


def check_counts(
    space: Space, count: Callable[[Settings], int], least: int, most: int
) -> dict[str, int]:
    """How many weights each structure of a space has, by its settings in words.

    A structure is a combination of the choices by OneOf under "structure" or "model."; numbers by
    Between are no part of it.

    Args:
        count: settings of a structure -> number of weights.

    Raises:
        MDError: a structure has fewer than `least` or more than `most`.
    """
    structures: Sequence[Settings] = [{}]
    for name, choice in space.items():
        if isinstance(choice, OneOf) and (name == "structure" or name.startswith("model.")):
            structures = [
                known | (value if isinstance(value, dict) else {name: value})
                for known in structures
                for value in choice.values
            ]
    counts = {json.dumps(structure): count(structure) for structure in structures}
    wrong = {words: number for words, number in counts.items() if not least <= number <= most}
    if wrong:
        raise MDError(
            f"structures must have {least} to {most} weights to be compared, got {wrong}. "
            "Change the space"
        )
    return counts
