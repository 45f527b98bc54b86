"""The classifier example: equal sizes, a table of accuracies, a plot, on any backend."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "keras_classifier.py"


def load():
    spec = importlib.util.spec_from_file_location("keras_classifier", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


classifier = load()


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


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
        (("--seed", "-1"), "--seed must be from 0 to 2**32 - 3, got -1"),
        (("--seed", "4294967294"), "--seed must be from 0 to 2**32 - 3"),
        (("--plot", "none/curves.png"), "--plot none/curves.png: no file can be written there"),
        (("--plot", "folder.png"), "--plot folder.png: no file can be written there"),
        (("--plot", "curves.pnj"), "--plot curves.pnj: must end in one of"),
        (("--plot", "curves"), "--plot curves: must end in one of"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(
    arguments, sentence, tmp_path, capsys, monkeypatch
):
    (tmp_path / "folder.png").mkdir()
    assert sentence in refused(capsys, monkeypatch, *arguments)


def test_a_misspelt_backend_of_the_environment_is_refused(capsys, monkeypatch):
    monkeypatch.setenv("QML_BACKEND", "aerr")
    assert "QML_BACKEND: there is no backend 'aerr'" in refused(capsys, monkeypatch)


def refused(capsys, monkeypatch, *arguments):
    """What the command line says in one line, before any training."""
    monkeypatch.setattr(sys, "argv", ["keras_classifier.py", "--quick", *arguments])
    monkeypatch.setattr(classifier.keras.Model, "fit", None)
    with pytest.raises(SystemExit) as caught:
        classifier.main()
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    *usage, error = err.rstrip("\n").split("\nkeras_classifier.py: error: ")
    assert len(usage) == 1
    assert "\n" not in error
    return error


def test_another_keras_backend_is_refused_in_our_words(tmp_path):
    done = run("--quick", KERAS_BACKEND="numpy", KERAS_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "Quantum layers run on Keras' 'jax', 'tensorflow' and 'torch' backends" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("qml.errors.")
