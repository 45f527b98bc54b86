"""The Flax example: a curve that the kernel fits between the points too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "jax_flax_nnx.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses_and_error(output):
    losses = [float(x) for x in re.findall(r"^step +\d+, loss (\S+)$", output, re.MULTILINE)]
    (error,) = re.findall(r"^error \(rms\) between the points: (\S+)$", output, re.MULTILINE)
    return losses, float(error)


def test_the_quick_form_lowers_the_loss():
    losses, error = losses_and_error(run("--quick"))
    assert len(losses) == 5 and losses[-1] < losses[0]
    assert error > 0


@pytest.mark.slow
def test_the_curve_is_fitted_between_the_points_too():
    """Its own size is sqrt((1 + 0.25) / 2) = 0.79."""
    _, error = losses_and_error(run())
    assert error < 0.05
