"""Runs molecular dynamics with a trained potential, and says whether it can be believed.

    python examples/md/run_md.py h3o.json                              # NVE, 5 ps at 300 K
    python examples/md/run_md.py h3o.json --ensemble langevin --temperature 600 --steps 100000
    python examples/md/run_md.py h3o.json --restart --steps 40000      # goes on to so many steps
    python examples/md/run_md.py h3o.json --integrator ase             # ASE's own, step by step

The folder gets trajectory.xyz, log.csv, run.png and a checkpoint. A run that was stopped, however,
goes on by --restart as if it had not been: the files are the same to the last digit. A folder that
holds a run is not written over without --overwrite. The default integrator is one compiled loop,
some hundred times faster than ASE's, which shares its arguments.

Forces estimated from shots heat: without a bath such a run starts with --accept-noise only.
"""

import argparse
import hashlib
import math
import sys
import time
from pathlib import Path

import ase.io
import numpy as np
from accuracy import relax
from ase import units
from calculator import REPEATS
from command_line import first_seed
from dynamics import (
    Integrator,
    degrees,
    load_state,
    masses_of,
    save_state,
    start_at,
    temperature_of,
    thermal_velocities,
)
from matplotlib.figure import Figure
from molecules import MOLECULES
from observables import angle_degrees, angles, bond_lengths, bonds, conservation
from potentials import Potential, load
from problems import MDError
from run_files import Files, append
from run_pieces import ase_pieces, pieces
from significance import table
from terminal import Bar, in_one_line

ROUNDING = 1e-9
"""eV/Å; smaller standard errors are those of adding up."""


def warn_of_noise(potential: Potential, positions: np.ndarray, args: argparse.Namespace) -> None:
    """Says what forces out of shots do to a run; refuses one without a bath.

    An error of variance s² of the force on an atom, drawn anew at every step, gives it s² dt / 2m
    of kinetic energy per unit of time and direction. The forces of a run are the calculator's:
    means of REPEATS estimates. Noise without shots, of a machine's model, is always the same: its
    forces are those of another energy, which is conserved.

    Raises:
        MDError: there is no bath, and that has not been accepted.
    """
    found = potential.estimates(positions[None], args.seed, REPEATS)
    errors = found.force_errors[0]
    if errors.max() < ROUNDING:
        return
    dt, masses = args.timestep * units.fs, masses_of(potential.symbols)
    heating = float(np.sum(errors**2 / masses[:, None])) * dt / 2  # eV per unit of time
    per_ps = heating * 1e3 * units.fs * 1e3 / len(masses)  # meV/atom/ps
    size, error = (float(np.sqrt(np.mean(part**2))) for part in (found.forces, errors))
    words = (
        f"forces on this backend are means of {REPEATS} estimates, with standard errors of "
        f"{error:.3g} eV/Å (forces here: {size:.3g}); they heat by some {per_ps:.3g} meV/atom/ps"
    )
    print(f"warning: {words}", file=sys.stderr)
    if args.ensemble == "nve" and not args.accept_noise:
        raise MDError(
            f"{words}. Without a bath, energy is not conserved: take --ensemble langevin, more "
            "shots, or --accept-noise"
        )


