"""The Flax example: a curve that the kernel fits between the points too."""

import re

import pytest


def losses_and_error(output):
    losses = [float(x) for x in re.findall(r"^step +\d+, loss (\S+)$", output, re.MULTILINE)]
    (error,) = re.findall(r"^error \(rms\) between the points: (\S+)$", output, re.MULTILINE)
    return losses, float(error)


def test_the_quick_form_lowers_the_loss(run_example):
    losses, error = losses_and_error(run_example("jax_flax_nnx.py", "--quick"))
    assert len(losses) == 5 and losses[-1] < losses[0]
    assert error > 0


@pytest.mark.slow
def test_the_curve_is_fitted_between_the_points_too(run_example):
    """Its own size is sqrt((1 + 0.25) / 2) = 0.79."""
    _, error = losses_and_error(run_example("jax_flax_nnx.py"))
    assert error < 0.05
