"""Writes one page on what a potential can do, and on what was found when families were compared.

    python examples/md/report.py h3o.json
    python examples/md/report.py h3o.json --comparison comparison.jsonl --output report
    python examples/md/report.py h3o.json --quick              # tiny runs, to see that it works

The potential is a file of train.py, the comparison a file of compare.py, with --curve for the
learning curve and the untuned settings. The folder gets index.html, which needs no other file, and
its pictures as PNG. Every figure on the page is computed from these files and from runs made here;
what cannot be told is left out with a sentence on what to run.
"""

import argparse
from pathlib import Path

import comparison_chapters as of_fits
import numpy as np
import potential_chapters as of_potential
from accuracy import relax
from checks import QUICK, Body, Plan, Report
from command_line import first_seed
from compare import Records
from comparison import MOLECULE
from configuration import DATA, FOLDER
from evidence import headline_frames, read_records
from hypotheses import Targets, targets
from matplotlib import rc_context
from molecules import MOLECULES
from page import Chapter, write
from palette import STYLE
from potential_chapters import Data, data_of
from potentials import Potential, load
from problems import MDError
from terminal import Bar, in_one_line

BACKEND = {"kind": "statevector"}
"""Of everything but shots and noise: checks of the potential need its exact values."""
COMPARISON = FOLDER / "results" / "comparison.jsonl"


def fits(records: Records, aims: Targets) -> list[Chapter]:
    """What the comparison says."""
    frames = headline_frames(records)
    return [
        of_fits.headline(records, frames, aims),
        of_fits.against(records, frames, aims),
        of_fits.learning(records),
        of_fits.definition(records, aims),
        of_fits.tuning(records),
    ]


def dynamics(
    potential: Potential, data: Data, plan: Plan, seed: int, report: Report
) -> list[Chapter]:
    """What molecular dynamics says; where there is no minimum to start at, only that."""
    try:
        minimum = relax(potential.energy_fn(), data.reference.positions)
    except MDError as problem:
        words = f"The potential has no minimum that dynamics could start at: {problem}."
        return [Chapter("Molecular dynamics", (words,))]
    body, cool = Body(potential, np.asarray(minimum)), data.cool
    return [
        of_potential.conservation(body, plan, cool, seed, report),
        of_potential.distributions(body, data, plan, seed, report),
        of_potential.vibrations(body, data, plan, cool, seed, report),
        of_potential.stability(body, data, plan, seed, report),
    ]


def chapters(
    potential: Potential, data: Data, records: Records, plan: Plan, seed: int, report: Report
) -> list[Chapter]:
    """The whole report."""
    headline, against, *others = fits(records, targets())
    ablations = Chapter(
        "Without entanglers, with shots, with noise",
        (
            *of_fits.entanglers(records, headline_frames(records)),
            *of_potential.by_shots(potential, data, plan, seed, report),
        ),
    )
    predictions = of_potential.predictions(potential, data)
    moving = dynamics(potential, data, plan, seed, report)
    return [headline, against, predictions, *others, ablations, *moving]


def introduction(potential: Potential, records: Records, args: argparse.Namespace) -> list[str]:
    """What the page is about."""
    facts, molecule = potential.facts, MOLECULES.get(str(potential.facts.get("molecule")))
    name = molecule.title if molecule else "".join(potential.symbols)
    found = [
        f"The potential {args.potential.name}: {name} by {' + '.join(potential.model.terms)}, "
        f"{facts.get('parameters', potential.model.count())} weights, fitted to "
        f"{facts.get('frames', 'unknown')} frames. Runs here have the seed {args.seed}.",
        "Accuracy is 100 - relative force RMSE (%): the root mean square error of all force "
        "components over their root mean square.",
    ]
    if records:
        found.append(
            f"The comparison of models is on {MOLECULES[MOLECULE].title}, as PROTOCOL.md says; its "
            f"{len(records)} fits are those of {args.comparison.name}."
        )
    if args.quick:
        found.append(
            "This page was made with --quick: its runs are too short for what is said to mean "
            "anything but that the scripts work."
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("potential", type=Path, help="a file of train.py")
    parser.add_argument(
        "--comparison",
        type=Path,
        default=COMPARISON,
        help="a file of compare.py (results/comparison.jsonl beside this script)",
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the trajectories")
    parser.add_argument("--output", type=Path, default=Path("report"), help="folder (report)")
    parser.add_argument("--seed", type=first_seed(100), default=0, help="of all runs (0)")
    parser.add_argument("--quick", action="store_true", help="tiny runs")
    args = parser.parse_args()
    with in_one_line(parser), rc_context(STYLE):
        potential = load(args.potential, BACKEND)
        data, records = data_of(potential, args.data), read_records(args.comparison)
        plan = QUICK if args.quick else Plan()
        bar = Bar()
        found = chapters(potential, data, records, plan, args.seed, bar)
        bar.close()
        title = f"What the potential {args.potential.stem} can do"
        path = write(args.output, title, introduction(potential, records, args), found)
        print(f"report: {path}")


if __name__ == "__main__":
    main()
