"""Which Keras backends the layers run on, and what is said about the others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
import qml
try:
    import qml.layers
except qml.QMLError as error:
    print(type(error).__name__, isinstance(error, ImportError), error)
"""


def said(keras_backend, package, home):
    environment = {k: v for k, v in os.environ.items() if k != "KERAS_BACKEND"}
    environment["KERAS_HOME"] = str(home)
    if keras_backend:
        environment["KERAS_BACKEND"] = keras_backend
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package)],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return run.stdout


@pytest.mark.parametrize(
    ("keras_backend", "package"),
    [(None, "tensorflow"), ("tensorflow", "tensorflow"), ("torch", "torch"), ("jax", "keras")],
)
def test_a_missing_framework_is_named_with_what_to_set(keras_backend, package, tmp_path):
    message = said(keras_backend, package, tmp_path)
    assert message.startswith(
        f"MissingDependencyError True Keras cannot be imported, because '{package}'"
    )
    assert (
        "KERAS_BACKEND to 'jax'" in message
        and "'hybrid-qml[tensorflow]' or 'hybrid-qml[torch]'" in message
    )


def test_another_keras_backend_is_refused_and_the_supported_ones_named(tmp_path):
    message = said("numpy", "none", tmp_path)
    assert message.startswith("ConfigError False Keras runs on its 'numpy' backend.")
    assert "'jax', 'tensorflow' and 'torch' backends" in message
