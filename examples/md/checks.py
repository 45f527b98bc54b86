"""What a potential does in molecular dynamics: runs, and what is measured on them.

Runs start at the potential's own minimum with thermal velocities. Several runs of a kind are one
compiled loop over all of them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from descriptors import all_distances
from dynamics import Integrator, Record, State, masses_of, start_at, thermal_velocities
from observables import Conservation, bonds, conservation, spectrum
from potentials import Potential
from symmetry import pairs

Report = Callable[[str, int, int, str], None]
"""Called with what is run, what is done, what there is to do, and a few words."""

MARGIN = 0.5
"""Å by which a bond may leave the trained range before a run counts as broken."""
KEPT = 1.0
"""fs between kept frames of the runs without a bath."""
SPARSE = 5.0
"""fs between kept frames of the others."""
TIMESTEP = 0.5
"""fs, where nothing else is said."""
PIECES = 20
"""In which a run is made, so that progress is shown."""


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        timesteps: fs, of the runs without a bath that are compared.
        starts, conserved: runs of each timestep, and fs of each.
        sampled: fs, the length of the run at each temperature, after a tenth more to forget.
        spectra, spectrum: runs without a bath, and fs of each.
        stable, stability: runs at the high temperature, and fs of each.
        draws, frames: estimates out of shots on so many frames.
        shots: of these.
        noisy: frames on the noisy machine.
    """

    timesteps: tuple[float, ...] = (0.25, 0.5, 1.0)
    starts: int = 6
    conserved: float = 10_000
    sampled: float = 40_000
    spectra: int = 8
    spectrum: float = 16_000
    stable: int = 20
    stability: float = 10_000
    draws: int = 4
    frames: int = 4
    shots: tuple[int, ...] = (100, 300, 1000, 3000, 10_000)
    noisy: int = 4


QUICK = Plan(
    starts=2, conserved=100, sampled=200, spectra=2, spectrum=200, stable=2, stability=200,
    draws=1, frames=1, shots=(100, 1000), noisy=1,
)  # fmt: skip


@dataclass(frozen=True)
class Body:
    """A potential at rest.

    Attributes:
        potential: with exact values.
        minimum: (A, 3) in Å.
    """

    potential: Potential
    minimum: np.ndarray

    @property
    def masses(self) -> np.ndarray:
        """(A,) in amu."""
        return masses_of(self.potential.symbols)

    @property
    def bonds(self) -> list[tuple[int, int]]:
        """Pairs of atoms that are bound at the minimum."""
        return bonds(self.potential.symbols, self.minimum)

    def integrator(self, timestep: float, bath: float | None = None) -> Integrator:
        """Steps on its energy surface, in fs; with a bath of so many K, or none."""
        return Integrator(self.potential.energy_fn(), self.masses, timestep, bath)

    def start(self, integrator: Integrator, temperature: float, seed: int) -> State:
        """At the minimum, with velocities of such a temperature.

        Without a bath they are of twice that: half of it goes into the springs.
        """
        kelvin = temperature if integrator.temperature is not None else 2 * temperature
        velocities = thermal_velocities(self.minimum, self.masses, kelvin, seed)
        _, forces = self.potential.energy_and_forces(self.minimum[None])
        return start_at(self.minimum, velocities, forces[0], seed)


@dataclass(frozen=True)
class Run:
    """What is kept of a run, at T times; of R runs side by side, arrays have a leading axis.

    Attributes:
        times: (T,) fs.
        positions, velocities: (T, A, 3) in ASE's units.
        total, kinetic: (T,) eV.
    """

    times: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    total: np.ndarray
    kinetic: np.ndarray


def run(
    integrator: Integrator,
    state: State,
    duration: float,
    kept: float,
    tell: Callable[[float], None],
) -> Run:
    """What is kept every `kept` fs of a run of `duration` fs, or of several from several states."""
    every = max(1, round(kept / integrator.timestep))
    piece = max(1, round(duration / integrator.timestep / every / PIECES)) * every
    forward: Callable[[State], tuple[State, Record]]
    forward = partial(integrator.run, steps=piece, every=every)
    axis = int(state.step.ndim)
    if axis:
        forward = jax.jit(jax.vmap(forward))
    found = []
    for number in range(PIECES):
        state, record = forward(state)
        found.append((record.positions, record.velocities, record.total, record.kinetic))
        tell((number + 1) / PIECES)
    arrays = [
        np.concatenate([np.asarray(part) for part in parts], axis)
        for parts in zip(*found, strict=True)
    ]
    count = arrays[0].shape[axis]
    return Run(integrator.timestep * every * np.arange(1, count + 1), *arrays)


def teller(report: Report, what: str, steps: float) -> Callable[[float], None]:
    """Tells a report which part of so many steps is done."""
    return lambda part: report(what, round(part * steps), round(steps), "")


@dataclass(frozen=True)
class Conserved:
    """Runs without a bath, side by side.

    Attributes:
        timestep: fs.
        times: (T,) fs.
        total: (R, T) eV, less the mean of each run.
        outcomes: drift and fluctuation of each run.
    """

    timestep: float
    times: np.ndarray
    total: np.ndarray
    outcomes: list[Conservation]

    @property
    def drifts(self) -> np.ndarray:
        """(R,) meV/atom/ps."""
        return np.array([one.drift for one in self.outcomes])

    @property
    def ratio(self) -> float:
        """The mean of drifts over the whole run by the spread of the kinetic energy."""
        return float(np.mean([one.ratio for one in self.outcomes]))

    @property
    def fluctuation(self) -> float:
        """meV/atom: the root mean square of the runs' own."""
        return float(np.sqrt(np.mean([one.fluctuation**2 for one in self.outcomes])))


