"""Molecular dynamics in one compiled loop: velocity Verlet (NVE) and Langevin (NVT).

Units are ASE's: eV, Å, amu, and for times Å sqrt(amu/eV), of which `ase.units.fs` is a femtosecond.
Random numbers come from a key and the number of the step alone: so a run that is stopped and goes
on from its state is, to the last digit, the run that was not, however it is cut into pieces.

    NVE       velocity Verlet: Swope et al., J. Chem. Phys. 76, 637 (1982)
    Langevin  BAOAB: Leimkuhler and Matthews, Appl. Math. Res. Express 2013, 34
"""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from ase import units
from ase.data import atomic_masses, atomic_numbers
from files import write_atomically
from problems import MDError

EnergyFunction = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class State:
    """Where a run stands; a pytree of arrays.

    Attributes:
        positions: (A, 3) in Å.
        velocities: (A, 3) in Å per ASE's unit of time.
        forces: (A, 3) in eV/Å, at these positions.
        step: () how many steps were made.
        key: (2,) what random numbers are drawn from.
    """

    positions: jax.Array
    velocities: jax.Array
    forces: jax.Array
    step: jax.Array
    key: jax.Array


jax.tree_util.register_dataclass(State)


@dataclass(frozen=True)
class Record:
    """What is kept of a run, at T times; a pytree of arrays.

    Attributes:
        positions, velocities: (T, A, 3).
        potential, kinetic: (T,) in eV.
        step: (T,) numbers of steps.
    """

    positions: jax.Array
    velocities: jax.Array
    potential: jax.Array
    kinetic: jax.Array
    step: jax.Array

    @property
    def total(self) -> jax.Array:
        """(T,) in eV."""
        return self.potential + self.kinetic


jax.tree_util.register_dataclass(Record)


def masses_of(symbols: tuple[str, ...]) -> np.ndarray:
    """(A,) in amu, of the elements as they occur in nature."""
    return np.array([atomic_masses[atomic_numbers[symbol]] for symbol in symbols])


def thermal_velocities(
    positions: np.ndarray, masses: np.ndarray, temperature: float, seed: int
) -> np.ndarray:
    """(A, 3) Maxwell-Boltzmann velocities, less the translation and rotation of the whole.

    The internal degrees of freedom keep theirs, whose mean kinetic energy is the temperature.
    """
    rng = np.random.default_rng([seed, 4])
    size = np.sqrt(units.kB * temperature / masses)[:, None]
    velocities = rng.normal(size=positions.shape) * size
    velocities -= masses @ velocities / masses.sum()
    about = positions - masses @ positions / masses.sum()
    momentum = np.sum(masses[:, None] * np.cross(about, velocities), axis=0)
    square = np.sum(about**2, axis=1)
    inertia = np.einsum("i,ijk->jk", masses, square[:, None, None] * np.eye(3)
                        - about[:, :, None] * about[:, None, :])  # fmt: skip
    turning = np.linalg.pinv(inertia, rcond=1e-10) @ momentum
    found: np.ndarray = velocities - np.cross(turning, about)
    return found


def kinetic_energy(velocities: jax.Array, masses: np.ndarray) -> jax.Array:
    """() in eV, of velocities (A, 3)."""
    return jnp.sum(masses[:, None] * velocities**2) / 2


def degrees(positions: np.ndarray) -> int:
    """How many degrees of freedom move once the whole neither translates nor rotates."""
    about = positions - positions.mean(axis=0)
    line = np.linalg.matrix_rank(about, tol=1e-4) < 2
    return max(1, 3 * len(positions) - (5 if line else 6))


def temperature_of(kinetic: np.ndarray, freedom: int) -> np.ndarray:
    """K, of kinetic energies in eV in so many degrees of freedom."""
    return 2 * np.asarray(kinetic) / (freedom * units.kB)


def start_at(positions: np.ndarray, velocities: np.ndarray, forces: np.ndarray, seed: int) -> State:
    """The state before the first step, where the forces are known."""
    r, v, f = (jnp.asarray(array, float) for array in (positions, velocities, forces))
    return State(r, v, f, jnp.asarray(0), jax.random.key_data(jax.random.key(seed)))


