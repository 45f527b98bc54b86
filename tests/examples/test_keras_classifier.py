"""The classifier example: equal sizes, a table of accuracies, a plot, on any backend."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scripts

classifier = scripts.load("keras_classifier")
run = partial(scripts.run, "keras_classifier.py")


@pytest.mark.parametrize("arguments", [(), ("--backend", "aer", "--seed", "3")])
def test_the_quick_form_prints_both_accuracies_and_draws_them(tmp_path, arguments):
    done = run("--quick", "--plot", str(tmp_path / "curves.png"), *arguments)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\d+|mean) +(\d+\.\d) +(\d+\.\d)$", done.stdout, re.MULTILINE)
    seed = "3" if arguments else "0"
    assert [label for label, *_ in rows] == [seed, "mean"]
    assert all(0 <= float(value) <= 100 for _, *values in rows for value in values)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_models_have_equally_many_weights_and_differ_in_the_core():
    hybrid, classical = classifier.models(13, 3, None)
    assert hybrid.count_params() == classical.count_params() == 87
    shapes = [[w.shape for w in model.weights] for model in (hybrid, classical)]
    assert shapes[0][:2] == shapes[1][:2] and shapes[0][3:] == shapes[1][3:]
    assert hybrid.layers[1].kernel is classifier.core


@pytest.mark.parametrize(("data", "features"), [("wine", 13), ("digits", 16)])
def test_tested_samples_are_in_no_training_set(data, features):
    x, x_test, y, y_test = classifier.split(data, 0)
    assert x.shape == (len(y), features) and x_test.shape == (len(y_test), features)
    np.testing.assert_allclose(x.std(axis=0), 1)
    distances = np.linalg.norm(x_test[:, None] - x[None], axis=-1)
    assert distances.min() > 1e-6
    again = classifier.split(data, 0)
    assert all(np.array_equal(a, b) for a, b in zip(again, (x, x_test, y, y_test), strict=True))


@pytest.mark.slow
def test_both_models_learn_the_wines():
    curves = classifier.train("wine", 0, 12, None)
    assert curves["hybrid"][-1] > 0.9 and curves["classical"][-1] > 0.9


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--backend", "aerr"), "did you mean 'aer'"),
        (("--seed", "-1"), "--seed: must be an integer from 0 to 4294967293, got -1"),
        (("--seed", "4294967294"), "--seed: must be an integer from 0 to 4294967293"),
        (("--seed", "1.0"), "--seed: must be an integer from 0 to 4294967293, got 1.0"),
        (("--plot", "none/curves.png"), "--plot: no file can be written at none/curves.png"),
        (("--plot", "folder.png"), "--plot: no file can be written at folder.png"),
        (("--plot", "curves.pnj"), "--plot: curves.pnj must end in one of"),
        (("--plot", "curves"), "--plot: curves must end in one of"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(
    arguments, sentence, tmp_path, refused, monkeypatch
):
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(classifier.keras.Model, "fit", None)  # before any training
    assert sentence in refused(classifier, "--quick", *arguments)


def test_a_misspelt_backend_of_the_environment_is_refused(refused, monkeypatch):
    monkeypatch.setenv("QML_BACKEND", "aerr")
    monkeypatch.setattr(classifier.keras.Model, "fit", None)
    assert "QML_BACKEND: there is no backend 'aerr'" in refused(classifier, "--quick")


@pytest.mark.slow
def test_a_budget_that_is_spent_in_training_ends_it_with_its_message_and_no_traceback():
    table = '[backends.paid]\nkind = "aer"\nshots = 10\nbudget = { jobs = 3 }\n'
    Path("qml.toml").write_text(table)
    done = run("--quick", "--samples", "32", "--backend", "paid")
    assert done.returncode == 1
    *before, line = done.stderr.splitlines()  # TensorFlow logs when Keras imports it
    assert "Traceback" not in "".join(before)
    assert line.startswith("keras_classifier.py: error: the request would exceed the budget of the")
    assert "jobs may be 3 in all, 3 are spent and 1 more" in line


def test_another_keras_backend_is_refused_in_our_words(tmp_path):
    done = run("--quick", KERAS_BACKEND="numpy", KERAS_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "Quantum layers run on Keras' 'jax', 'tensorflow' and 'torch' backends" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("qml.errors.")
