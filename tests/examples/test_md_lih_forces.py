"""The LiH example: its data, its derivatives, its figures, its command line."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scripts
from jax.flatten_util import ravel_pytree
from qiskit import QuantumCircuit
from qiskit.quantum_info import SparsePauliOp, Statevector
from scipy import constants
from scipy.interpolate import make_interp_spline
from scripts import EXAMPLES, load

import qml
from qml.config import resolve
from qml.execution import recorded

lih = load("md_lih_forces")
run = partial(scripts.run, "md_lih_forces.py")


@pytest.fixture
def trained() -> dict[str, jax.Array]:
    weights = json.loads((EXAMPLES / "data" / "lih_weights.json").read_text())
    return {key: jnp.array(value) for key, value in weights.items()}


def assert_reaches_the_figures(weights: dict[str, jax.Array]) -> None:
    """What the example promises; the curve itself is the reference."""
    e_training, f_training, e_test, f_test = lih.errors(weights)
    distance, wavenumber = lih.model_vibration(weights)
    reference_distance, reference_wavenumber = lih.reference_vibration()
    assert max(e_training, e_test) < 0.5  # meV
    assert max(f_training, f_test) < 4  # meV/Å
    assert abs(distance - reference_distance) < 0.001  # Å
    assert abs(wavenumber - reference_wavenumber) < 5  # 1/cm


# The data


def test_the_reference_forces_are_minus_the_slope_of_the_reference_energies():
    slope = make_interp_spline(lih.R, lih.E, k=7)(lih.R, 1)
    np.testing.assert_allclose(lih.F[3:-3], -slope[3:-3], atol=2e-5)


def test_the_reference_is_89_even_bond_lengths_from_1_to_3_2_of_which_11_train():
    np.testing.assert_allclose(lih.R, np.linspace(1.0, 3.2, 89), atol=1e-12)
    assert lih.TRAINING.sum() == 11
    assert lih.TRAINING[0] and lih.TRAINING[-1]


@pytest.mark.full
@pytest.mark.parametrize("point", [0, 24, 88])
def test_the_generator_gives_the_committed_energies_and_forces(point: int):
    pytest.importorskip("pyscf")
    rows = np.loadtxt(EXAMPLES / "data" / "lih_ccsd.csv", delimiter=",", skiprows=1)
    energy, force = load("generate_lih").energy_and_force(float(rows[point, 0]))
    assert (energy, force) == pytest.approx(tuple(rows[point, 1:]), abs=1e-6)


# The vibration


def test_the_vibration_of_a_morse_curve_is_its_closed_form():
    depth, range_, distance = 2.5, 1.1, 1.6  # eV, 1/Å, Å

    def force(r: float) -> float:
        decay = np.exp(-range_ * (r - distance))
        return -2 * depth * range_ * decay * (1 - decay)

    def stiffness(r: float) -> float:
        decay = np.exp(-range_ * (r - distance))
        return 2 * depth * range_**2 * decay * (2 * decay - 1)

    mass = 1 / sum(1 / m for m in lih.MASSES) * constants.atomic_mass
    per_second = range_ * np.sqrt(2 * depth * constants.e / mass) / constants.angstrom
    expected = per_second / (2 * np.pi * constants.c) / 100
    assert lih.vibration(force, stiffness) == pytest.approx((distance, expected), rel=1e-9)


def test_a_curve_without_a_minimum_has_no_vibration():
    assert np.isnan(lih.vibration(lambda r: 1.0, lambda r: 1.0)).all()


def test_the_reference_has_the_equilibrium_and_the_wavenumber_of_ccsd():
    # A polynomial through the forces near the minimum, an independent fit.
    near = abs(lih.R - 1.6) < 0.16
    fit = np.polynomial.Polynomial.fit(lih.R[near], lih.F[near], 6)
    (root,) = (r.real for r in fit.roots() if abs(r.imag) < 1e-9 and 1.5 < r.real < 1.7)
    distance, wavenumber = lih.vibration(fit, lambda r: -fit.deriv()(r))
    assert distance == pytest.approx(root, abs=1e-6)
    assert lih.reference_vibration() == pytest.approx((distance, wavenumber), rel=1e-5)
    assert (distance, wavenumber) == pytest.approx((1.6155, 1359.3), rel=1e-4)


# The model


def test_the_energy_is_the_readout_of_the_state_that_qiskit_simulates():
    weights = lih.initial_weights(3)
    distance = 1.7
    x = (np.exp(-distance / 1.5) - 0.27) / 0.14
    circuit = QuantumCircuit(2)
    for layer in np.asarray(weights["theta"]):
        for qubit, (slope, offset, tilt) in enumerate(layer):
            circuit.ry(slope * x + offset, qubit)
            circuit.rx(tilt, qubit)
        circuit.cx(0, 1)
    state = Statevector(circuit)
    values = [state.expectation_value(SparsePauliOp(label)).real for label in ("IZ", "ZI", "ZZ")]
    expected = weights["shift"] + np.dot(weights["readout"], values)
    assert float(lih.energy(distance, weights)) == pytest.approx(float(expected), abs=1e-12)


def test_the_predicted_force_is_minus_the_difference_quotient_of_the_energy():
    weights, step = lih.initial_weights(1), 1e-4
    _, forces = lih.predict(lih.R, weights)
    above, _ = lih.predict(lih.R + step, weights)
    below, _ = lih.predict(lih.R - step, weights)
    np.testing.assert_allclose(forces, -(above - below) / (2 * step), atol=1e-6)


def test_the_gradient_of_the_force_loss_is_its_difference_quotient_in_every_weight():
    weights, step = lih.initial_weights(2), 1e-5
    flat, unravel = ravel_pytree(weights)
    loss = jax.jit(lambda v: lih.force_loss(unravel(v)))
    gradient = jax.grad(loss)(flat)
    quotients = [(loss(flat + e) - loss(flat - e)) / (2 * step) for e in step * np.eye(len(flat))]
    np.testing.assert_allclose(gradient, quotients, atol=1e-7)


def test_the_force_loss_is_a_fifth_of_the_energy_loss_and_the_scaled_error_of_the_forces():
    weights = lih.initial_weights(4)
    forces = lih.predict(lih.R, weights)[1][lih.TRAINING]
    truth = lih.F[lih.TRAINING]
    forces_alone = np.mean((forces - truth) ** 2) / np.var(truth)
    expected = 0.2 * float(lih.energy_loss(weights)) + forces_alone
    assert float(lih.force_loss(weights)) == pytest.approx(float(expected), rel=1e-12)


def test_a_step_on_forces_is_five_requests_one_of_them_of_second_order():
    step = jax.jit(jax.value_and_grad(lih.force_loss))
    with qml.use({"kind": "reference", "gradient": "parameter_shift"}), recorded() as requests:
        jax.block_until_ready(step(lih.initial_weights(0)))
    slots, points, data_slots = 12, 11, 6
    assert Counter((request.primitive, request.rows) for request in requests) == {
        ("expval", points): 1,
        ("expval_vjp", points * 2 * slots): 2,
        ("expval_jvp", points * 2 * data_slots): 1,
        # Per sample: itself, a slot twice, and each unordered pair that holds a data slot.
        ("expval_hvp", points * (1 + data_slots + 4 * (15 + 36))): 1,
    }


# The figures


def test_the_committed_weights_reach_the_figures(trained: dict[str, jax.Array]):
    assert_reaches_the_figures(trained)


@pytest.mark.slow
def test_training_reaches_the_figures():
    assert_reaches_the_figures(lih.train(lih.force_loss, lih.initial_weights(0), 1000))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 8))
def test_training_reaches_the_figures_from_any_start(seed: int):
    assert_reaches_the_figures(lih.train(lih.force_loss, lih.initial_weights(seed), 1000))


@pytest.mark.full
def test_training_without_forces_leaves_larger_errors_of_the_forces():
    start = lih.initial_weights(0)
    with_forces = lih.errors(lih.train(lih.force_loss, start, 1000))
    without = lih.errors(lih.train(lih.energy_loss, start, 1000))
    assert without[1] > 5 * with_forces[1]
    assert without[3] > 2 * with_forces[3]


# Other backends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("default", "seen"), [("statevector", {}), ("reference", {"reference": 27})]
)
def test_five_adam_steps_and_the_trained_curve_agree_on_aer(
    trained: dict[str, jax.Array], monkeypatch: pytest.MonkeyPatch, default: str, seen: dict
):
    """Compiled code of the statevector engine makes no requests that are seen."""
    assert lih.DEFAULT_KIND == "statevector"
    monkeypatch.setattr(lih, "DEFAULT_KIND", default)
    with recorded() as requests:
        found = lih.compare(resolve("aer"), lih.initial_weights(0), trained, steps=5)
    assert Counter(request.kind for request in requests) == {**seen, "aer": 27}
    assert set(found) == {"losses", "weights", "energies", "forces"}
    assert max(found.values()) <= 1e-6


def test_adam_moves_every_weight_and_lowers_the_loss():
    start = lih.initial_weights(0)
    weights, losses = lih.adam(start, steps=5)
    for key, value in weights.items():
        assert (abs(value - start[key]) > 1e-2).all(), key
    assert len(losses) == 5
    assert float(lih.force_loss(weights)) < losses[0]


# The command line


@pytest.mark.slow
def test_a_quick_run_prints_the_table_and_leaves_a_plot_and_weights(tmp_path: Path):
    done = run("--quick", "--seed", "1")
    assert done.returncode == 0, done.stderr
    table = done.stdout.splitlines()
    rows = "trained on", "mean errors", "energies, forces", "energies", "CCSD", "statevector:"
    for word in rows:
        assert any(line.startswith(word) for line in table), word
    assert (tmp_path / "lih_forces" / "lih_forces.png").read_bytes().startswith(b"\x89PNG")
    weights = json.loads((tmp_path / "lih_forces" / "lih_weights.json").read_text())
    assert {key: np.shape(value) for key, value in weights.items()} == {
        "theta": (3, 2, 3),
        "readout": (3,),
        "shift": (),
    }


@pytest.mark.slow
def test_another_backend_from_the_environment_is_compared_with_the_default():
    done = run("--steps", "1", QML_BACKEND="aer")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("aer against statevector, 1 steps of Adam")


@pytest.mark.slow
def test_a_backend_that_disagrees_ends_in_failure(tmp_path: Path):
    (tmp_path / "qml.toml").write_text('[backends.rough]\nkind = "aer"\nprecision = "single"\n')
    done = run("--backend", "rough", "--steps", "1")
    assert done.returncode == 1, done.stdout
    assert "disagree by more than 1e-06" in done.stderr


@pytest.mark.slow
def test_with_train_another_backend_does_the_training(tmp_path: Path):
    done = run("--backend", "aer", "--train", "--steps", "1", "--output", "there")
    assert done.returncode == 0, done.stderr
    assert "\naer: " in done.stdout
    assert (tmp_path / "there" / "lih_weights.json").exists()


Refused = Callable[..., str]


@pytest.fixture
def refused_at_once(refused: Refused) -> Iterator[Refused]:
    """The same for this example, without any training or evaluation."""
    with recorded() as requests:
        yield partial(refused, lih)
    assert all(request.rows == 1 for request in requests) and len(requests) <= 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--backend", "are"), "did you mean 'aer'?"),
        (("--steps", "0"), "--steps must be at least 1, got 0"),
        (("--seed", "-1"), "--seed: must be an integer from 0 to 4294967295, got -1"),
        (("--weights", "none.json"), "--weights none.json: [Errno 2] No such file"),
        (("--weights", "."), "--weights .: [Errno 21] Is a directory"),
        (("--output", "file"), "--output file: cannot be made a folder: File exists"),
        (("--output", "file/below"), "--output file/below: cannot be made a folder"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    refused_at_once: Refused,
):
    (tmp_path / "file").write_text("")
    assert sentence in refused_at_once(*arguments)
    assert (tmp_path / "file").read_text() == ""


def test_a_folder_that_cannot_be_written_to_is_refused(
    refused_at_once: Refused, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    assert "--output lih_forces: cannot be written to" in refused_at_once()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (None, "Expecting property name"),
        ([], "an object with the keys theta, readout, shift"),
        ({"shfit": 0.0}, "an object with the keys theta, readout, shift"),
        ({"theta": [[[0.0, 0.0, 0.0]]]}, "theta must hold finite numbers of shape (3, 2, 3)"),
        ({"theta": [[0.0], 1.0]}, "inhomogeneous shape"),
        ({"shift": None}, "shift must hold finite numbers of shape ()"),
        ({"shift": float("nan")}, "shift must hold finite numbers of shape ()"),
        ({"readout": ["a", "b", "c"]}, "readout must hold finite numbers of shape (3,)"),
    ],
)
def test_weights_that_are_none_are_refused(
    change: dict[str, object] | list[object] | None,
    sentence: str,
    trained: dict[str, jax.Array],
    tmp_path: Path,
    refused_at_once: Refused,
):
    good = {key: np.asarray(value).tolist() for key, value in trained.items()}
    content = good | change if isinstance(change, dict) else change
    (tmp_path / "w.json").write_text("{" if change is None else json.dumps(content))
    error = refused_at_once("--weights", "w.json")
    assert error.startswith("--weights w.json: ") and sentence in error


@pytest.mark.parametrize("arguments", [("--train",), ("--backend", "sampled", "--train")])
def test_training_by_line_searches_is_refused_on_a_noisy_backend(
    arguments: tuple[str, ...],
    tmp_path: Path,
    refused_at_once: Refused,
):
    ambient = "" if "--backend" in arguments else 'backend = "sampled"\n'
    table = '[backends.sampled]\nkind = "aer"\nshots = 100\n'
    (tmp_path / "qml.toml").write_text(ambient + table)
    error = refused_at_once(*arguments)
    assert "needs exact values, but the backend is noisy" in error and "Leave out --train" in error


def test_a_misspelt_backend_of_the_environment_is_refused(
    refused_at_once: Refused, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("QML_BACKEND", "are")
    assert "QML_BACKEND: there is no backend 'are'" in refused_at_once()


def test_a_device_that_is_not_there_is_told_before_the_comparison(
    tmp_path: Path, refused_at_once: Refused, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("qml.simulators.aer.engine.AerSimulator.available_devices", lambda _: [])
    (tmp_path / "qml.toml").write_text('[backends.fast]\nkind = "aer"\ndevice = "GPU"\n')
    assert "GPU" in refused_at_once("--backend", "fast")


@pytest.mark.slow
def test_a_budget_that_is_spent_ends_it_with_its_message_and_no_traceback(tmp_path: Path):
    table = '[backends.paid]\nkind = "aer"\nbudget = { jobs = 1 }\n'
    (tmp_path / "qml.toml").write_text(table)
    done = run("--backend", "paid", "--steps", "1")
    assert done.returncode == 1
    assert done.stderr.startswith("md_lih_forces.py: error: the request would exceed the budget")
    assert len(done.stderr.splitlines()) == 1
