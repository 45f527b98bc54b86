"""The Equinox example: a hybrid classifier that learns two moons."""

import re

import pytest
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression


def losses_and_accuracy(output):
    losses = [float(x) for x in re.findall(r"^step +\d+, loss (\S+)$", output, re.MULTILINE)]
    (accuracy,) = re.findall(r"^accuracy on 200 unseen points: (\S+) %$", output, re.MULTILINE)
    return losses, float(accuracy)


def test_the_quick_form_lowers_the_loss(run_example):
    losses, accuracy = losses_and_accuracy(run_example("jax_equinox.py", "--quick"))
    assert len(losses) == 5 and losses[-1] < losses[0]
    assert 0 <= accuracy <= 100


@pytest.mark.slow
def test_unseen_points_are_told_apart_better_than_a_line_can(run_example):
    x, y = make_moons(400, noise=0.15, random_state=0)
    line = LogisticRegression().fit(x[:200], y[:200]).score(x[200:], y[200:])
    _, accuracy = losses_and_accuracy(run_example("jax_equinox.py"))
    assert accuracy > 100 * line + 3
