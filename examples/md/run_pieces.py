"""A run of molecular dynamics in pieces, by the compiled loop or by ASE, step by step."""

from collections.abc import Iterator

import numpy as np
from ase import Atoms, units
from ase.md.md import MolecularDynamics
from calculator import HybridCalculator
from dynamics import Integrator, Record, State
from potentials import Potential
from problems import MDError
from run_files import apart

CHUNK = 50
"""Kept frames between checkpoints."""


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
