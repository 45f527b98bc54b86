"""Processes of their own, that lack packages or have not seen what a test defines."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def without(*packages):
    """The first lines of a script in which these cannot be imported; ABSENT are their names."""
    return f"""
import sys

ABSENT = {set(packages)!r}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        absent = name.split(".")[0] in ABSENT
        return None if absent else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


LOAD = """
import sys
import keras, numpy as np, qml.layers
assert not [name for name in qml.kernels if "library" in name]
model = keras.saving.load_model(sys.argv[1])
layer = model.layers[-1]
print({said})
np.save(sys.argv[3], model.predict(np.load(sys.argv[2]), verbose=0))
"""


def loaded(layer, inputs, built, folder, said):
    """A model of one layer, saved, and loaded where no ready kernel has been made.

    Returns:
        the model, what is printed of `said`, an expression of `layer`, and the values found there.
    """
    if built:
        model = keras.Sequential([keras.Input(inputs.shape[1:]), layer])
        model.save(folder / "model.keras")
    else:
        model = keras.Sequential([layer])
        with pytest.warns(UserWarning, match="not yet been built"):
            model.save(folder / "model.keras")
    np.save(folder / "x.npy", inputs)
    names = [str(folder / name) for name in ("model.keras", "x.npy", "y.npy")]
    run = subprocess.run(
        [sys.executable, "-c", LOAD.format(said=said), *names],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return model, run.stdout, np.load(folder / "y.npy")