def report(potential: Potential, files: Files, args: argparse.Namespace) -> None:
    """What people want to know of a run."""
    rows, atoms = files.rows(), len(potential.symbols)
    images = ase.io.read(files.trajectory, index=":", format="extxyz")
    positions = np.array([image.positions for image in images])
    about = [["steps", f"{int(rows[-1, 0])}"], ["time", f"{rows[-1, 1] / 1e3:.3f} ps"],
             ["temperature", f"{rows[:, 5].mean():.0f} ± {rows[:, 5].std():.0f} K"]]  # fmt: skip
    if args.ensemble == "nve" and len(rows) > 2:
        found = conservation(rows[:, 1], rows[:, 4], rows[:, 3], atoms)
        about += [
            ["drift", f"{found.drift:.1e} meV/atom/ps"],
            ["drift / spread of kinetic energy", f"{found.ratio:.1e}"],
            ["fluctuation", f"{found.fluctuation:.4f} meV/atom"],
        ]
    bonded = bonds(potential.symbols, positions[0])
    if bonded:
        lengths = bond_lengths(bonded, positions)
        about.append(["bonds", f"{lengths.mean():.4f} ± {lengths.std():.4f} Å"])
    if bent := angles(bonded):
        degrees_ = angle_degrees(bent, positions)
        about.append(["angles", f"{degrees_.mean():.1f} ± {degrees_.std():.1f}°"])
    outside = rows[:, 6]
    about.append(["frames outside the trained range", f"{(outside > 0).mean():.1%}"])
    about.append(["farthest outside", f"{outside.max():.3f} Å"])
    print(table(["", ""], about))


def speed(marks: list[tuple[float, int]]) -> str:
    """How long a step takes, of times in s and steps made by then; the first piece is compiled."""
    if len(marks) < 2:
        return "no step was left to make"
    (began, _), (compiled, first), *others = marks
    told = f"first piece {compiled - began:.1f} s, with compilation"
    if others:
        seconds, made = others[-1][0] - compiled, others[-1][1] - first
        told = f"{1e6 * seconds / made:.1f} µs per step, files included; {told}"
    return told