def conserved(
    body: Body, plan: Plan, temperature: float, seed: int, report: Report
) -> list[Conserved]:
    """The same starts at several timesteps."""
    found = []
    for timestep in plan.timesteps:
        integrator = body.integrator(timestep)
        tell = teller(report, f"NVE {timestep} fs", plan.starts * plan.conserved / timestep)
        states = several(body, integrator, temperature, seed, plan.starts)
        runs = run(integrator, states, plan.conserved, KEPT, tell)
        outcomes = [
            conservation(runs.times, total, kinetic, len(body.masses))
            for total, kinetic in zip(runs.total, runs.kinetic, strict=True)
        ]
        total = runs.total - runs.total.mean(axis=1, keepdims=True)
        found.append(Conserved(timestep, runs.times, total, outcomes))
    return found


def order(runs: list[Conserved]) -> float:
    """The power of the timestep that the fluctuation of the energy grows with; 2 for Verlet."""
    timesteps, sizes = zip(*((one.timestep, one.fluctuation) for one in runs), strict=True)
    return float(np.polyfit(np.log(timesteps), np.log(sizes), 1)[0])


def pace(body: Body, temperature: float, seed: int) -> float:
    """Microseconds that a step of a single run takes, compilation apart."""
    integrator = body.integrator(TIMESTEP)
    state = body.start(integrator, temperature, seed)
    steps, taken = 1000, []
    for _ in range(3):
        began = time.perf_counter()
        state, _ = integrator.run(state, steps, steps)
        state.step.block_until_ready()
        taken.append(time.perf_counter() - began)
    return 1e6 * min(taken) / steps


def sampled(body: Body, plan: Plan, temperature: float, seed: int, report: Report) -> np.ndarray:
    """(T, A, 3) positions in Å at a bath, after it has forgotten its start."""
    integrator = body.integrator(TIMESTEP, temperature)
    duration = 1.1 * plan.sampled
    tell = teller(report, f"{temperature:.0f} K", duration / TIMESTEP)
    state = body.start(integrator, temperature, seed)
    one = run(integrator, state, duration, SPARSE, tell)
    return one.positions[len(one.times) // 11 :]


def several(body: Body, integrator: Integrator, temperature: float, seed: int, runs: int) -> State:
    """So many starts, with a leading axis."""
    states = [body.start(integrator, temperature, seed + number) for number in range(runs)]
    found: State = jax.tree.map(lambda *parts: jnp.stack(parts), *states)
    return found


def vibrating(
    body: Body, plan: Plan, temperature: float, seed: int, report: Report
) -> tuple[np.ndarray, np.ndarray]:
    """Wavenumbers (W,) in 1/cm and the density of states (W,), the mean of runs without a bath."""
    integrator = body.integrator(TIMESTEP)
    states = several(body, integrator, temperature, seed, plan.spectra)
    tell = teller(report, "spectrum", plan.spectra * plan.spectrum / TIMESTEP)
    runs = run(integrator, states, plan.spectrum, KEPT, tell)
    interval = float(runs.times[0])
    found = [spectrum(velocities, body.masses, interval) for velocities in runs.velocities]
    return found[0][0], np.mean([density for _, density in found], axis=0)


def beyond(body: Body, positions: np.ndarray) -> np.ndarray:
    """(...) Å by which the worst bond is beyond the trained range, at positions (..., A, 3).

    It is negative inside of the range, and infinite where positions are not finite.
    """
    every = list(pairs(len(body.masses)))
    at = [every.index(bond) for bond in body.bonds]
    flat = positions.reshape(-1, *positions.shape[-2:])
    length = all_distances(flat)[:, at]
    low, high = body.potential.spread.low[at], body.potential.spread.high[at]
    worst = np.max(np.maximum(low - length, length - high), axis=1)
    return np.where(np.isfinite(worst), worst, np.inf).reshape(positions.shape[:-2])


@dataclass(frozen=True)
class Stability:
    """Runs at a high temperature.

    Attributes:
        times: (T,) fs.
        worst: (R, T) Å by which the worst bond of a run has been beyond the trained range so far;
            negative if it has stayed inside.
    """

    times: np.ndarray
    worst: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """(T,) the fraction of runs in which no bond has left it by more than the margin yet."""
        fraction: np.ndarray = np.mean(self.worst <= MARGIN, axis=0)
        return fraction


def stability(body: Body, plan: Plan, temperature: float, seed: int, report: Report) -> Stability:
    """Runs at a bath, each with a seed of its own."""
    integrator = body.integrator(TIMESTEP, temperature)
    states = several(body, integrator, temperature, seed, plan.stable)
    tell = teller(report, f"{temperature:.0f} K", plan.stable * plan.stability / TIMESTEP)
    runs = run(integrator, states, plan.stability, SPARSE, tell)
    return Stability(runs.times, np.maximum.accumulate(beyond(body, runs.positions), axis=1))
