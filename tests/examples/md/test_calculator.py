"""The ASE calculator: every optimiser and integrator, any order of atoms, and what it refuses."""

import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from ase import Atoms, units
from ase.calculators.fd import calculate_numerical_forces
from ase.md.langevin import Langevin
from ase.md.langevinbaoab import LangevinBAOAB
from ase.md.nvtberendsen import NVTBerendsen
from ase.md.velocitydistribution import thermalize_momenta
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS, FIRE, LBFGS, GPMin
from ase.vibrations import Vibrations
from calculator import HybridCalculator
from hydronium import SYMBOLS, trained
from potentials import Potential
from problems import ExtrapolationWarning, MDError

START = np.array([[0, 0, 0.05], [0.94, 0, -0.2], [-0.47, 0.814, -0.2], [-0.47, -0.814, -0.2]])


def atoms(calculator: HybridCalculator, order: tuple[int, ...] = (0, 1, 2, 3)) -> Atoms:
    found = Atoms([SYMBOLS[k] for k in order], positions=START[list(order)])
    found.calc = calculator
    return found


@pytest.fixture
def calculator() -> HybridCalculator:
    return HybridCalculator(trained())


@pytest.mark.filterwarnings("ignore::problems.ExtrapolationWarning")
@pytest.mark.parametrize("optimiser", [BFGS, LBFGS, FIRE, GPMin])
def test_every_optimiser_finds_the_same_minimum(optimiser, calculator: HybridCalculator):
    molecule = atoms(calculator)
    assert optimiser(molecule, logfile=None).run(fmax=1e-3, steps=300)
    reference = atoms(HybridCalculator(trained()))
    BFGS(reference, logfile=None).run(fmax=1e-4)
    energy = reference.get_potential_energy()
    assert molecule.get_potential_energy() == pytest.approx(energy, abs=1e-5)


@pytest.mark.filterwarnings("ignore::problems.ExtrapolationWarning")
@pytest.mark.parametrize("name", ["verlet", "langevin", "baoab", "berendsen"])
def test_every_integrator_runs(name: str, calculator: HybridCalculator):
    molecule, dt = atoms(calculator), 0.5 * units.fs
    rng = np.random.RandomState(0)
    thermalize_momenta(molecule, temperature_K=300, rng=rng)
    dynamics = {
        "verlet": lambda: VelocityVerlet(molecule, dt),
        "langevin": lambda: Langevin(
            molecule, dt, temperature_K=300, friction=0.01 / units.fs, fixcm=False, rng=rng
        ),
        "baoab": lambda: LangevinBAOAB(
            molecule, dt, temperature_K=300, T_tau=100 * units.fs, rng=rng
        ),
        "berendsen": lambda: NVTBerendsen(molecule, dt, temperature_K=300, taut=50 * units.fs),
    }[name]()
    before = molecule.get_total_energy()
    dynamics.run(50)
    assert calculator.evaluations >= 51
    change = abs(molecule.get_total_energy() - before)
    assert np.isfinite(change) and (change < 2e-3 or name != "verlet")  # eV


def test_forces_are_ase_s_numerical_ones(calculator: HybridCalculator):
    molecule = atoms(calculator)
    forces = molecule.get_forces()
    numerical = calculate_numerical_forces(molecule, eps=1e-4)
    np.testing.assert_allclose(forces, numerical, atol=1e-5)
    assert molecule.get_potential_energy(force_consistent=True) == molecule.get_potential_energy()


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1)])
def test_atoms_in_another_order_have_the_same_energy_and_their_own_forces(
    order: tuple[int, ...], calculator: HybridCalculator
):
    one, other = atoms(calculator), atoms(HybridCalculator(trained()), order)
    assert other.get_potential_energy() == pytest.approx(one.get_potential_energy(), abs=1e-10)
    np.testing.assert_allclose(other.get_forces(), one.get_forces()[list(order)], atol=1e-10)


@pytest.mark.filterwarnings("ignore::problems.ExtrapolationWarning")
def test_vibrations_of_ase_are_those_of_the_hessian(calculator: HybridCalculator, tmp_path: Path):
    from accuracy import frequencies

    molecule = atoms(calculator)
    BFGS(molecule, logfile=None).run(fmax=1e-5)
    vibrations = Vibrations(molecule, name=str(tmp_path / "v"), delta=1e-3)
    vibrations.run()
    found = np.sort(vibrations.get_frequencies().real)[-6:]
    energy = calculator.potential.energy_fn()
    exact = frequencies(energy, molecule.positions, molecule.get_masses())
    np.testing.assert_allclose(found, exact, atol=1.0)


def test_a_file_is_as_good_as_a_potential(tmp_path: Path):
    trained().save(tmp_path / "p.json")
    one = atoms(HybridCalculator(tmp_path / "p.json"))
    other = atoms(HybridCalculator(trained()))
    np.testing.assert_array_equal(one.get_forces(), other.get_forces())


