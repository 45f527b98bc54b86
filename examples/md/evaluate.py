"""How good a potential is: errors by trajectory and temperature, frequencies, and a parity plot.

    python examples/md/evaluate.py h3o.json                    # on its molecule's test trajectories
    python examples/md/evaluate.py h3o.json --frames mine.xyz --energy-key energy
    python examples/md/evaluate.py h3o.json --backend aer      # do other simulators agree?

Frames are extxyz with REF_energy in eV and REF_forces in eV/Å, or keys of your own. Trajectories
that are far from the training, and frequencies, are told of where the data have them. On a backend
with shots, energies and forces are means of several draws, with the forces' standard error, and
there are no frequencies, which need exact values.
"""

import argparse
from pathlib import Path

import numpy as np
from accuracy import errors, frequencies, relax
from calculator import REPEATS
from command_line import picture
from configuration import DATA
from frames import Frames, read
from matplotlib.figure import Figure
from molecules import MOLECULES
from potentials import Estimates, Potential, load
from problems import MDError
from reference import read_reference
from significance import table
from terminal import in_one_line

QUICK = 10


def parts(potential: Potential, args: argparse.Namespace) -> dict[str, Frames]:
    """Title -> frames that errors are told of.

    Raises:
        MDError: there are none, or they are of other atoms.
    """
    if args.frames:
        names = [path.name for path in args.frames]
        given = {
            path.name if names.count(path.name) == 1 else str(path): read(
                path, energy_key=args.energy_key, forces_key=args.forces_key
            )
            for path in args.frames
        }
    else:
        name = str(potential.facts.get("molecule"))
        files = {part: args.data / f"{name}_{part}.xyz" for part in ("test", "far")}
        given = {
            part: read(path) for part, path in files.items() if part == "test" or path.exists()
        }
    found = {}
    for title, frames in given.items():
        if frames.symbols != potential.symbols:
            raise MDError(
                f"{title} holds {''.join(frames.symbols)}, but the potential is for "
                f"{''.join(potential.symbols)}, in this order. Give frames of that molecule"
            )
        found[title] = frames[:QUICK] if args.quick else frames
    return found


def by_temperature(title: str, frames: Frames) -> dict[str, Frames]:
    """The frames as a whole, and by the temperature of their bath where there are several."""
    baths = np.unique(frames.temperatures[np.isfinite(frames.temperatures)])
    each = {f"{title}, {t:.0f} K": frames[frames.temperatures == t] for t in baths}
    return {title: frames} | (each if len(baths) > 1 else {})


def predicted(potential: Potential, frames: Frames) -> Estimates:
    """What the potential says of frames; on a backend with shots, out of REPEATS draws."""
    if not potential.exact:
        return potential.estimates(frames.positions, 0, REPEATS)
    energies, forces = potential.energy_and_forces(frames.positions)
    return Estimates(energies, forces, np.zeros_like(energies), np.zeros_like(forces))


def errors_table(potential: Potential, given: dict[str, Frames]) -> str:
    """A line for every set of frames; on a backend with shots, with the forces' standard error."""
    head = ["frames", "", "E MAE meV", "E RMSE", "F MAE meV/Å", "F RMSE", "F max", "accuracy %",
            "R²(F)"] + ["F std error"] * (not potential.exact)  # fmt: skip
    rows = []
    for title, frames in given.items():
        for name, some in by_temperature(title, frames).items():
            found = predicted(potential, some)
            e = errors(found.energies, found.forces, some)
            row = [
                name, str(len(some)), f"{e.energy_mae:.2f}", f"{e.energy_rmse:.2f}",
                f"{e.force_mae:.1f}", f"{e.force_rmse:.1f}", f"{e.force_max:.1f}",
                f"{e.accuracy:.2f}", f"{e.force_r2:.5f}",
            ]  # fmt: skip
            if not potential.exact:
                row.append(f"{1e3 * np.sqrt(np.mean(found.force_errors**2)):.1f}")
            rows.append(row)
    return table(head, rows)


