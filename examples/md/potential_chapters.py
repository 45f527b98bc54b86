"""What one trained potential does, in chapters of the report."""

from dataclasses import dataclass
from pathlib import Path

import checks
import comparison_figures
import dynamics_figures as figures
import numpy as np
import shots
from accuracy import errors, frequencies
from checks import Body, Plan, Report
from evaluate import by_temperature, extrapolation, parity
from frames import Frames, read
from observables import angle_degrees, angles, bond_lengths
from page import Chapter, Picture, Table, drawn
from potentials import Potential
from problems import MDError
from reference import Reference, read_reference
from scipy.ndimage import gaussian_filter1d
from scipy.signal import find_peaks
from words import about, counted, listed, sentence

Parts = list[str | Table | Picture]

SMOOTH = 8.0
"""1/cm, the width over which a spectrum is averaged."""
PEAK = 0.03
"""Of the highest, how far a peak of the spectrum stands out."""
COOL, HOT = 300.0, 1000.0
"""K of runs where the data, as those of a bond drawn at several lengths, are of no bath."""


@dataclass(frozen=True)
class Data:
    """What a potential is held against.

    Attributes:
        pool: training and validation frames, in this order.
        test, far: frames.
        reference: the level's own geometry and frequencies.
    """

    pool: tuple[Frames, ...]
    test: Frames
    far: Frames
    reference: Reference

    @property
    def warm(self) -> list[float]:
        """K, the baths of the test trajectories."""
        return _baths(self.test)

    @property
    def cool(self) -> float:
        """K, the coolest of them, or COOL where the frames are of no bath."""
        return min(self.warm, default=COOL)

    @property
    def hot(self) -> float:
        """K, the hottest bath of the far frames, or HOT where they are of none."""
        return max(_baths(self.far), default=HOT)

    def at(self, temperature: float) -> np.ndarray:
        """(N, A, 3) positions of all frames of a bath."""
        every = (*self.pool, self.test)
        return np.concatenate([f.positions[f.temperatures == temperature] for f in every])

    @property
    def sets(self) -> dict[str, Frames]:
        """Title -> frames that errors are told of."""
        far = f"far, {self.hot:.0f} K" if _baths(self.far) else "far"
        return {"test": self.test, far: self.far}


def _baths(frames: Frames) -> list[float]:
    known = frames.temperatures[np.isfinite(frames.temperatures)]
    return sorted(set(known.tolist()))


def data_of(potential: Potential, folder: Path) -> Data:
    """The data of the potential's molecule.

    Raises:
        MDError: they are not there, or of other atoms.
    """
    name = potential.facts.get("molecule")
    parts = [read(folder / f"{name}_{part}.xyz") for part in ("train", "valid", "test", "far")]
    for frames in parts:
        if frames.symbols != potential.symbols:
            raise MDError(
                f"the data of {name} in {folder} hold {''.join(frames.symbols)}, but the potential "
                f"is for {''.join(potential.symbols)}. Give the folder of its data: --data"
            )
    *pool, test, far = parts
    return Data(tuple(pool), test, far, read_reference(folder / f"{name}_reference.json"))


def predictions(potential: Potential, data: Data) -> Chapter:
    """Energies and forces against the reference's."""
    rows, said, outside = [], [], []
    for title, frames in data.sets.items():
        for name, some in by_temperature(title, frames).items():
            e = errors(*potential.energy_and_forces(some.positions), some)
            rows.append((
                name, str(len(some)), f"{e.energy_mae:.2f}", f"{e.energy_rmse:.2f}",
                f"{e.force_mae:.1f}", f"{e.force_rmse:.1f}", f"{e.force_max:.1f}",
                f"{e.accuracy:.2f}", f"{e.force_r2:.5f}",
            ))  # fmt: skip
            said.append(f"{e.accuracy:.2f} % ({name})")
        outside.append(sentence(f"{title}: {extrapolation(potential, frames)}."))
    header = (
        "frames", "number", "energy MAE (meV)", "energy RMSE (meV)", "force MAE (meV/Å)",
        "force RMSE (meV/Å)", "largest (meV/Å)", "accuracy (%)", "R² of forces",
    )  # fmt: skip
    words = f"The accuracy of the potential is {listed(said)}."
    picture = drawn(
        "parity", parity(potential, data.sets),
        f"Energies and forces of the potential against those of {data.reference.level}. {words}",
        f"Above: the potential against {data.reference.level}; on the grey line they agree. "
        "Below: the differences.",
    )  # fmt: skip
    caption = "Errors by the temperature of the bath that the frames are from."
    table = Table(caption, header, tuple(rows))
    return Chapter("Energies and forces", (words, " ".join(outside), picture, table))


