"""Fits every family on every seed, and says whether a quantum circuit is worth its place.

    python examples/md/compare.py                # as PROTOCOL.md says
    python examples/md/compare.py --quick        # two seeds and a step, to see that it works
    python examples/md/compare.py --curve        # the learning curve, and untuned settings, as well

Settings are those that tune.py has frozen. Finished fits are kept, a line of JSON each; a run that
was stopped goes on. It prints errors on the test trajectories, mean and standard deviation over the
seeds, and paired comparisons of the hybrid with the others; report.py draws them.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from command_line import first_seed
from comparison import Job, record, side_by_side
from configuration import DATA, FOLDER
from families import FAMILIES
from problems import MDError
from significance import Comparison, compare, mean_and_deviation, table
from terminal import Bar, in_one_line
from tuning import Settings, frozen

FRAMES = 400
POLISH = 200
FIRST_SEED, SEEDS = 100, 10
CURVE = 25, 50, 100, 200, 400
CURVE_SEEDS = 3
HYBRID = "hybrid"

UNTUNED: Settings = {"training.steps": 2000, "training.polish": 0, "training.rate": 0.02}
"""What is done where a baseline is not cared for: Adam at its usual rate, no least squares."""

Records = list[dict[str, Any]]
KEYS = {"name", "family", "label", "frames", "seed", "settings", "polish", "parameters", "seconds",
        "frequency_mae", "test", "far"}  # fmt: skip
"""What tables are made of; a record has more."""


def jobs(seeds: Iterable[int], frames: int, settings: dict[str, Settings]) -> list[Job]:
    """Every family on every seed."""
    return [Job(family, seed, frames, settings[family]) for seed in seeds for family in settings]


def chosen(tuned: Path, families: Iterable[str] | None) -> dict[str, Settings]:
    """Family -> its frozen settings; all that are tuned where none are named.

    Raises:
        MDError: the file is broken, lacks one of them, or has one that nobody knows.
    """
    outcome = frozen(tuned)
    wanted = list(families or outcome)
    for name in wanted:
        if name not in outcome or name not in FAMILIES:
            raise MDError(
                f"{name} is not among the families that are tuned in {tuned}: "
                f"{', '.join(name for name in outcome if name in FAMILIES)}. Tune it by tune.py"
            )
    return {name: outcome[name].settings for name in wanted}


def extra_jobs(seeds: list[int], settings: dict[str, Settings]) -> list[Job]:
    """The learning curve, and the families that are trained with untuned settings."""
    few = seeds[:CURVE_SEEDS]
    curve = [job for frames in CURVE for job in jobs(few, frames, settings)]
    untuned = [
        Job(family, seed, FRAMES, UNTUNED, "untuned")
        for seed in few
        for family in settings
        if "training.steps" in FAMILIES[family].space
    ]
    return curve + untuned


def recall(path: Path) -> Records:
    """The finished fits of a file; a last line without its end is of a run that was killed.

    Raises:
        MDError: a line is no record.
    """
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]
    except (OSError, ValueError) as error:
        raise MDError(f"{path} cannot be read: {error}. Move it away to start anew") from error


def append(path: Path, one: dict[str, Any]) -> None:
    """Adds a record, after what a killed run may have left of a line is cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(one, allow_nan=False).encode() + b"\n")


def run(wanted: list[Job], path: Path, data: Path, polish: int, workers: int) -> Records:
    """The records of these jobs; those that the file holds are not fitted again.

    Raises:
        MDError: a line of the file is no record, or one of that name with other settings or steps.
    """
    known = {}
    for number, one in enumerate(recall(path), 1):
        if not (isinstance(one, dict) and one.keys() >= KEYS):
            raise MDError(f"{path}, line {number} is no fit. Move the file away to start anew")
        known[one["name"]] = one
    for job in wanted:
        if job.name in known and known[job.name]["settings"] != job.settings:
            raise MDError(
                f"{path} has a fit {job.name} with other settings than are tuned now. Move the "
                "file away to start anew"
            )
        if job.name in known and (steps := known[job.name]["polish"]) != polish:
            raise MDError(
                f"{path} has a fit {job.name} of {steps} steps, but {polish} are asked for. Give "
                f"--polish {steps}, or move the file away to start anew"
            )
    bar, missing = Bar(), [job for job in wanted if job.name not in known]
    left = [(job, data, polish) for job in missing]
    for number, (job, one) in enumerate(side_by_side(record, left, workers), 1):
        append(path, one)
        known[one["name"]] = one
        words = f"{job[0].name}: {one['test']['accuracy']:.2f} %"
        bar("fits", number, len(missing), words)
    return [known[job.name] for job in wanted]


