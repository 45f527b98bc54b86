"""The Equinox example: a hybrid classifier that learns two moons."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "jax_equinox.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses_and_accuracy(output):
    losses = [float(x) for x in re.findall(r"^step +\d+, loss (\S+)$", output, re.MULTILINE)]
    (accuracy,) = re.findall(r"^accuracy on 200 unseen points: (\S+) %$", output, re.MULTILINE)
    return losses, float(accuracy)


def test_the_quick_form_lowers_the_loss():
    losses, accuracy = losses_and_accuracy(run("--quick"))
    assert len(losses) == 5 and losses[-1] < losses[0]
    assert 0 <= accuracy <= 100


@pytest.mark.slow
def test_unseen_points_are_told_apart_better_than_a_line_can():
    x, y = make_moons(400, noise=0.15, random_state=0)
    line = LogisticRegression().fit(x[:200], y[:200]).score(x[200:], y[200:])
    _, accuracy = losses_and_accuracy(run())
    assert accuracy > 100 * line + 3
