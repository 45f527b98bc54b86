"""Runs molecular dynamics with a trained potential, and says whether it can be believed.

    python examples/md/run_md.py h3o.json                              # NVE, 5 ps at 300 K
    python examples/md/run_md.py h3o.json --ensemble langevin --temperature 600 --steps 100000
    python examples/md/run_md.py h3o.json --restart --steps 40000      # goes on to so many steps
    python examples/md/run_md.py h3o.json --integrator ase             # ASE's own, step by step

The folder gets trajectory.xyz, log.csv, run.png and a checkpoint. A run that was stopped, however,
goes on by --restart as if it had not been: the files are the same to the last digit. The default
integrator is one compiled loop, some hundred times faster than ASE's, which shares its arguments.

Forces estimated from shots heat: without a bath such a run starts with --accept-noise only.
"""

import argparse
import csv
import hashlib
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ase.io
import numpy as np
from accuracy import relax
from ase import Atoms, units
from ase.md.md import MolecularDynamics
from calculator import REPEATS, HybridCalculator
from command_line import first_seed
from dynamics import (
    Integrator,
    Record,
    State,
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
from significance import table
from terminal import Bar, in_one_line

CHUNK = 50
"""Kept frames between checkpoints."""
BROKEN = 3.0
"""Å beyond the trained range at which a molecule has come apart."""
ROUNDING = 1e-9
"""eV/Å; smaller standard errors are those of adding up."""
COLUMNS = "step", "time_fs", "potential_ev", "kinetic_ev", "total_ev", "temperature_k", "outside_a"


@dataclass(frozen=True)
class Files:
    """The files of a run in its folder."""

    folder: Path

    @property
    def trajectory(self) -> Path:
        return self.folder / "trajectory.xyz"

    @property
    def log(self) -> Path:
        return self.folder / "log.csv"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.npz"

    @property
    def picture(self) -> Path:
        return self.folder / "run.png"

    def begin(self) -> None:
        """Empty files, with the log's head, and no checkpoint, which would be of another run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.checkpoint.unlink(missing_ok=True)
        self.trajectory.write_text("")
        self.log.write_text(",".join(COLUMNS) + "\n")

    def truncate(self, step: int, frames: int, atoms: int) -> None:
        """Takes off what came after a step: a killed run may have written past its checkpoint.

        Files are cut in place, so that another kill finds all that is to be kept.

        Raises:
            MDError: they hold fewer frames than were kept by that step.
        """
        _cut(self.log, 1 + frames, frames, step)
        _cut(self.trajectory, frames * (atoms + 2), frames, step)

    def rows(self) -> np.ndarray:
        """(T, 7) the log."""
        with self.log.open() as file:
            found = list(csv.reader(file))[1:]
        return np.array(found, float).reshape(-1, len(COLUMNS))


def _cut(path: Path, lines: int, frames: int, step: int) -> None:
    """Cuts a file after so many lines."""
    try:
        content = path.read_bytes().splitlines(keepends=True)[:lines]
    except OSError as error:
        raise MDError(f"{path} cannot be read: {error}. Run again without --restart") from error
    if len(content) < lines or (content and not content[-1].endswith(b"\n")):
        raise MDError(
            f"{path} lacks some of the {frames} frames that the checkpoint has at step {step}. "
            "Put the file back, or run again without --restart"
        )
    os.truncate(path, sum(map(len, content)))


def apart(step: int, found: str) -> MDError:
    """The error of a run that cannot go on."""
    return MDError(
        f"after {step} steps {found}: the molecule has come apart. What came before and a "
        "checkpoint are kept. Take a shorter timestep or a lower temperature, or train on frames "
        "of such geometries"
    )


def pieces(
    integrator: Integrator, state: State, steps: int, every: int
) -> Iterator[tuple[State, Record]]:
    """The run from a state to a number of steps, in pieces, by the compiled loop."""
    while (left := (steps - int(state.step)) // every) > 0:
        state, record = integrator.run(state, min(CHUNK, left) * every, every)
        yield state, record


def ase_pieces(
    potential: Potential, integrator: Integrator, state: State, steps: int, every: int
) -> Iterator[tuple[State, Record]]:
    """The same by ASE, step by step; random numbers are those of the state's key and step.

    Raises:
        MDError: the calculator refuses where the molecule went.
    """
    atoms = Atoms(potential.symbols, positions=np.asarray(state.positions))
    atoms.set_masses(integrator.masses)
    atoms.set_velocities(np.asarray(state.velocities))
    atoms.calc = HybridCalculator(potential, seed=int(np.asarray(state.key)[-1]))
    atoms.calc.evaluations = int(state.step)
    dynamics = _ase_dynamics(atoms, integrator, state)
    while (left := (steps - int(state.step)) // every) > 0:
        kept = []
        for _ in range(min(CHUNK, left)):
            for _ in range(every):
                number = int(state.step)
                if integrator.temperature is not None:
                    dynamics.rng = _ase_rng(state, number)
                try:
                    dynamics.step()
                except MDError as error:
                    raise apart(number + 1, f"the calculator says: {error}") from error
                state = _ase_state(atoms, state, number + 1)
            # As a restart does: ASE keeps momenta, whose rounding must be the same in both.
            atoms.set_velocities(state.velocities)
            kept.append((
                state.positions, state.velocities, atoms.get_potential_energy(),
                atoms.get_kinetic_energy(), state.step,
            ))  # fmt: skip
        yield state, Record(*(np.array(part) for part in zip(*kept, strict=True)))


def _ase_dynamics(atoms: Atoms, integrator: Integrator, state: State) -> MolecularDynamics:
    from ase.md.langevin import Langevin
    from ase.md.verlet import VelocityVerlet

    if integrator.temperature is None:
        return VelocityVerlet(atoms, integrator.timestep * units.fs)
    return Langevin(
        atoms,
        integrator.timestep * units.fs,
        temperature_K=integrator.temperature,
        friction=integrator.friction / units.fs,
        fixcm=False,
        rng=_ase_rng(state, 0),
    )


def _ase_rng(state: State, step: int) -> np.random.RandomState:
    """Of a step: so that a run goes on with the numbers that it would have drawn."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(
        [*map(int, np.asarray(state.key)), step]
    )))  # fmt: skip