def of(records: Records, family: str, frames: int, label: str = "tuned") -> Records:
    """The records of a family, by seed."""
    found = [
        one
        for one in records
        if (one["family"], one["frames"], one["label"]) == (family, frames, label)
    ]
    return sorted(found, key=lambda one: one["seed"])


def errors_table(records: Records, frames: int) -> str:
    """Mean and standard deviation over the seeds, a line for every family."""
    head = ["", "weights", "E RMSE meV", "F RMSE meV/Å", "accuracy %", "R²(F)", "1000 K %",
            "ω MAE 1/cm", "s"]  # fmt: skip
    rows = [
        [FAMILIES[family].title, str(found[0]["parameters"]), *averages(found)]
        for family in FAMILIES
        if (found := of(records, family, frames))
    ]
    return table(head, rows)


def averages(found: Records) -> list[str]:
    """Of the fits of a family, from left to right as in the head of `errors_table`."""
    frequencies = [one["frequency_mae"] for one in found if one["frequency_mae"] is not None]
    return [
        plus_minus([one["test"]["energy_rmse"] for one in found], 2),
        plus_minus([one["test"]["force_rmse"] for one in found], 2),
        plus_minus([one["test"]["accuracy"] for one in found], 2),
        plus_minus([one["test"]["force_r2"] for one in found], 6),
        plus_minus([one["far"]["accuracy"] for one in found], 1),
        plus_minus(frequencies, 2),
        plus_minus([one["seconds"] for one in found], 0),
    ]


def plus_minus(values: list[float], digits: int) -> str:
    """Mean ± standard deviation."""
    if not values:
        return "-"
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.{digits}f}" + (f" ± {deviation:.{digits}f}" if len(values) > 1 else "")


def comparisons(
    records: Records, frames: int, candidate: str = HYBRID
) -> dict[tuple[str, str], Comparison]:
    """(quantity, family) -> the candidate against that family, over the seeds of both.

    A family that has no seeds in common with it is left out.
    """
    found = {}
    ours = {one["seed"]: one for one in of(records, candidate, frames)}
    for family in FAMILIES:
        theirs = {one["seed"]: one for one in of(records, family, frames)}
        both = sorted(ours.keys() & theirs.keys())
        if family == candidate or len(both) < 2:
            continue
        for quantity in ("force RMSE", "frequencies"):
            pairs = [
                (quantity_of(ours[seed], quantity), quantity_of(theirs[seed], quantity))
                for seed in both
            ]
            known = [pair for pair in pairs if None not in pair]
            if len(known) > 1:
                a, b = np.array(known, float).T
                found[quantity, family] = compare(a, b, seed=0)
    return found


def quantity_of(one: dict[str, Any], quantity: str) -> float | None:
    return one["frequency_mae"] if quantity == "frequencies" else one["test"]["force_rmse"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", nargs="+", choices=FAMILIES, help="(all that are tuned)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many ({SEEDS})")
    parser.add_argument(
        "--seed", type=first_seed(1000), default=FIRST_SEED, help=f"the first ({FIRST_SEED})"
    )
    parser.add_argument("--frames", type=int, default=FRAMES, help=f"to fit ({FRAMES})")
    parser.add_argument("--polish", type=int, default=POLISH, help=f"steps ({POLISH})")
    parser.add_argument(
        "--curve", action="store_true", help="fewer frames and untuned settings too"
    )
    parser.add_argument("--tuned", type=Path, default=FOLDER / "tuned.json", help="(tuned.json)")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the trajectories")
    parser.add_argument("--output", type=Path, default=Path("comparison.jsonl"), help="all fits")
    parser.add_argument("--workers", type=int, default=1, help="fits at a time")
    parser.add_argument("--quick", action="store_true", help="2 seeds, a step on 20 frames")
    args = parser.parse_args()
    for name in ("seeds", "frames", "workers"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(args, name)}")
    if args.quick:
        args.seeds, args.frames, args.polish = 2, 20, 1
    with in_one_line(parser):
        settings = chosen(args.tuned, args.families)
        seeds = list(range(args.seed, args.seed + args.seeds))
        wanted = jobs(seeds, args.frames, settings)
        if args.curve:
            wanted += [job for job in extra_jobs(seeds, settings) if job not in wanted]
        records = run(wanted, args.output, args.data, args.polish, args.workers)
        print(errors_table(records, args.frames))
        print()
        for (quantity, family), one in comparisons(records, args.frames).items():
            print(f"{quantity}, hybrid against {FAMILIES[family].title}: {one.sentence()}")
        print(f"fits: {args.output}")


if __name__ == "__main__":
    main()
