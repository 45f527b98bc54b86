"""Noise-aware training: folding keeps values and multiplies noise, on every compiler."""

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripts import load

import qml
from qml.config import resolve
from qml.kinds import AerConfig
from qml.simulators.aer.engine import AerEngine

training = load("noise_aware_training")
X = jnp.array([0.3, -0.9])
THETA = jax.random.normal(jax.random.key(1), (3, 2, 2))


def compiled(scale, noise):
    """The circuit that runs for the folded classifier."""
    folded = training.fold(training.classifier, scale)
    engine = AerEngine(AerConfig(noise=noise))
    return engine._compiled(folded.func.program(*folded.args, X, THETA)).circuit


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--backend", "aer", "--seed", "3")])
def test_the_quick_form_prints_the_table_and_draws_the_curves(tmp_path, run_example, arguments):
    path = tmp_path / "curves.png"
    printed = run_example("noise_aware_training.py", "--quick", "--plot", str(path), *arguments)
    rows = re.findall(r"^(ideal|noisy|extrapolated) ((?: +\d+\.\d+){6})$", printed, re.MULTILINE)
    assert [name for name, _ in rows] == ["ideal", "noisy", "extrapolated"]
    for _, numbers in rows:
        ideal, _, noisy, _, extrapolated, _ = map(float, numbers.split())
        if arguments:  # that backend has no noise
            assert ideal == pytest.approx(noisy, abs=1e-3) == pytest.approx(extrapolated, abs=1e-3)
        else:
            assert abs(extrapolated - ideal) < 0.2 * abs(noisy - ideal)
    assert "step   2 of 2" in printed
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_plan_names_every_request_and_sends_none(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["noise_aware_training.py", "--quick", "--plan"])
    with qml.recorded() as runs:
        training.main()
    assert runs == []
    printed = capsys.readouterr().out
    # Eight points; 18 angles of a copy of the circuit and 2 of what follows it, each shifted twice.
    rows = sum(8 * (1 + 2 * 20 * scale) for scale in training.SCALES)
    assert re.search(rf"^a step +{rows:,} ", printed, re.MULTILINE), printed
    assert re.search(rf"^2 steps +{2 * rows:,} ", printed, re.MULTILINE)


@pytest.mark.parametrize("scale", training.SCALES)
def test_a_folded_circuit_has_the_values_of_the_circuit(scale):
    folded = training.fold(training.classifier, scale)
    right = training.classifier(X, THETA, backend="reference")
    np.testing.assert_allclose(folded(X, THETA, backend="reference"), right, atol=1e-6)
    slope = jax.grad(lambda theta: folded(X, theta, backend="reference"))(THETA)
    right = jax.grad(lambda theta: training.classifier(X, theta, backend="reference"))(THETA)
    np.testing.assert_allclose(slope, right, atol=1e-5)


@pytest.mark.parametrize("noise", [training.NOISE["noise"], "FakeManilaV2"])
def test_no_compiler_takes_the_copies_away(noise):
    """Neither gate by gate, nor that of a machine, which cancels what it can."""
    once = compiled(1, noise).count_ops()
    for scale in (3, 5):
        ops = compiled(scale, noise).count_ops()
        assert ops["cx"] == scale * once["cx"] == 3 * scale
        if noise != "FakeManilaV2":
            assert ops == {name: scale * count for name, count in once.items()}
        else:
            assert abs(ops["sx"] - scale * once["sx"]) <= 0.1 * ops["sx"]


def test_without_the_seam_a_machine_cancels_the_copies():
    @qml.qkernel(qubits=2)
    def bare(qc, x, theta):
        for part in (False, True, False):
            once = qc.copy_empty_like()
            training.classifier.function(once, x, theta)
            qc.compose(once.inverse() if part else once, inplace=True)
        return qml.Z(1)

    engine = AerEngine(AerConfig(noise="FakeManilaV2"))
    ops = engine._compiled(bare.program(X, THETA)).circuit.count_ops()
    assert ops["cx"] < 3 * 3


@pytest.mark.parametrize("noise", [training.NOISE["noise"], "FakeManilaV2"])
def test_noise_grows_with_the_scale(noise):
    ideal = training.classifier(X, THETA, backend="reference")
    backend = {"kind": "aer", "noise": noise}
    found = [training.fold(training.classifier, s)(X, THETA, backend=backend) for s in (1, 3, 5)]
    missed = np.abs(np.array(found) - ideal)
    assert np.all(np.diff(missed) > 0.02)
    assert missed[0] > 0.02


def test_depolarising_noise_of_a_folded_circuit_is_the_power_of_the_scale():
    """X and its copies: (1 - p) for every gate, the seam included."""

    @qml.qkernel(qubits=1)
    def flip(qc):
        qc.x(0)
        return qml.Z(0)

    backend = {"kind": "aer", "noise": {"depolarizing_1q": 0.03}}
    for scale in (1, 3, 5):
        found = training.fold(flip, scale)(backend=backend)
        np.testing.assert_allclose(found, -(0.97 ** (2 * scale)), rtol=1e-6)


def test_the_weights_continue_polynomials_to_zero():
    assert training.weights((1, 3, 5)) == pytest.approx([15 / 8, -10 / 8, 3 / 8])
    w = np.array(training.weights((1, 3, 5)))
    for power, right in enumerate((1, 0, 0)):
        assert w @ np.array([1.0, 3.0, 5.0]) ** power == pytest.approx(right, abs=1e-12)


def test_extrapolation_comes_nearer_to_the_ideal_values_and_slopes():
    ways = training.readings(training.NOISE)
    x, y = training.rings(6, 0)
    found = {
        name: jax.value_and_grad(training.loss)(THETA, reading, x, y)
        for name, reading in ways.items()
    }
    value, slope = found["ideal"]
    for name, factor in (("noisy", 1), ("extrapolated", 0.25)):
        missed = abs(found[name][0] - value), np.abs(found[name][1] - slope).max()
        if name == "noisy":
            plain = missed
        assert all(m <= factor * p for m, p in zip(missed, plain, strict=True))
    assert plain[0] > 0.01


@pytest.mark.parametrize("scale", [0, 2, -1])
def test_an_even_scale_is_refused(scale):
    with pytest.raises(ValueError, match=f"odd scale of at least 1, got {scale}"):
        training.fold(training.classifier, scale)


def test_the_default_noise_is_a_valid_backend():
    assert resolve(training.NOISE).effective_method == "density_matrix"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--backend", "aerr"), "did you mean 'aer'"),
        (("--seed", "-1"), "--seed: must be an integer from 0 to 4294967294, got -1"),
        (("--plot", "none/curves.png"), "--plot: no file can be written at none/curves.png"),
        (("--plot", "curves.pnj"), "--plot: curves.pnj must end in one of"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(arguments, sentence, refused):
    assert sentence in refused(training, "--quick", *arguments)