def by_shots(potential: Potential, data: Data, plan: Plan, seed: int, report: Report) -> Parts:
    """What shots and noise do to its forces."""
    if not potential.model.quantum:
        terms = " + ".join(potential.model.terms)
        return [f"This potential ({terms}) has no circuit: neither shots nor noise concern it."]
    few = data.test[: plan.frames].positions
    found = shots.estimated(potential, few, plan, seed, report)
    own = errors(*potential.energy_and_forces(data.test.positions), data.test).force_rmse
    report("noise", 0, 1, shots.MACHINE)
    noise = shots.with_noise(potential, data.test[: plan.noisy].positions)
    report("noise", 1, 1, shots.MACHINE)
    size = 1e3 * float(np.sqrt(np.mean(data.test.forces**2)))
    needed = found.needed(own)
    there = (
        f"comes down to it at some {about(needed)} shots"
        if needed > found.shots[0]
        else "is below it at all of these"
    )
    said = [
        f"With {about(found.shots[0])} shots of each expectation value the forces of "
        f"{counted(plan.frames, 'frame')} are off by {found.errors[0]:.3g} meV/Å, with "
        f"{about(found.shots[-1])} by {found.errors[-1]:.3g} meV/Å: as shots to the power "
        f"{found.slope:.2f}, where independent shots make it -0.5. The potential's own error on "
        f"the test trajectories is {own:.3g} meV/Å; the error by shots {there}.",
        f"The noise of {shots.MACHINE}, without shots and without any mitigation, changes forces "
        f"by {noise:.3g} meV/Å, that is {100 * noise / size:.2g} % of their root mean square of "
        f"{size:.0f} meV/Å.",
    ]
    levels = {
        "the potential's own error": own,
        f"noise of {shots.MACHINE}": noise,
        "root mean square of forces": size,
    }
    picture = drawn(
        "shots", comparison_figures.shots(found, levels),
        f"Force errors against the number of shots, both axes logarithmic. {said[0]}",
        "Errors against exact values of the same potential; the grey line falls as one over the "
        "square root of the shots.",
    )  # fmt: skip
    rows = [(f"{about(n)} shots", f"{error:.3g}", f"{100 * error / size:.2g}")
            for n, error in zip(found.shots, found.errors, strict=True)]  # fmt: skip
    rows.append((f"noise of {shots.MACHINE}", f"{noise:.3g}", f"{100 * noise / size:.2g}"))
    header = ("", "force error (meV/Å)", "of the forces (%)")
    caption = "Root mean square errors of forces, against exact values of the same potential."
    return [*said, picture, Table(caption, header, tuple(rows))]


def conservation(body: Body, plan: Plan, temperature: float, seed: int, report: Report) -> Chapter:
    """Energy without a bath."""
    runs = checks.conserved(body, plan, temperature, seed, report)
    most = max(runs, key=lambda one: abs(one.drifts.mean()))
    said = (
        f"Without a bath, at about {temperature:.0f} K, the mean drift of the total energy of "
        f"{counted(plan.starts, 'run')} is {most.drifts.mean():+.1e} meV/atom/ps where it is "
        f"largest (timestep {most.timestep:g} fs). The energy fluctuates as the timestep to the "
        f"power {checks.order(runs):.2f}; velocity Verlet on a smooth energy surface makes it 2, "
        "for short timesteps. A step of one run takes "
        f"{checks.pace(body, temperature, seed):.0f} µs on this machine."
    )
    rows = tuple(
        (
            f"{one.timestep:g} fs",
            f"{one.times[-1] / 1e3:g}",
            f"{one.drifts.mean():+.1e}",
            f"{one.drifts.min():+.1e} to {one.drifts.max():+.1e}",
            f"{one.ratio:.1e}",
            f"{one.fluctuation:.4f}",
        )
        for one in runs
    )
    header = (
        "timestep", "length (ps)", "mean drift (meV/atom/ps)", "range of the runs",
        "drift / spread of kinetic energy", "fluctuation (meV/atom)",
    )  # fmt: skip
    picture = drawn(
        "conservation", figures.conservation(runs),
        f"Total energy against time, and its fluctuation against the timestep. {said}",
        "Above, one start at all timesteps. Below, all starts, and a dashed line of power two.",
    )  # fmt: skip
    caption = "Drift is the slope of a straight line, fluctuation the deviation from it."
    return Chapter("Conservation of energy", (said, picture, Table(caption, header, rows)))


BOND, ANGLE = "bond length (Å)", "angle (degrees)"
DIGITS = {BOND: 4, ANGLE: 2}