@dataclass(frozen=True)
class Integrator:
    """Steps of a molecule on an energy surface.

    Attributes:
        energy: positions (A, 3) in Å to eV, in JAX.
        masses: (A,) in amu.
        timestep: in fs.
        temperature: of the bath in K; None for none, which conserves energy.
        friction: of the bath, in 1/fs.
    """

    energy: EnergyFunction
    masses: np.ndarray
    timestep: float
    temperature: float | None = None
    friction: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.timestep < np.inf:
            raise MDError(f"the timestep must be positive and finite, got {self.timestep} fs")
        if self.temperature is not None and not (
            0 <= self.temperature < np.inf and 0 < self.friction < np.inf
        ):
            raise MDError(
                "a bath needs a finite temperature of at least 0 K and a positive friction, got "
                f"{self.temperature} K and {self.friction} 1/fs"
            )

    def forces(self, positions: jax.Array) -> jax.Array:
        """(A, 3) in eV/Å: minus the gradient of the energy."""
        return -jax.grad(self.energy)(positions)

    def start(self, positions: np.ndarray, velocities: np.ndarray, seed: int) -> State:
        """The state before the first step."""
        forces = jax.jit(self.forces)(jnp.asarray(positions, float))
        return start_at(positions, velocities, np.asarray(forces), seed)

    def step(self, state: State) -> State:
        """One step on."""
        dt, m = self.timestep * units.fs, self.masses[:, None]
        velocities = state.velocities + dt / 2 * state.forces / m
        if self.temperature is None:
            positions = state.positions + dt * velocities
        else:
            positions = state.positions + dt / 2 * velocities
            keep = np.exp(-self.friction * self.timestep)
            key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)
            kick = jax.random.normal(key, positions.shape)
            size = np.sqrt((1 - keep**2) * units.kB * self.temperature / m)
            velocities = keep * velocities + size * kick
            positions = positions + dt / 2 * velocities
        forces = self.forces(positions)
        velocities = velocities + dt / 2 * forces / m
        return State(positions, velocities, forces, state.step + 1, state.key)

    def run(self, state: State, steps: int, every: int = 1) -> tuple[State, Record]:
        """So many steps on, and what is kept after each `every` of them.

        Raises:
            MDError: `steps` is no positive multiple of `every`.
        """
        if every < 1 or steps < 1 or steps % every:
            raise MDError(f"steps must be a positive multiple of every, got {steps} and {every}")
        found: tuple[State, Record] = self._run(steps // every, every)(state)
        return found

    def _run(self, count: int, every: int) -> Callable[[State], tuple[State, Record]]:
        """The compiled loop; it is kept with the integrator."""
        cache = self.__dict__.setdefault("_loops", {})
        if (count, every) not in cache:
            cache[count, every] = jax.jit(partial(self._loop, count, every))
        return cache[count, every]

    def _loop(self, count: int, every: int, state: State) -> tuple[State, Record]:
        def some(state: State, _: None) -> tuple[State, Record]:
            # The energy itself is not needed to go on: it is computed where it is kept.
            state, _ = jax.lax.scan(lambda s, _: (self.step(s), None), state, length=every)
            kept = Record(
                state.positions,
                state.velocities,
                self.energy(state.positions),
                kinetic_energy(state.velocities, self.masses),
                state.step,
            )
            return state, kept

        return jax.lax.scan(some, state, length=count)


def state_arrays(state: State) -> dict[str, np.ndarray]:
    """A state as arrays by name."""
    return {field.name: np.asarray(getattr(state, field.name)) for field in fields(State)}


def save_state(path: Path, state: State, told: str) -> None:
    """Writes a state, whole or not at all; `told` says of which run it is."""
    content = io.BytesIO()
    np.savez(content, told=np.array(told), **state_arrays(state))
    write_atomically(path, content.getvalue())


def load_state(path: Path, told: str) -> State:
    """A state that was written of the same run.

    Raises:
        MDError: there is none, or it is of another run.
    """
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = dict(found)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise MDError(f"{path} cannot be read as a checkpoint: {error}") from error
    if str(arrays.pop("told", "")) != told:
        raise MDError(
            f"{path} is the checkpoint of another run: of another potential, ensemble, timestep, "
            "temperature, seed or interval. Give the arguments of that run, or another --output"
        )
    return State(**{name: jnp.asarray(array) for name, array in arrays.items()})