def _ase_state(atoms: Atoms, before: State, step: int) -> State:
    return State(
        atoms.positions.copy(), atoms.get_velocities(), atoms.get_forces(), np.asarray(step),
        before.key,
    )  # fmt: skip


def append(
    files: Files, potential: Potential, record: Record, timestep: float, freedom: int
) -> None:
    """Adds what was kept to trajectory and log; temperatures are of so many degrees of freedom.

    Raises:
        MDError: the molecule has come apart, or the energy is not finite; what came before is
            added.
    """
    kelvin = temperature_of(np.asarray(record.kinetic), freedom)
    images: list[Atoms] = []
    rows: list[list[float]] = []
    broken = None
    for k, step in enumerate(np.asarray(record.step)):
        positions, total = np.asarray(record.positions[k]), float(record.total[k])
        outside = potential.spread.excess(positions)
        # Not the other way round: distances that are no numbers are no excess.
        if not (np.isfinite(total) and outside <= BROKEN):
            broken = apart(
                int(step),
                f"the energy is {total:.3f} eV, and a distance {outside:.2f} Å outside of what "
                "was trained on",
            )
            break
        image = Atoms(potential.symbols, positions=positions)
        image.set_velocities(np.asarray(record.velocities[k]))
        image.info = {"time_fs": float(step) * timestep, "energy_ev": float(record.potential[k])}
        images.append(image)
        rows.append([
            int(step), float(step) * timestep, float(record.potential[k]),
            float(record.kinetic[k]), total, float(kelvin[k]), outside,
        ])  # fmt: skip
    if images:
        ase.io.write(files.trajectory, images, format="extxyz", append=True)
    with files.log.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    if broken:
        raise broken


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
