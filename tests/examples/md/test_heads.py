"""Heads: a sum over atoms that knows no size, finite everywhere, by the circuit that is written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from configuration import Recipe
from environments import environments
from heads import head
from hydronium import SYMBOLS, frames, model
from potentials import Model, Params, model_for
from qiskit import QuantumCircuit
from qiskit.quantum_info import SparsePauliOp, Statevector

ONE, OTHER = frames(2, seed=4).positions
FLAT = np.array([[0, 0, 0], *([np.cos(a), np.sin(a), 0] for a in 2 * np.pi / 3 * np.arange(3))])

SMALL = Recipe(heads={"qubits": 2, "layers": 1, "radial": 3})
ORDERS = jax.grad, jax.hessian


def params(of: Model) -> Params:
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda v: jnp.asarray(rng.normal(0, 0.3, v.shape)), of.initial(0))


def doubled(of: Model) -> Model:
    """The same weights and scaling, for two molecules."""
    return Model(of.symbols * 2, of.recipe, of.scaling)


def parts(of: Model, weights: Params, positions: np.ndarray) -> tuple[float, np.ndarray]:
    """The energy that is a sum over atoms, and the forces."""
    energies, forces = of.batch(weights, positions[None], None)
    constant = of.scaling.shift + of.scaling.energy * float(weights["constant"])
    return float(energies[0]) - constant, np.asarray(forces[0])


@pytest.mark.slow
def test_energies_and_forces_of_molecules_far_apart_add_up_and_of_near_ones_do_not():
    of = model("heads")
    weights, both = params(of), doubled(of)
    (first, push), (second, pull) = parts(of, weights, ONE), parts(of, weights, OTHER)
    far, forces = parts(both, weights, np.concatenate([ONE, OTHER + [80.0, 0.0, 0.0]]))
    assert far == pytest.approx(first + second, abs=1e-10)
    np.testing.assert_allclose(forces, np.concatenate([push, pull]), atol=1e-10)
    near, _ = parts(both, weights, np.concatenate([ONE, OTHER + [3.0, 0.0, 0.0]]))
    assert abs(near - first - second) > 1e-3
    assert both.count() == of.count()  # weights are those of elements


@pytest.mark.slow
def test_molecules_far_apart_may_exchange_atoms_of_an_element():
    of = model("heads")
    both, weights = doubled(of), params(of)
    positions = np.concatenate([ONE, OTHER + [4.0, 1.0, 0.0]])
    energy, forces = parts(both, weights, positions)
    swap = np.array([4, 5, 2, 3, 0, 1, 7, 6])  # O and H with those of the other molecule
    again, moved = parts(both, weights, positions[swap])
    assert again == pytest.approx(energy, abs=1e-10)
    np.testing.assert_allclose(moved, forces[swap], atol=1e-10)


@pytest.mark.slow
def test_forces_and_second_derivatives_are_numbers():
    """Also where moments vanish by symmetry, and where no atom sees another."""
    of = model_for(SMALL, frames(20))
    weights = params(of)
    derivatives = jax.jit(lambda r: [f(lambda x: of.energy(weights, x))(r) for f in ORDERS])
    for positions in (ONE, FLAT, np.outer(np.arange(4.0), [1, 0, 0]), 40.0 * FLAT):
        forces, curvature = map(np.asarray, derivatives(jnp.asarray(positions)))
        assert np.isfinite(forces).all() and np.isfinite(curvature).all()


def test_a_diatomic_has_heads_too():
    train = frames(20)
    two = type(train)(("O", "H"), train.positions[:, :2], train.energies, train.forces[:, :2],
                      train.temperatures)  # fmt: skip
    of = model_for(SMALL, two)
    _, forces = of.batch(params(of), two.positions, None)
    assert np.isfinite(np.asarray(forces)).all() and np.abs(forces).max() > 1e-3
    np.testing.assert_allclose(np.sum(forces, axis=1), 0, atol=1e-10)


def test_an_environment_has_as_many_invariants_as_it_says_and_none_of_what_is_far():
    seen = environments(SYMBOLS, 5)
    assert seen.elements == ("H", "O") and seen(jnp.asarray(ONE)).shape == (4, seen.size)
    away = np.array([[0, 0, 0], [90, 0, 0], [0, 90, 0], [0, 0, 90]], float)
    np.testing.assert_array_equal(np.asarray(seen(jnp.asarray(away))), 0.0)


@pytest.mark.parametrize(("qubits", "entanglers"), [(1, True), (2, True), (3, True), (3, False)])
def test_the_circuit_of_an_atom_is_what_qiskit_simulates(qubits: int, entanglers: bool):
    layers = 2
    rng = np.random.default_rng(qubits)
    ring = {1: [], 2: [(0, 1)], 3: [(0, 1), (1, 2), (2, 0)]}[qubits] if entanglers else []
    turn, twist = rng.normal(size=(2, layers, qubits))
    coupling = rng.normal(size=(layers, len(ring)))
    qc = QuantumCircuit(qubits)
    for layer in range(layers):
        for q in range(qubits):
            qc.ry(turn[layer, q], q)
            qc.rz(twist[layer, q], q)
        for k, (p, q) in enumerate(ring):
            qc.rzz(coupling[layer, k], p, q)
    state = Statevector(qc)
    observed = [("Z", [q]) for q in range(qubits)] + [("ZZ", list(pair)) for pair in ring]
    expected = [
        state.expectation_value(SparsePauliOp.from_sparse_list([(*z, 1.0)], qubits)).real
        for z in observed
    ]
    found = head(qubits, layers, entanglers)(turn, twist, coupling)
    np.testing.assert_allclose(found, expected, atol=1e-12)
