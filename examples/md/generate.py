"""Makes the data of a molecule: geometries by GFN2-xTB dynamics, energies and forces by a level.

    python examples/md/generate.py --molecule h3o              # CCSD, minutes on two cores
    python examples/md/generate.py --molecule ethanol          # GFN2-xTB, two minutes
    python examples/md/generate.py --quick --output /tmp/data  # a few frames by Hartree-Fock

Training, validation, test and far frames are of trajectories each, with seeds of their own; far is
at 1000 K, which nothing is trained on. Of LiH, bond lengths are drawn instead. A file's frames are
in an order such that the first n are a sample of all temperatures. Labelled frames are kept as they
come: a run that was stopped goes on.
Beside them comes <molecule>_reference.json, the level's own geometry and harmonic frequencies.
"""

import argparse
import hashlib
import json
import os
from concurrent.futures import ProcessPoolExecutor
from math import nan
from multiprocessing import get_context
from pathlib import Path

# Molecules this small are slower on several threads; frames are labelled side by side instead.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from command_line import first_seed
from configuration import DATA
from frames import Frames, write
from levels import LEVELS
from molecules import MOLECULES, Molecule
from problems import MDError
from reference import compute_reference, write_reference
from sampling import trajectory
from terminal import Bar, in_one_line

Baths = dict[float, int]
"""Temperature in K -> frames; nan for none."""

STRETCHES, FARTHER = (0.7, 1.7), (0.6, 0.7)
"""Of a diatomic molecule's start: between which its bond lengths are drawn, without any bath; and
those of its far frames. GFN2-xTB has the bond of LiH 0.2 Å shorter than coupled clusters do."""

PLANS: dict[str, dict[str, Baths]] = {
    "lih": {"train": {nan: 50}, "valid": {nan: 20}, "test": {nan: 50}, "far": {nan: 20}},
    "h2o": {
        "train": {300: 150, 600: 150},
        "valid": {300: 40, 600: 40},
        "test": {300: 75, 600: 75},
        "far": {1000: 50},
    },
    "h3o": {
        "train": {300: 400, 600: 400},
        "valid": {300: 100, 600: 100},
        "test": {300: 150, 600: 150},
        "far": {1000: 150},
    },
    "ethanol": {
        "train": {300: 400, 500: 400},
        "valid": {300: 50, 500: 50},
        "test": {300: 100, 500: 100},
        "far": {800: 100},
    },
}
QUICK: Baths = {300: 3}
DEFAULT_LEVEL = {"lih": "ccsd", "h2o": "ccsd", "h3o": "ccsd", "ethanol": "xtb"}
DIGITS = 8
"""Of positions in the files, in Å; labels are of the rounded positions."""


def sampled(
    molecule: Molecule, part: str, baths: Baths, seed: int, bar: Bar
) -> tuple[np.ndarray, np.ndarray]:
    """Positions (N, A, 3) and temperatures (N,) of a part, in the order of the file."""
    positions, temperatures = [], []
    for number, (temperature, count) in enumerate(baths.items()):
        # A stream of random numbers of its own for every part and bath.
        digits = hashlib.sha256(f"{molecule.name} {part} {number} {seed}".encode()).digest()[:4]
        own = int.from_bytes(digits, "big")
        if np.isnan(temperature):
            span = FARTHER if part == "far" else STRETCHES
            positions.append(stretched(molecule, span, count, own))
            temperatures.append(np.full(count, nan))
            continue
        report = lambda done, t=temperature, n=count: bar(f"{part} {t:.0f} K", done, n)  # noqa: E731
        positions.append(trajectory(molecule, temperature, count, own, report))
        temperatures.append(np.full(count, float(temperature)))
    order = np.random.default_rng([seed, 3]).permutation(sum(baths.values()))
    r = np.concatenate(positions)[order]
    return np.round(r, DIGITS), np.concatenate(temperatures)[order]


def stretched(molecule: Molecule, span: tuple[float, float], count: int, seed: int) -> np.ndarray:
    """(count, 2, 3) positions in Å of a diatomic molecule, its lengths drawn evenly of a span."""
    first, second = np.array(molecule.start)
    factors = np.random.default_rng(seed).uniform(*span, count)
    return np.stack(
        [np.broadcast_to(first, (count, 3)), first + np.outer(factors, second - first)], 1
    )


