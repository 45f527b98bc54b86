"""Fitting: the loss and its derivatives, each stage, what is counted, and going on where it was."""

from collections import Counter
from dataclasses import replace

import fitting
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from configuration import Training
from hydronium import RECIPES, frames, model
from jax.flatten_util import ravel_pytree
from problems import MDError

from qml.execution import recorded

TRAIN, VALID = frames(24), frames(10, seed=1)


def loss_of(name: str, **settings: float) -> tuple[fitting.Loss, fitting.Sample, np.ndarray]:
    of = model(name)
    loss = fitting.Loss(of, Training(**settings))
    first = ravel_pytree(of.initial(0))[0]
    flat = np.asarray(first) + np.random.default_rng(0).normal(0, 0.1, first.shape)
    return loss, fitting.sample(of, TRAIN), flat


@pytest.mark.parametrize("name", RECIPES)
def test_the_loss_is_the_weighted_error_of_energies_and_forces(name: str):
    loss, sample, flat = loss_of(name, energy_weight=0.3, decay=1e-3)
    of = loss.model
    energies, forces = of.batch(loss.unravel(jnp.asarray(flat)), TRAIN.positions, None)
    expected = (
        0.3 * np.mean((energies - TRAIN.energies) ** 2) / of.scaling.energy**2
        + np.mean((forces - TRAIN.forces) ** 2) / of.scaling.force**2
        + 1e-3 * np.sum(flat**2)
    )
    assert float(loss.mean(flat, sample)) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("name", RECIPES)
def test_the_equations_are_the_loss_its_gradient_and_that_of_its_residuals(name: str):
    loss, sample, flat = loss_of(name, decay=1e-3)
    value, half_slope, hessian = loss.equations(flat, sample)
    assert float(value) == pytest.approx(float(loss.mean(flat, sample)), rel=1e-10)
    expected, slope = loss.slope(flat, sample)
    assert float(expected) == pytest.approx(float(value), rel=1e-10)
    np.testing.assert_allclose(2 * half_slope, slope, rtol=1e-8, atol=1e-8)
    # The residuals' own derivatives, by differences along one direction.
    along, step = np.random.default_rng(1).normal(size=flat.shape), 1e-6
    each = jax.jit(jax.vmap(loss.residuals, (None, 0)))
    moved = (each(flat + step * along, sample) - each(flat - step * along, sample)) / (2 * step)
    curvature = np.sum(np.asarray(moved) ** 2) / len(TRAIN) + 1e-3 * along @ along
    assert along @ np.asarray(hessian) @ along == pytest.approx(curvature, rel=1e-6)


@pytest.mark.parametrize("name", RECIPES)
def test_the_gradient_is_its_difference_quotient(name: str):
    loss, sample, flat = loss_of(name)
    _, slope = loss.slope(flat, sample)
    along, step = np.random.default_rng(2).normal(size=flat.shape), 1e-6
    ends = [float(loss.mean(flat + s * along, sample)) for s in (step, -step)]
    assert float(slope @ along) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_a_step_on_energies_and_forces_has_one_hessian_product():
    """On an engine that counts: values and slopes, and one request of second order."""
    of = model("circuit")
    there = type(of)(of.symbols, of.recipe, of.scaling, {"kind": "reference"})
    loss = fitting.Loss(there, Training())
    flat = ravel_pytree(of.initial(0))[0]
    with recorded() as requests:
        jax.block_until_ready(loss.slope(flat, fitting.sample(there, TRAIN[:2])))
    counted = Counter(request.primitive for request in requests)
    assert counted["expval_hvp"] == 1
    assert sum(counted.values()) <= 5, counted


def test_linear_weights_are_those_of_least_squares():
    of = model("polynomial")
    params, run = fitting.fit(of, TRAIN, VALID, Training(polish=0))
    loss, sample = fitting.Loss(of, Training()), fitting.sample(of, TRAIN)
    # An independent solution: residuals are affine in the weights.
    zero = np.zeros(of.count())
    rows = np.stack([
        np.ravel(jax.vmap(loss.residuals, (None, 0))(e, sample)) for e in np.eye(of.count())
    ])  # fmt: skip
    rest = np.ravel(jax.vmap(loss.residuals, (None, 0))(zero, sample))
    expected = np.linalg.lstsq((rows - rest).T, -rest, rcond=None)[0]
    np.testing.assert_allclose(ravel_pytree(params)[0], expected, rtol=1e-4, atol=1e-6)
    assert [entry[0] for entry in run.history] == ["linear"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["circuit", "delta", "network"])