def frequencies_table(potential: Potential, data: Path) -> str:
    """Harmonic frequencies at the potential's own minimum, beside those of the reference.

    Where they cannot be compared, the reason.
    """
    path = data / f"{potential.facts.get('molecule')}_reference.json"
    if not potential.exact:
        return "no frequencies: they need exact values, and this backend has shots or noise"
    if not path.exists():
        return f"no frequencies: there is no {path}, which generate.py makes"
    truth = read_reference(path)
    energy = potential.energy_fn()
    found = frequencies(energy, relax(energy, truth.positions), truth.masses)
    rows = [["reference", *(f"{w:.1f}" for w in truth.frequencies)]]
    rows += [["potential", *(f"{w:.1f}" for w in found)]]
    mae = np.abs(found - truth.frequencies).mean()
    head = ["1/cm", *(str(k + 1) for k in range(len(found)))]
    return f"{table(head, rows)}\nmean absolute error {mae:.1f} 1/cm"


def extrapolation(potential: Potential, frames: Frames) -> str:
    """How many of the frames lie outside of what was trained on, and how far."""
    excess = np.array([potential.spread.excess(r) for r in frames.positions])
    outside = excess > 0
    if not outside.any():
        return f"all {len(frames)} frames lie within the distances trained on"
    return (
        f"{outside.sum()} of {len(frames)} frames lie outside of the distances trained on, "
        f"by up to {excess.max():.3f} Å"
    )


def parity(potential: Potential, given: dict[str, Frames]) -> Figure:
    """Predicted against reference energies and forces, by temperature, and their errors below."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2, sharex="col", height_ratios=(3, 1))
    some = {}
    for title, frames in given.items():
        parts = by_temperature(title, frames)
        some |= {name: part for name, part in parts.items() if name != title or len(parts) == 1}
    for k, (name, frames) in enumerate(some.items()):
        told = predicted(potential, frames)
        energies, forces = told.energies, told.forces
        origin = potential.model.scaling.shift
        pairs = ((frames.energies - origin, energies - origin), (frames.forces, forces))
        for column, (truth, found) in enumerate(pairs):
            top, bottom = axes[:, column]
            top.plot(truth.ravel(), found.ravel(), f"C{k}.", ms=3, label=name)
            bottom.plot(truth.ravel(), 1e3 * (found - truth).ravel(), f"C{k}.", ms=2)
    for column, (quantity, unit) in enumerate((("energy", "eV"), ("force", "eV/Å"))):
        top, bottom = axes[:, column]
        top.axline((0, 0), slope=1, color="0.7", zorder=0)
        top.set(ylabel=f"potential: {quantity} ({unit})")
        bottom.axhline(0, color="0.7", zorder=0)
        bottom.set(xlabel=f"reference: {quantity} ({unit})", ylabel=f"error (m{unit})")
    axes[0, 0].legend(frameon=False, markerscale=3)
    molecule = MOLECULES.get(str(potential.facts.get("molecule")))
    terms = " + ".join(potential.model.terms)
    figure.suptitle(f"{molecule.title if molecule else ''}: {terms}")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("potential", type=Path, help="a file of train.py")
    parser.add_argument("--frames", type=Path, nargs="+", help="extxyz (the test trajectories)")
    parser.add_argument("--energy-key", default="REF_energy", help="of energies, in eV")
    parser.add_argument("--forces-key", default="REF_forces", help="of forces, in eV/Å")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the trajectories")
    parser.add_argument("--backend", help="a name in qml.toml or a kind of engine")
    parser.add_argument("--plot", type=picture, default=Path("parity.png"), help="(parity.png)")
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK} frames")
    args = parser.parse_args()
    with in_one_line(parser):
        potential = load(args.potential, args.backend)
        given = parts(potential, args)
        print(errors_table(potential, given))
        for title, frames in given.items():
            print(f"{title}: {extrapolation(potential, frames)}")
        if not args.frames:
            print()
            print(frequencies_table(potential, args.data))
        parity(potential, given).savefig(args.plot, dpi=150)
        print(f"plot: {args.plot}")


if __name__ == "__main__":
    main()