def shapes(body: Body, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Bond lengths in Å and angles in degrees of frames (T, A, 3); no angles where none are."""
    found = {BOND: bond_lengths(body.bonds, positions).ravel()}
    if bent := angles(body.bonds):
        found[ANGLE] = angle_degrees(bent, positions).ravel()
    return found


def distributions(body: Body, data: Data, plan: Plan, seed: int, report: Report) -> Chapter:
    """Bonds and angles at the temperatures of the test trajectories."""
    name = "Bonds and angles"
    if not body.bonds:
        return Chapter(name, ("No two atoms of this molecule are bound at its minimum.",))
    if not data.warm:
        words = "The test frames are of no bath: they have no distribution at a temperature."
        return Chapter(name, (words,))
    found: dict[float, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    rows, gaps = [], dict[str, list[str]]()
    for temperature in data.warm:
        ours = shapes(body, checks.sampled(body, plan, temperature, seed, report))
        theirs = shapes(body, data.at(temperature))
        found[temperature] = {key: (ours[key], theirs[key]) for key in ours}
        for key, both in found[temperature].items():
            digits, means = DIGITS[key], [some.mean() for some in both]
            spread = [f"{some.mean():.{digits}f} ± {some.std():.{digits}f}" for some in both]
            rows.append((f"{key}, {temperature:.0f} K", *spread))
            gaps.setdefault(key, []).append(f"{means[0] - means[1]:+.{digits}f}")
    words = [f"{key} {listed(some)}" for key, some in gaps.items()]
    said = (
        f"At {listed(f'{t:.0f} K' for t in data.warm)} the means of the dynamics less those of "
        f"the reference frames are: {'; '.join(words)}. The frames of generate.py were labelled by "
        f"{data.reference.level}, but sampled by GFN2-xTB: distributions need not agree exactly."
    )
    picture = drawn(
        "distributions", figures.distributions(found),
        f"Distributions of bond lengths and angles. {said}",
        "Line: dynamics of the potential at a bath. Filled: frames of the data at the same bath.",
    )  # fmt: skip
    header = ("mean ± standard deviation", "dynamics", "reference frames")
    caption = f"Over {counted(len(body.bonds), 'bond')} of every frame."
    return Chapter(name, (said, picture, Table(caption, header, tuple(rows))))


def peaks(wavenumbers: np.ndarray, density: np.ndarray) -> np.ndarray:
    """1/cm, where the spectrum has its peaks."""
    at, _ = find_peaks(density, prominence=PEAK * density.max())
    found: np.ndarray = wavenumbers[at]
    return found


def vibrations(
    body: Body, data: Data, plan: Plan, temperature: float, seed: int, report: Report
) -> Chapter:
    """The spectrum, and harmonic frequencies."""
    truth = data.reference
    ours = frequencies(body.potential.energy_fn(), body.minimum, truth.masses)
    off = ours - truth.frequencies
    wavenumbers, density = checks.vibrating(body, plan, temperature, seed, report)
    density = gaussian_filter1d(density, max(SMOOTH / wavenumbers[1], 0.5))
    high = [f"{w:.0f}" for w in peaks(wavenumbers, density) if w < 2 * truth.frequencies.max()]
    said = (
        f"The harmonic frequencies at the potential's own minimum differ from those of "
        f"{truth.level} by {np.abs(off).mean():.1f} 1/cm in the mean and {np.abs(off).max():.1f} "
        f"1/cm at most. At {temperature:.0f} K the spectrum has its peaks at "
        f"{listed(high) if high else 'no place that stands out'}"
        f"{' 1/cm' if high else ''}: anharmonicity shifts them from the lines."
    )
    rows = tuple(
        (str(k + 1), f"{a:.1f}", f"{b:.1f}", f"{a - b:+.1f}")
        for k, (a, b) in enumerate(zip(ours, truth.frequencies, strict=True))
    )
    picture = drawn(
        "vibrations", figures.vibrations(wavenumbers, density, truth.frequencies, temperature),
        f"The vibrational spectrum with harmonic frequencies as lines. {said}",
        "The Fourier transform of the velocities' autocorrelation, weighted by mass, over "
        f"{counted(plan.spectra, 'run')} without a bath.",
    )  # fmt: skip
    header = ("mode", "potential (1/cm)", f"{truth.level} (1/cm)", "difference (1/cm)")
    return Chapter("Vibrations", (said, picture, Table("Harmonic frequencies.", header, rows)))


def stability(body: Body, data: Data, plan: Plan, seed: int, report: Report) -> Chapter:
    """Runs hotter than anything trained on."""
    name = f"Stability at {data.hot:.0f} K"
    if not body.bonds:
        return Chapter(name, ("No two atoms of this molecule are bound at its minimum.",))
    found = checks.stability(body, plan, data.hot, seed, report)
    kept = round(found.kept[-1] * plan.stable)
    said = (
        f"{kept} of {counted(plan.stable, 'run')} of {found.times[-1] / 1e3:g} ps at "
        f"{data.hot:.0f} K keep every bond within the trained range and {checks.MARGIN:g} Å around "
        f"it; in the worst of them {_size(found.worst.max())}. The training frames are of "
        f"{listed([f'{t:.0f} K' for t in _baths(data.pool[0])] or ['no bath'])}."
    )
    picture = drawn(
        "stability", figures.stability(found),
        f"How far the worst bond of each run is beyond the trained range, against time. {said}",
        "A line for every run: its worst bond so far. Above the dotted line it counts as broken.",
    )  # fmt: skip
    return Chapter(name, (said, picture))


def _size(outside: float) -> str:
    if outside <= 0:
        return f"the edge of the range is {-outside:.2f} Å away"
    if np.isfinite(outside):
        return f"a bond is {outside:.2f} Å beyond the range"
    return "positions are no numbers any more"