def picture(files: Files, title: str) -> Figure:
    """Energies and temperature against time."""
    rows = files.rows()
    time_ps = rows[:, 1] / 1e3
    figure = Figure(figsize=(9, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    total = rows[:, 4] - rows[0, 4]
    top.plot(time_ps, 1e3 * (rows[:, 2] - rows[:, 2].min()), "C0", lw=0.7, label="potential")
    top.plot(time_ps, 1e3 * rows[:, 3], "C1", lw=0.7, label="kinetic")
    top.plot(time_ps, 1e3 * total, "k", lw=1.2, label="total, less its first")
    top.set(ylabel="energy (meV)", title=title)
    top.legend(frameon=False, ncols=3, loc="upper right")
    bottom.plot(time_ps, rows[:, 5], "C3", lw=0.7)
    bottom.set(xlabel="time (ps)", ylabel="temperature (K)")
    return figure


def warmed(
    velocities: np.ndarray, positions: np.ndarray, masses: np.ndarray, temperature: float
) -> np.ndarray:
    """Velocities (A, 3) at a minimum such that a run without a bath has the temperature later on.

    Half of the kinetic energy there is on its way into the springs.
    """
    kinetic = np.sum(masses[:, None] * velocities**2) / 2
    wanted = degrees(positions) * units.kB * temperature
    return velocities * np.sqrt(wanted / kinetic)


def identity(potential: Potential, args: argparse.Namespace) -> str:
    """What decides a run, its length aside: only under that a checkpoint is gone on with."""
    told = hashlib.sha256()
    for leaf in (potential.model.recipe.model_dump_json(), str(potential.model.backend)):
        told.update(leaf.encode())
    told.update(Path(args.potential).read_bytes())
    for name in ("ensemble", "temperature", "friction", "timestep", "seed", "every", "integrator"):
        told.update(f"{name} {getattr(args, name)} ".encode())
    return told.hexdigest()[:16]


def run(potential: Potential, args: argparse.Namespace) -> None:
    """The run that the arguments ask for, begun or gone on with."""
    if args.integrator is None:
        args.integrator = "scan" if potential.exact else "ase"
    if args.integrator == "scan" and not potential.exact:
        raise MDError("forces with error bars are computed by --integrator ase only")
    files, told = Files(args.output), identity(potential, args)
    masses = masses_of(potential.symbols)
    energy = potential.energy_fn()
    bath = None if args.ensemble == "nve" else args.temperature
    integrator = Integrator(energy, masses, args.timestep, bath, args.friction)
    name = str(potential.facts.get("molecule"))
    if name not in MOLECULES:
        raise MDError(
            f"the potential is of {name}, but the molecules known here are "
            f"{', '.join(MOLECULES)}. Write its line in molecules.py"
        )
    start = np.array(MOLECULES[name].start)
    # A bath moves and turns the whole molecule too.
    freedom = degrees(start) if bath is None else start.size
    kept = files.kept()
    if kept and not (args.restart or args.overwrite):
        raise MDError(
            f"{files.folder} holds {kept} frames of a run: --restart goes on with it, --overwrite "
            "replaces it, or take another --output"
        )
    if args.restart:
        state = load_state(files.checkpoint, told)
        made = int(state.step)
        files.truncate(made, made // args.every, len(masses))
    else:
        if not potential.exact:
            warn_of_noise(potential, start, args)
            positions = start
        else:
            positions = relax(energy, start)
        velocities = thermal_velocities(positions, masses, args.temperature, args.seed)
        if bath is None:
            velocities = warmed(velocities, positions, masses, args.temperature)
        if potential.exact:
            state = integrator.start(positions, velocities, args.seed)
        else:
            _, forces = potential.energy_and_forces(positions[None])
            state = start_at(positions, velocities, forces[0], args.seed)
        files.begin()
        save_state(files.checkpoint, state, told)
    bar, marks = Bar(), [(time.perf_counter(), int(state.step))]
    if args.integrator == "ase":
        through = ase_pieces(potential, integrator, state, args.steps, args.every)
    else:
        through = pieces(integrator, state, args.steps, args.every)
    try:
        for state, record in through:
            append(files, potential, record, args.timestep, freedom)
            save_state(files.checkpoint, state, told)
            kelvin = temperature_of(np.asarray(record.kinetic), freedom).mean()
            bar("steps", int(state.step), args.steps, f"{kelvin:.0f} K")
            marks.append((time.perf_counter(), int(state.step)))
    finally:
        bar.close()
    report(potential, files, args)
    print(speed(marks))
    terms = " + ".join(potential.model.terms)
    picture(files, f"{potential.facts.get('molecule')}: {terms}").savefig(files.picture, dpi=150)
    print(f"trajectory, log, picture: {files.folder}/")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("potential", type=Path, help="a file of train.py")
    parser.add_argument("--ensemble", choices=("nve", "langevin"), default="nve")
    parser.add_argument("--temperature", type=float, default=300, help="K (300)")
    parser.add_argument("--friction", type=float, default=0.01, help="of the bath, 1/fs (0.01)")
    parser.add_argument("--timestep", type=float, default=0.5, help="fs (0.5)")
    parser.add_argument("--steps", type=int, default=10000, help="in all (10000)")
    parser.add_argument("--every", type=int, default=10, help="steps between kept frames (10)")
    parser.add_argument("--seed", type=first_seed(1), default=0, help="of velocities and bath (0)")
    parser.add_argument("--integrator", choices=("scan", "ase"), help="(scan, if exact)")
    parser.add_argument("--backend", help="a name in qml.toml or a kind of engine")
    parser.add_argument("--output", type=Path, default=Path("md"), help="folder (md)")
    parser.add_argument("--restart", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--overwrite", action="store_true", help="replace what --output holds")
    parser.add_argument("--accept-noise", action="store_true", help="NVE in spite of shots")
    parser.add_argument("--quick", action="store_true", help="40 steps")
    args = parser.parse_args()
    if args.quick:
        args.steps, args.every = 40, 2
    for name in ("temperature", "timestep", "friction", "steps", "every"):
        if not 0 < getattr(args, name) < math.inf:
            parser.error(f"--{name} must be finite and above 0, got {getattr(args, name)}")
    if args.steps % args.every:
        parser.error(f"--steps {args.steps} is no multiple of --every {args.every}")
    if args.output.exists() and not args.output.is_dir():
        parser.error(f"--output {args.output} is no folder")
    with in_one_line(parser):
        run(load(args.potential, args.backend), args)


if __name__ == "__main__":
    main()
