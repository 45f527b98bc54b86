"""The files of a run of molecular dynamics: trajectory, log, checkpoint, picture.

They grow by pieces of a run, and are cut back to what a checkpoint knows: so a run that was killed
goes on to the same bytes.
"""

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import ase.io
import jax
import numpy as np
from ase import Atoms
from dynamics import Record, temperature_of
from potentials import Potential
from problems import MDError

BROKEN = 3.0
"""Å beyond the trained range at which a molecule has come apart."""
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

    def kept(self) -> int:
        """How many frames there are of a run, this one or another."""
        try:
            return max(0, self.log.read_bytes().count(b"\n") - 1)
        except FileNotFoundError:
            return 0

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


def append(
    files: Files, potential: Potential, record: Record, timestep: float, freedom: int
) -> None:
    """Adds what was kept to trajectory and log; temperatures are of so many degrees of freedom.

    Raises:
        MDError: the molecule has come apart, or the energy is not finite; what came before is
            added.
    """
    record = jax.tree.map(np.asarray, record)  # by element, arrays of JAX are slow
    kelvin, totals = temperature_of(record.kinetic, freedom), record.total
    images: list[Atoms] = []
    rows: list[list[float]] = []
    broken = None
    for k, step in enumerate(record.step):
        positions, total = record.positions[k], float(totals[k])
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
        image.set_velocities(record.velocities[k])
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
