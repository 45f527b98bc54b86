"""One script, three Keras backends: the same losses from the same weights."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from qml.layers import SUPPORTED

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import json, sys
import keras, numpy as np, qml

@qml.qkernel(qubits=3, name="encoder")
def encoder(qc, x, theta):
    for layer in theta:
        for q in range(3):
            qc.ry(x[q], q)
            qc.ry(layer[q, 0], q)
            qc.rz(layer[q, 1], q)
        for q in range(3):
            qc.cx(q, (q + 1) % 3)
    return [qml.Z(q) for q in range(3)] + [qml.probs(0)]

data = np.load(sys.argv[1])
layer = qml.layers.QuantumLayer(encoder, weights={"theta": (2, 3, 2)})
model = keras.Sequential([
    keras.Input((4,)), keras.layers.Dense(3, "tanh"), layer, keras.layers.Dense(2, "relu"),
    keras.layers.Dense(1),
])
for i, variable in enumerate(model.trainable_variables):
    variable.assign(data[f"weight {i}"])
model.compile(keras.optimizers.Adam(0.02), "mse")
fit = model.fit(data["x"], data["y"], batch_size=16, epochs=10, shuffle=False, verbose=0)
print(json.dumps([keras.backend.backend(), fit.history["loss"]]))
"""

SHAPES = [(4, 3), (3,), (2, 3, 2), (5, 2), (2,), (2, 1), (1,)]


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="runs on every Keras backend itself")
def test_a_script_has_the_same_loss_curve_on_every_keras_backend(tmp_path):
    """CASES 42, in the single precision and with the engine that are Keras' and our defaults."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (40, 4)).astype("float32")
    weights = {f"weight {i}": rng.normal(0, 0.7, shape) for i, shape in enumerate(SHAPES)}
    np.savez(tmp_path / "start.npz", x=x, y=np.sin(2 * x[:, :1]) * x[:, 1:2], **weights)
    curves = []
    for backend in SUPPORTED:
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "start.npz")],
            cwd=ROOT,
            env=os.environ | {"KERAS_BACKEND": backend},
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        ran_on, curve = json.loads(run.stdout)
        assert ran_on == backend and len(curve) == 10
        curves.append(curve)
    assert curves[0][-1] < 0.5 * curves[0][0]
    for curve in curves[1:]:
        np.testing.assert_allclose(curve, curves[0], atol=1e-5)
