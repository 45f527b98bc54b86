"""A trained quantum model behind HTTP, by a server that has TensorFlow and nothing else of ours.

    python examples/serve_model.py train            # some ten seconds; writes ./iris_model
    python examples/serve_model.py train --quick    # two epochs, to see that everything works
    python examples/serve_model.py serve            # at http://127.0.0.1:8501, until Ctrl-C
    curl -d '{"instances": [[5.1, 3.5, 1.4, 0.2]]}' http://127.0.0.1:8501

Training writes a SavedModel. Serving loads it with `tf.saved_model.load`: no circuit, no Qiskit, no
JAX, no Keras, and not this library. Requests and answers are those of TensorFlow Serving, which
reads the same folder. What is no batch of flowers gets a 400 that says why.

The data ship with scikit-learn: lengths and widths, in cm, of the sepals and petals of 150 irises.
"""

import argparse
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

LARGEST = 1 << 20
"""Bytes of a request."""


def train(folder: Path, epochs: int) -> None:
    """Trains a classifier of three kinds of iris, and exports it."""
    os.environ.setdefault("KERAS_BACKEND", "jax")  # Keras reads it when it is imported
    import qml.layers  # before Keras: it says what to do where Keras' backend does not fit

    # isort: split
    import keras
    from sklearn.datasets import load_iris

    @qml.qkernel(qubits=4)
    def core(qc, x, theta):
        """<Z> of each qubit after the data x (4,) was encoded in every layer of theta (2, 4, 2)."""
        for layer in theta:
            for q in range(4):
                qc.ry(x[q], q)
                qc.ry(layer[q, 0], q)
                qc.rz(layer[q, 1], q)
            for q in range(4):
                qc.cx(q, (q + 1) % 4)
        return [qml.Z(q) for q in range(4)]

    keras.utils.set_random_seed(0)
    x, y = load_iris(return_X_y=True)
    scale = keras.layers.Normalization()  # within the model, so that it takes centimetres
    scale.adapt(x)
    quantum = qml.layers.QuantumLayer(core, weights={"theta": (2, 4, 2)})
    head = keras.layers.Dense(3, "softmax")
    model = keras.Sequential([keras.Input((4,)), scale, quantum, head])
    loss = keras.losses.SparseCategoricalCrossentropy()
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    model.fit(x, y, epochs=epochs, verbose=1 if sys.stdout.isatty() else 2)
    qml.layers.export(model, folder)
    print(f"exported to {folder}")


def instances(body: bytes, features: int) -> np.ndarray:
    """The batch (N, features) of a request; ValueError says what is wrong with it."""
    asked = json.loads(body)
    if not isinstance(asked, dict) or set(asked) != {"instances"}:
        raise ValueError('expected an object with the one key "instances"')
    batch = np.array(asked["instances"])
    if batch.dtype.kind not in "if" or batch.ndim != 2 or batch.shape[1] != features:
        raise ValueError(f'"instances" must be a list of lists of {features} numbers')
    if not len(batch) or not (np.abs(batch) < np.finfo("float32").max).all():  # nor NaN
        raise ValueError('"instances" must hold at least one row, and finite numbers')
    return batch.astype("float32")


def serve(folder: Path, port: int) -> None:
    """Answers requests until it is interrupted."""
    import tensorflow as tf

    model = tf.saved_model.load(str(folder))
    _, inputs = model.signatures["serve"].structured_input_signature
    (features,) = (spec.shape[1] for spec in inputs.values())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                length = self.headers.get("Content-Length", "")
                if not length.isdecimal() or int(length) > LARGEST:
                    raise ValueError(f"expected a Content-Length of at most {LARGEST}")
                batch = instances(self.rfile.read(int(length)), features)
            except (ValueError, RecursionError) as error:
                self.answer(400, {"error": f"bad request: {error}"})
            else:
                values = model.serve(tf.constant(batch)).numpy()
                self.answer(200, {"predictions": values.tolist()})

        def answer(self, status: int, content: dict[str, object]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"serving {folder} at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["train", "serve"])
    parser.add_argument("--folder", type=Path, default=Path("iris_model"))
    parser.add_argument("--quick", action="store_true", help="train for two epochs, not 60")
    parser.add_argument("--port", type=int, default=8501, help="0 takes any that is free")
    options = parser.parse_args()
    if options.command == "train":
        train(options.folder, 2 if options.quick else 60)
    elif not (options.folder / "saved_model.pb").exists():
        parser.error(f"--folder {options.folder}: no exported model there; train one first")
    else:
        serve(options.folder, options.port)


if __name__ == "__main__":
    main()
