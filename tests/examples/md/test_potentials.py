"""Potentials: symmetries, exact forces, second derivatives, and files."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import potentials
import pytest
from configuration import Recipe
from descriptors import spread_of
from hydronium import RECIPES, SYMBOLS, frames, model
from jax.flatten_util import ravel_pytree
from problems import MDError
from qiskit import QuantumCircuit
from qiskit.quantum_info import SparsePauliOp, Statevector
from scipy.spatial.transform import Rotation
from symmetry import atom_permutations, pair_kinds, pairs

POSITIONS = frames(8).positions
names = pytest.mark.parametrize("name", RECIPES)


def random_params(of: potentials.Model, seed: int = 0) -> potentials.Params:
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda v: jnp.asarray(rng.normal(0, 0.3, v.shape)), of.initial(0))


@names
def test_nothing_changes_when_like_atoms_change_places(name: str):
    of = model(name)
    params = random_params(of)
    energy, forces = of.batch(params, POSITIONS, None)
    for g in atom_permutations(SYMBOLS):
        there, moved = of.batch(params, POSITIONS[:, g], None)
        np.testing.assert_allclose(there, energy, atol=1e-10)
        np.testing.assert_allclose(moved, forces[:, g], atol=1e-10)


@names
def test_the_energy_does_not_turn_and_the_forces_do(name: str):
    of = model(name)
    params = random_params(of)
    energy, forces = of.batch(params, POSITIONS, None)
    turn = Rotation.random(rng=1).as_matrix()
    mirror = np.diag([1.0, 1.0, -1.0])
    for matrix in (turn, mirror, turn @ mirror):
        there, moved = of.batch(params, POSITIONS @ matrix.T + [1.0, -2.0, 3.0], None)
        np.testing.assert_allclose(there, energy, atol=1e-10)
        np.testing.assert_allclose(moved, forces @ matrix.T, atol=1e-10)


@names
def test_forces_and_torques_add_up_to_nothing(name: str):
    of = model(name)
    _, forces = of.batch(random_params(of), POSITIONS, None)
    np.testing.assert_allclose(np.sum(forces, axis=1), 0, atol=1e-10)
    np.testing.assert_allclose(np.cross(POSITIONS, forces).sum(axis=1), 0, atol=1e-10)


@names
def test_forces_are_minus_the_difference_quotient_of_the_energy(name: str):
    of, step = model(name), 1e-4
    params = random_params(of)
    _, forces = of.batch(params, POSITIONS[:2], None)
    moves = step * np.eye(12).reshape(12, 1, 4, 3)
    for frame, force in zip(POSITIONS[:2], np.asarray(forces), strict=True):
        above, _ = of.batch(params, (frame + moves).reshape(-1, 4, 3), None)
        below, _ = of.batch(params, (frame - moves).reshape(-1, 4, 3), None)
        quotient = (above - below).reshape(4, 3) / (2 * step)
        np.testing.assert_allclose(force, -quotient, atol=1e-5)


@names
def test_the_derivative_of_forces_by_weights_is_their_difference_quotient(name: str):
    of, step = model(name), 1e-5
    flat, unravel = ravel_pytree(random_params(of))
    direction = np.random.default_rng(2).normal(size=(4, 3))

    def along(weights: jax.Array) -> jax.Array:
        return jnp.sum(direction * jax.grad(of.energy, 1)(unravel(weights), POSITIONS[0]))

    exact = jax.jit(jax.grad(along))(flat)
    compiled = jax.jit(along)
    for k in range(0, len(flat), max(1, len(flat) // 12)):
        e = np.zeros(len(flat))
        e[k] = step
        quotient = (compiled(flat + e) - compiled(flat - e)) / (2 * step)
        assert float(exact[k]) == pytest.approx(float(quotient), abs=1e-6)


@names
def test_the_hessian_is_symmetric(name: str):
    """Forces with a separate head would show an antisymmetric part of their Jacobian."""
    of = model(name)
    params = random_params(of)
    hessian = jax.jit(jax.jacfwd(lambda r: of.batch(params, r[None], None)[1][0]))(POSITIONS[0])
    matrix = np.asarray(hessian).reshape(12, 12)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10 * abs(matrix).max())


def test_the_circuit_is_what_qiskit_simulates():
    of = model("circuit")
    params, r = random_params(of), POSITIONS[3]
    term, own = of.terms["circuit"], params["circuit"]
    lengths = np.array([np.linalg.norm(r[i] - r[j]) for i, j in pairs(4)])
    x = (np.exp(-lengths) - of.scaling.mean) / of.scaling.deviation
    kind = [0, 0, 0, 1, 1, 1]
    # OH with OH, OH with the HH it touches, OH with the HH across, HH with HH
    touching = {(i, j): len({*pairs(4)[i], *pairs(4)[j]}) == 3 for i, j in pairs(6)}
    of_kind = {
        (i, j): 3 if kind[i] else 0 if not kind[j] else 1 if touching[i, j] else 2
        for i, j in pairs(6)
    }
    circuit = QuantumCircuit(6)
    for layer in range(term.settings.layers):
        for q in range(6):
            turn = own["offset"][layer, kind[q]] + own["slope"][layer, kind[q]] * x[q]
            circuit.ry(float(turn), q)
            circuit.rz(float(own["twist"][layer, kind[q]]), q)
        for i, j in pairs(6):
            circuit.rzz(float(own["coupling"][layer, of_kind[i, j]]), i, j)
    state = Statevector(circuit)

    def mean(groups: list[tuple[int, ...]]) -> float:
        terms = [("Z" * len(g), list(g), 1 / len(groups)) for g in groups]
        return state.expectation_value(SparsePauliOp.from_sparse_list(terms, 6)).real

    values = [mean([(q,) for q in range(6) if kind[q] == k]) for k in (0, 1)]
    values += [mean([g for g in pairs(6) if of_kind[g] == k]) for k in range(4)]
    scaled = float(params["constant"]) + np.dot(own["readout"], values)
    expected = of.scaling.shift + of.scaling.energy * scaled
    assert float(of.energy(params, r)) == pytest.approx(float(expected), abs=1e-10)


def test_without_entanglers_there_are_no_couplings_and_the_model_is_smaller():
    with_them, without = model("circuit"), model("unentangled")
    assert without.terms["circuit"].coupling == (4, 0)
    assert with_them.count() - without.count() == 4 * 4 + 4


def test_parameters_are_counted():
    assert model("circuit").count() == 4 * (2 + 2 + 2 + 4) + 6 + 1
    assert model("polynomial").count() == 23  # of degree 3, the constant included


@pytest.fixture
def potential() -> potentials.Potential:
    of = model("delta")
    spread = spread_of(POSITIONS, pair_kinds(SYMBOLS))
    return potentials.Potential(of, random_params(of), spread, {"frames": 8})


def test_a_saved_potential_gives_the_same_digits(potential: potentials.Potential, tmp_path: Path):
    potential.save(tmp_path / "new" / "p.json")
    again = potentials.load(tmp_path / "new" / "p.json")
    for one, other in zip(
        potential.energy_and_forces(POSITIONS), again.energy_and_forces(POSITIONS), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert again.facts == {"frames": 8} and again.symbols == SYMBOLS
    np.testing.assert_array_equal(again.spread.high, potential.spread.high)
    assert list(tmp_path.joinpath("new").iterdir()) == [tmp_path / "new" / "p.json"]


def test_a_potential_runs_on_another_backend(potential: potentials.Potential, tmp_path: Path):
    potential.save(tmp_path / "p.json")
    there = potentials.load(tmp_path / "p.json", backend="reference")
    for one, other in zip(
        potential.energy_and_forces(POSITIONS[:2]),
        there.energy_and_forces(POSITIONS[:2]),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_the_energy_function_is_pure_jax(potential: potentials.Potential):
    energy = potential.energy_fn()
    one = jax.jit(jax.vmap(energy))(POSITIONS)
    np.testing.assert_allclose(one, potential.energy_and_forces(POSITIONS)[0], atol=1e-12)
    assert energy(POSITIONS[0], neighbor=None, t=0.0) == pytest.approx(float(one[0]), abs=1e-12)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (np.zeros((4, 3)), r"must have shape \(frames, 4, 3\) for OHHH, got \(4, 3\)"),
        (np.zeros((2, 3, 3)), r"got \(2, 3, 3\)"),
        (np.full((1, 4, 3), np.nan), "finite numbers in Å, got nan or inf"),
    ],
)
def test_positions_that_are_none_are_refused(
    given: np.ndarray, sentence: str, potential: potentials.Potential
):
    with pytest.raises(MDError, match=sentence):
        potential.energy_and_forces(given)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "another"}, "is no hybrid potential, version 1"),
        ({"weights": {}}, "is damaged: KeyError"),
        ({"model": {"circuit": {"layer": 3}}}, "circuit.layer: Extra inputs"),
        ({"scaling": {}}, "is damaged: TypeError"),
        (None, "cannot be read as a potential"),
    ],
)
def test_files_that_hold_no_potential_are_refused(
    change: dict | None, sentence: str, potential: potentials.Potential, tmp_path: Path
):
    path = tmp_path / "p.json"
    potential.save(path)
    text = path.read_text()
    path.write_text(text[:100] if change is None else json.dumps(json.loads(text) | change))
    with pytest.raises(MDError) as caught:
        potentials.load(path)
    assert sentence in str(caught.value) and str(path) in str(caught.value)


def test_weights_of_another_shape_are_refused(potential: potentials.Potential, tmp_path: Path):
    path = tmp_path / "p.json"
    potential.save(path)
    content = json.loads(path.read_text())
    content["weights"]["circuit"]["readout"] = [1.0]
    path.write_text(json.dumps(content))
    with pytest.raises(MDError, match=r"\['circuit'\]\['readout'\] must be finite .* \(6,\), got"):
        potentials.load(path)


@pytest.mark.parametrize("name", ["polynomial", "circuit", "network"])
def test_terms_that_grow_with_all_pairs_refuse_large_molecules(name: str):
    scaling = model("circuit").scaling
    with pytest.raises(MDError, match=f"{name} treats all 36 distances .* Use .model. heads"):
        potentials.Model(("C", "C", "O", *"HHHHHH"), Recipe(**{name: {}}), scaling)