def test_it_warns_once_for_every_excursion(calculator: HybridCalculator):
    molecule = atoms(calculator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        molecule.get_forces()
        assert not caught and calculator.extrapolation == 0.0
        for stretch in (1.2, 1.25, 1.0, 1.2):
            molecule.positions = START * stretch
            molecule.get_forces()
    assert [w.category for w in caught] == [ExtrapolationWarning] * 2
    spread = calculator.potential.spread
    assert calculator.extrapolation == pytest.approx(spread.excess(START * 1.2))
    assert "Å outside of what the potential was trained on" in str(caught[0].message)


def test_a_warning_names_the_atoms_as_they_were_given():
    molecule = atoms(HybridCalculator(trained()), (3, 1, 0, 2))  # H H O H
    molecule.positions[1] *= 1.3
    expected = molecule.get_distance(1, 2)
    with pytest.warns(ExtrapolationWarning, match=rf"2 \(O\) and 1 \(H\), {expected:.3f} Å"):
        molecule.get_forces()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Atoms("NHHH", START), "is for the atoms O H H H, but these are N H H H"),
        (Atoms("OHH", START[:3]), "but these are O H H"),
        (Atoms("OH3", START, pbc=True, cell=[9] * 3), "the atoms are periodic. Set atoms.pbc"),
        (Atoms("OH3", START * np.nan), "must be finite numbers in Å, got nan or inf"),
        (Atoms("OH3", START * 0.2), "geometry: atoms 0 .O. and 1 .H. overlap"),
        # Numbered as given, not as trained on.
        (Atoms("HHHO", START[[1, 2, 3, 0]] * 0.2), "geometry: atoms 0 .H. and 3 .O. overlap"),
    ],
)
def test_other_atoms_are_refused(given: Atoms, sentence: str, calculator: HybridCalculator):
    given.calc = calculator
    with pytest.raises(MDError, match=sentence):
        given.get_potential_energy()


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(MDError, match="has its backend: load it with another"):
        HybridCalculator(trained(), backend="aer")
    with pytest.raises(MDError, match="repeats must be at least 2"):
        HybridCalculator(trained(), repeats=1)
    with pytest.raises(MDError, match="cannot be read as a potential"):
        HybridCalculator("none.json")


# Backends with shots


def sampled(seed: int = 0) -> HybridCalculator:
    of = trained("small")
    model = type(of.model)(
        of.symbols, of.model.recipe, of.model.scaling, {"kind": "aer", "shots": 200, "seed": 1}
    )
    return HybridCalculator(Potential(model, of.params, of.spread, {}), repeats=4, seed=seed)


@pytest.mark.slow
def test_shots_come_with_standard_errors():
    exact = atoms(HybridCalculator(trained("small"))).get_forces()
    calculator = sampled()
    molecule = atoms(calculator)
    found, errors, energies, energy_errors = [], [], [], []
    for _ in range(6):
        calculator.reset()
        found.append(molecule.get_forces())
        errors.append(calculator.results["forces_error"])
        energies.append(molecule.get_potential_energy())
        energy_errors.append(calculator.results["energy_error"])
    assert calculator.noisy and calculator.evaluations == 6
    assert errors[0].shape == (4, 3)
    told = np.sqrt(np.mean(np.square(energy_errors)))
    assert 1 / 3 < np.std(energies, ddof=1) / told < 3  # of six
    spread, told = np.std(found, axis=0, ddof=1), np.sqrt(np.mean(np.square(errors), axis=0))
    assert 0.5 < np.sqrt(np.mean(spread**2) / np.mean(told**2)) < 2
    assert np.abs(np.mean(found, axis=0) - exact).max() < 5 * told.max()


@pytest.mark.slow
def test_draws_are_those_of_the_seed_and_the_evaluation():
    one, again, other = (atoms(sampled(seed)).get_forces() for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-6


class Shaken(Potential):
    """A potential whose forces have normal errors of 0.1 eV/Å, drawn by the key as shots are."""

    exact = False

    def energy_and_forces(self, positions, key=None):
        energies, forces = super().energy_and_forces(positions, key)
        return energies, forces + 0.1 * np.asarray(jax.random.normal(key, forces.shape))


def test_evaluations_of_neighbouring_seeds_share_no_draws():
    of = trained("small")
    shaken = Shaken(of.model, of.params, of.spread, of.facts)
    draws = []
    for seed in (0, 1, 2):
        calculator = HybridCalculator(shaken, seed=seed)
        molecule = atoms(calculator)
        for _ in range(3):
            calculator.reset()
            draws.append(molecule.get_forces())
    assert len({found.tobytes() for found in draws}) == 9


def test_errors_are_those_of_the_mean_of_the_repeats():
    of = trained("small")
    calculator = HybridCalculator(Shaken(of.model, of.params, of.spread, of.facts), repeats=25)
    exact = atoms(HybridCalculator(of)).get_forces()
    molecule = atoms(calculator)
    found, told = [], []
    for _ in range(40):
        calculator.reset()
        found.append(molecule.get_forces() - exact)
        told.append(calculator.results["forces_error"])
    assert np.std(found) == pytest.approx(0.1 / 5, rel=0.1)
    assert np.sqrt(np.mean(np.square(told))) == pytest.approx(0.1 / 5, rel=0.1)


def test_exact_backends_tell_no_errors(calculator: HybridCalculator):
    atoms(calculator).get_forces()
    assert not calculator.noisy
    assert set(calculator.results) == {"energy", "free_energy", "forces"}