def label(job: tuple[str, str, list[list[float]]]) -> tuple[float, list[list[float]]]:
    """Energy in eV, forces in eV/Å of (level, molecule, positions); in a process of its own."""
    level, molecule, positions = job
    energy, forces = LEVELS[level].label(MOLECULES[molecule], np.array(positions))
    return energy, np.asarray(forces).tolist()


def labelled(
    molecule: Molecule, level: str, positions: np.ndarray, kept: Path, workers: int, bar: Bar
) -> tuple[np.ndarray, np.ndarray]:
    """Energies (N,) and forces (N, A, 3) of positions; those that `kept` holds are not computed.

    `kept` has a line of JSON per frame, the first of which says what they are labels of.

    Raises:
        MDError: `kept` is of other positions or of another level.
        RuntimeError: a frame does not converge.
    """
    told = hashlib.sha256(level.encode() + positions.tobytes()).hexdigest()[:16]
    done = _recall(kept, told)
    with kept.open("a") as file, ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = [(level, molecule.name, r.tolist()) for r in positions[len(done) :]]
        for found in pool.map(label, jobs):
            file.write(json.dumps(found) + "\n")
            file.flush()
            done.append(found)
            bar(level, len(done), len(positions))
    energies, forces = zip(*done, strict=True)
    return np.array(energies), np.array(forces)


def _recall(kept: Path, told: str) -> list[tuple[float, list[list[float]]]]:
    """The labels of a file, which is begun where there is none; half a last line is cut off."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("ab+") as file:  # never written anew: a run may be stopped here, too
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        file.truncate(len(whole))
        if not whole:
            whole = json.dumps(told).encode() + b"\n"
            file.write(whole)
    first, *lines = whole.decode().splitlines()
    if first != json.dumps(told):
        raise MDError(
            f"{kept} holds labels of other geometries or of another level. Delete it to start anew"
        )
    return [tuple(json.loads(line)) for line in lines]


def generate(
    molecule: Molecule,
    level: str,
    plan: dict[str, Baths],
    output: Path,
    seed: int,
    workers: int,
) -> None:
    """Writes the files of a plan; labels are kept until it is done, so that none is made twice."""
    bar, every = Bar(), []
    for part, baths in plan.items():
        path = output / f"{molecule.name}_{part}.xyz"
        positions, temperatures = sampled(molecule, part, baths, seed, bar)
        kept = output / f"{molecule.name}_{part}.labels.jsonl"
        energies, forces = labelled(molecule, level, positions, kept, workers, bar)
        frames = Frames(molecule.symbols, positions, energies, forces, temperatures)
        write(path, frames, level=LEVELS[level].title)
        every.append(kept)
        size = np.sqrt(np.mean(forces**2))
        print(
            f"{path}: {len(frames)} frames, {LEVELS[level].title}, energies vary by "
            f"{1e3 * energies.std():.0f} meV, forces by {size:.2f} eV/Å"
        )
    for kept in every:
        kept.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--molecule", choices=PLANS, default="h3o")
    parser.add_argument("--level", choices=LEVELS, help="(ccsd; of ethanol xtb)")
    parser.add_argument("--output", type=Path, default=DATA, help="folder to write")
    parser.add_argument("--seed", type=first_seed(1), default=0, help="of all trajectories (0)")
    parser.add_argument("--workers", type=int, default=2, help="frames labelled at a time (2)")
    parser.add_argument("--parts", nargs="+", choices=("train", "valid", "test", "far"))
    parser.add_argument("--no-reference", action="store_true", help="without frequencies")
    parser.add_argument("--quick", action="store_true", help="three frames a file, Hartree-Fock")
    args = parser.parse_args()
    if args.workers < 1:
        parser.error(f"--workers must be at least 1, got {args.workers}")
    if args.quick and args.output.resolve() == DATA.resolve():
        parser.error(f"--quick needs an --output other than {DATA}, whose data it would replace")
    molecule = MOLECULES[args.molecule]
    level = args.level or ("hf" if args.quick else DEFAULT_LEVEL[molecule.name])
    plan = {
        part: QUICK if args.quick else baths
        for part, baths in PLANS[molecule.name].items()
        if not args.parts or part in args.parts
    }
    with in_one_line(parser):
        generate(molecule, level, plan, args.output, args.seed, args.workers)
        if not args.no_reference:
            found = compute_reference(molecule, LEVELS[level])
            path = args.output / f"{molecule.name}_reference.json"
            write_reference(path, found)
            words = ", ".join(f"{w:.0f}" for w in found.frequencies)
            print(f"{path}: harmonic frequencies {words} 1/cm")


if __name__ == "__main__":
    main()