def test_least_squares_steps_lower_the_loss_at_every_step(name: str):
    _, run = fitting.fit(model(name), TRAIN, VALID, Training(polish=15))
    losses = [now for _, _, now, _ in run.history]
    assert all(after < before for before, after in zip(losses, losses[1:], strict=False))
    assert losses[-1] < losses[0] / 3


def test_adam_lowers_the_loss_and_uses_every_frame_of_an_epoch():
    settings = Training(steps=30, batch=8, rate=0.01, polish=0)
    _, run = fitting.fit(model("circuit"), TRAIN, VALID, settings)
    assert [entry[0] for entry in run.history] == ["linear", "adam"]
    batches = fitting._batches(settings, 24, 8)
    assert batches.shape == (30, 8)
    for epoch in range(10):
        assert sorted(batches[3 * epoch : 3 * epoch + 3].ravel()) == list(range(24))


def test_the_weights_of_the_least_validation_loss_are_kept():
    of, settings = model("delta"), Training(polish=25, frames=None)
    params, run = fitting.fit(of, TRAIN[:6], VALID, settings)  # so few frames are overfitted
    loss = fitting.Loss(of, settings)
    kept = float(loss.mean(ravel_pytree(params)[0], fitting.sample(of, VALID)))
    assert kept == pytest.approx(min(there for *_, there in run.history), rel=1e-12)


@pytest.mark.slow
def test_a_fit_that_was_stopped_ends_with_the_same_digits():
    settings = Training(steps=120, batch=8, polish=5)
    kept: list[dict[str, np.ndarray]] = []
    whole, run = fitting.fit(model("delta"), TRAIN, VALID, settings, keep=kept.append)
    for stop in (1, 5):  # in the midst of Adam, and of least squares
        again, second = fitting.fit(model("delta"), TRAIN, VALID, settings, kept=kept[stop])
        for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(one, other)
        assert second.history == run.history
    stages = [str(arrays["stage"]) for arrays in kept]
    assert (stages[1], stages[5]) == ("adam", "polish")


def test_a_kept_run_has_the_name_of_its_configuration_and_data():
    of, settings = model("delta"), Training()
    name = fitting.identity(of, TRAIN, VALID, settings)
    assert name == fitting.identity(of, TRAIN, VALID, settings)
    others = [
        fitting.identity(of, TRAIN, VALID, settings.model_copy(update={"seed": 1})),
        fitting.identity(of, TRAIN[:20], VALID, settings),
        fitting.identity(of, TRAIN, replace(VALID, energies=VALID.energies + 1), settings),
        fitting.identity(model("circuit"), TRAIN, VALID, settings),
    ]
    assert len({name, *others}) == 5


def test_the_same_seed_gives_the_same_digits_and_another_does_not():
    def end(seed: int) -> np.ndarray:
        settings = Training(polish=3, seed=seed)
        return np.asarray(ravel_pytree(fitting.fit(model("circuit"), TRAIN, VALID, settings)[0])[0])

    np.testing.assert_array_equal(end(1), end(1))
    assert abs(end(1) - end(2)).max() > 1e-3


def test_a_loss_that_is_not_finite_is_told():
    broken = replace(VALID, energies=np.full(len(VALID), np.inf))
    with pytest.raises(MDError, match="the loss became .* in stage linear"):
        fitting.fit(model("circuit"), TRAIN, broken, Training(polish=1))


def test_progress_is_reported():
    told = []
    fitting.fit(
        model("circuit"), TRAIN, VALID, Training(polish=2), report=lambda *what: told.append(what)
    )
    assert [what[:3] for what in told] == [
        ("linear", 1, 1), ("polish", 1, 2), ("polish", 2, 2)
    ]  # fmt: skip


def test_forces_alone_train():
    """A loss without energies reaches every weight in front of the circuit, through its slope."""
    loss, sample, flat = loss_of("circuit", energy_weight=0.0)
    _, slope = loss.slope(flat, sample)
    moved = loss.unravel(jnp.abs(slope))["circuit"]
    # The last couplings and turns about Z commute with what is measured.
    seen = moved["slope"], moved["offset"], moved["coupling"][:-1], moved["twist"][:-1]
    assert all(float(jnp.min(each)) > 1e-6 for each in seen)
