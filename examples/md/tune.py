"""Chooses the settings of every family of models on the validation trajectories, and freezes them.

    python examples/md/tune.py                   # 24 trials of each family
    python examples/md/tune.py --quick           # two trials of a step, to see that it works

The same number of trials for every family, drawn at random from its space in families.py. Finished
trials are kept in a log by family; a run that was stopped goes on. The test trajectories are not
read. The outcome is tuned.json, by which compare.py goes.
"""

import argparse
from pathlib import Path

from command_line import first_seed
from comparison import Job, part, side_by_side, validation_error
from configuration import DATA, FOLDER
from families import FAMILIES
from terminal import Bar, in_one_line
from tuning import Search, Settings, Tuned, digest, freeze, run

FRAMES = 200
POLISH = 100
TRIALS = 24
SEED = 1000
"""Of the draws of settings, and of the training frames; the comparison's seeds are others."""


def search(family: str, data: Path, frames: int, polish: int, seed: int) -> Search:
    """What is searched for a family; its identity holds all that decides the outcome."""
    fixed = {
        "frames": frames,
        "polish": polish,
        **{
            name: [arrays.positions, arrays.energies, arrays.forces]
            for name in ("train", "valid")
            for arrays in (part(data, name),)
        },
    }
    one = FAMILIES[family]
    return Search(family, one.space, digest(fixed), seed, fixed=one.model)


def tuned(
    family: str, data: Path, frames: int, polish: int, trials: int, seed: int, logs: Path
) -> Tuned:
    """The best of so many trials of a family."""

    def evaluate(settings: Settings) -> float:
        return validation_error(Job(family, seed, frames, settings), data, polish)

    log = logs / f"{family}.jsonl"
    return run(search(family, data, frames, polish, seed), evaluate, trials, log)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"of each family ({TRIALS})")
    parser.add_argument("--frames", type=int, default=FRAMES, help=f"to fit ({FRAMES})")
    parser.add_argument("--polish", type=int, default=POLISH, help=f"steps ({POLISH})")
    parser.add_argument("--seed", type=first_seed(1), default=SEED, help=f"of all draws ({SEED})")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the trajectories")
    parser.add_argument(
        "--logs", type=Path, default=Path("tuning"), help="folder of finished trials"
    )
    parser.add_argument("--output", type=Path, default=FOLDER / "tuned.json", help="(tuned.json)")
    parser.add_argument("--workers", type=int, default=1, help="families at a time")
    parser.add_argument("--quick", action="store_true", help="2 trials of a step on 20 frames")
    args = parser.parse_args()
    for name in ("trials", "frames", "workers"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(args, name)}")
    if args.quick:
        args.trials, args.frames, args.polish = 2, 20, 1
    bar = Bar()
    with in_one_line(parser):
        jobs = [
            (family, args.data, args.frames, args.polish, args.trials, args.seed, args.logs)
            for family in args.families
        ]
        found = []
        for job, outcome in side_by_side(tuned, jobs, args.workers):
            found.append(outcome)
            bar("families", len(found), len(jobs), job[0])
        found.sort(key=lambda one: list(FAMILIES).index(one.family))
        freeze(found, args.output)
        for one in found:
            print(f"{FAMILIES[one.family].title:42} {one.error:6.2f} %  {one.settings}")
        print(f"relative force RMSE on validation, the best of {args.trials}: {args.output}")


if __name__ == "__main__":
    main()
