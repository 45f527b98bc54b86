"""One fit of one family on one draw of training frames, and everything that is told about it.

A seed draws the training frames out of the pool, the first weights and the order of batches; test,
validation and far trajectories are the same for all seeds and families.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from accuracy import errors, frequencies, relax
from configuration import Config, parse
from descriptors import spread_of
from families import FAMILIES
from fitting import fit
from frames import Frames, read
from potentials import Potential, model_for
from problems import MDError
from reference import Reference, read_reference
from symmetry import pair_kinds
from tuning import Settings, placed

MOLECULE = "h3o"
BACKEND = {"kind": "statevector", "threads": 1}
"""One thread each: fits run side by side."""


@dataclass(frozen=True)
class Job:
    """A fit to be made.

    Attributes:
        family: a name of families.py.
        seed: of everything that is drawn.
        frames: how many training frames are drawn.
        settings: what is placed in the configuration, as tuned.
        label: "tuned", or what else these settings are.
    """

    family: str
    seed: int
    frames: int
    settings: Settings
    label: str = "tuned"

    @property
    def name(self) -> str:
        """What tells it from other jobs."""
        return f"{self.family}/{self.label}/{self.frames}/{self.seed}"


def config(job: Job, polish: int) -> Config:
    """The configuration of a job."""
    table: dict[str, Any] = {
        "molecule": MOLECULE,
        "backend": BACKEND,
        "model": FAMILIES[job.family].model,
        "training": {"seed": job.seed, "polish": polish},
    }
    return parse(placed(job.settings, table), job.name)


def drawn(pool: Frames, count: int, seed: int) -> Frames:
    """So many frames out of a pool, without repetition.

    Raises:
        MDError: there are fewer.
    """
    if count > len(pool):
        raise MDError(f"{count} training frames are asked for, but there are {len(pool)}")
    return pool[np.random.default_rng([seed, 2]).permutation(len(pool))[:count]]


@cache
def part(folder: Path, name: str) -> Frames:
    """The frames of one part of the data."""
    return read(folder / f"{MOLECULE}_{name}.xyz")


@cache
def reference(folder: Path) -> Reference:
    """Geometry and frequencies at the level of the data."""
    return read_reference(folder / f"{MOLECULE}_reference.json")


def fitted(job: Job, folder: Path, polish: int) -> Potential:
    """The potential of a job on the data of a folder.

    Raises:
        MDError: the fit failed, or the data are not there.
    """
    chosen = config(job, polish)
    train = drawn(part(folder, "train"), job.frames, job.seed)
    model = model_for(chosen.model, train, chosen.backend)
    began = time.perf_counter()
    params, run = fit(model, train, part(folder, "valid"), chosen.training)
    facts = {
        "molecule": MOLECULE,
        "frames": job.frames,
        "seed": job.seed,
        "seconds": round(time.perf_counter() - began, 2),
        "steps": len(run.history),
        "parameters": sum(int(np.size(leaf)) for leaf in _leaves(params)),
    }
    return Potential(model, params, spread_of(train.positions, pair_kinds(train.symbols)), facts)


def _leaves(params: Any) -> Iterable[Any]:
    if isinstance(params, dict):
        for value in params.values():
            yield from _leaves(value)
    else:
        yield params


def validation_error(job: Job, folder: Path, polish: int) -> float:
    """Relative force RMSE in percent on the validation trajectories: what tuning goes by."""
    potential, valid = fitted(job, folder, polish), part(folder, "valid")
    return errors(*potential.energy_and_forces(valid.positions), valid).relative


def record(job: Job, folder: Path, polish: int) -> dict[str, Any]:
    """All that is told of a job, as plain values."""
    potential = fitted(job, folder, polish)
    told = {"name": job.name, **asdict(job), "polish": polish, **potential.facts}
    for name in ("train", "valid", "test", "far"):
        frames = part(folder, name)
        if name == "train":
            frames = drawn(frames, job.frames, job.seed)
        found = errors(*potential.energy_and_forces(frames.positions), frames)
        told[name] = asdict(found) | {"accuracy": found.accuracy}
    return told | vibrations(potential, reference(folder))


def vibrations(potential: Potential, truth: Reference) -> dict[str, Any]:
    """Harmonic frequencies in 1/cm at the potential's own minimum, and their mean absolute error.

    Where there is no minimum near the reference's, the error is None.
    """
    energy = potential.energy_fn()
    try:
        found = frequencies(energy, relax(energy, truth.positions), truth.masses)
    except MDError as error:
        return {"frequencies": None, "frequency_mae": None, "frequency_problem": str(error)}
    mae = float(np.abs(found - truth.frequencies).mean())
    return {"frequencies": found.tolist(), "frequency_mae": mae, "frequency_problem": ""}


def side_by_side(
    work: Callable[..., Any], jobs: list[tuple[Any, ...]], workers: int
) -> Iterable[tuple[tuple[Any, ...], Any]]:
    """(job, work(*job)) as they finish, in so many processes; in this one for a single worker."""
    if workers == 1:
        for job in jobs:
            yield job, work(*job)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        waiting = {pool.submit(work, *job): job for job in jobs}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:  # an error is told once the jobs at work are done, not those that wait
            pool.shutdown(cancel_futures=True)
