"""A Keras classifier with a quantum layer, beside a classical one of equal size.

The models differ in their core only: four qubits with 16 angles, or a dense layer with 16 weights.
Data, optimizer and all else are the same, and accuracies are on samples that no model has seen, one
pair of models per seed.

    python examples/keras_classifier.py                  # wine, three seeds, the default backend
    python examples/keras_classifier.py --quick          # a few steps, to see that everything works
    python examples/keras_classifier.py --data digits    # ten classes and ten times the data
    python examples/keras_classifier.py --backend aer    # the same on Aer, which takes longer
    python examples/keras_classifier.py --backend ibm --plan    # what would it cost there?

Data ship with scikit-learn: 13 chemical measurements of 178 wines from 3 growers, or 1797 images of
handwritten digits, reduced to 16 principal components. The front of the models and the initial
angles were chosen on these data, in a few tries. One of the 45 wines that are tested is 2.2 %. On
the digits, where four expectation values tell ten classes apart, the classical model is better.

Keras runs on JAX unless KERAS_BACKEND says otherwise.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")  # Keras reads it when it is imported

import qml.layers  # before Keras: it says what to do where Keras' backend does not fit

# isort: split
import keras
import numpy as np
from command_line import first_seed, picture, told_in_one_line
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

QUBITS = 4
BATCH = 32
SETS = {"wine": load_wine, "digits": load_digits}
Curves = dict[str, list[float]]
"""Accuracy on unseen samples after each epoch, by the name of the model."""


@qml.qkernel(qubits=QUBITS)
def core(qc, x, theta):
    """<Z> of each qubit after the data x (4,) was encoded in every layer of theta (2, 4, 2)."""
    for layer in theta:
        for q in range(QUBITS):
            qc.ry(x[q], q)
            qc.ry(layer[q, 0], q)
            qc.rz(layer[q, 1], q)
        for q in range(QUBITS):
            qc.cx(q, (q + 1) % QUBITS)
    return [qml.Z(q) for q in range(QUBITS)]


def split(name: str, seed: int) -> list[np.ndarray]:
    """Features (N, F) to train and (N / 3, F) to test with, then the classes of both."""
    features, classes = SETS[name](return_X_y=True)
    x, x_test, y, y_test = train_test_split(features, classes, random_state=seed, stratify=classes)
    reduction = [PCA(16, random_state=seed)] if name == "digits" else []
    # Fitted on the training samples alone, so that the test is of unseen ones.
    scale = make_pipeline(*reduction, StandardScaler()).fit(x)
    return [scale.transform(x), scale.transform(x_test), y, y_test]


def models(features: int, classes: int, backend: str | None) -> list[keras.Model]:
    """The hybrid and the classical classifier, of equally many weights."""
    cores = {
        "hybrid": qml.layers.QuantumLayer(core, weights={"theta": (2, QUBITS, 2)}, backend=backend),
        "classical": keras.layers.Dense(QUBITS, "tanh", use_bias=False),
    }
    made = []
    for name, middle in cores.items():
        front, head = keras.layers.Dense(QUBITS, "tanh"), keras.layers.Dense(classes)
        model = keras.Sequential([keras.Input((features,)), front, middle, head], name=name)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
        made.append(model)
    return made


def plan(data: str, seed: int, epochs: int, options: argparse.Namespace) -> str:
    """What the training of one hybrid model asks of its backend, evaluation not counted."""
    x, _, y, _ = split(data, seed)
    samples = len(x[: options.samples])
    hybrid, _ = models(x.shape[1], len(np.unique(y)), options.backend)
    return str(qml.estimate(hybrid, batch=BATCH, steps=epochs * -(-samples // BATCH)))


def train(
    data: str, seed: int, epochs: int, backend: str | None, samples: int | None = None
) -> Curves:
    keras.utils.set_random_seed(seed)
    x, x_test, y, y_test = split(data, seed)
    x, y, x_test, y_test = x[:samples], y[:samples], x_test[:samples], y_test[:samples]
    curves = {}
    for model in models(x.shape[1], len(np.unique(y)), backend):
        print(f"\nseed {seed}, {model.name}, {model.count_params()} weights", flush=True)
        history = model.fit(
            x,
            y,
            batch_size=BATCH,
            epochs=epochs,
            validation_data=(x_test, y_test),
            verbose=1 if sys.stdout.isatty() else 2,
        )
        curves[model.name] = history.history["val_accuracy"]
    return curves


def plot(runs: list[Curves], data: str, path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, color in (("hybrid", "tab:blue"), ("classical", "tab:orange")):
        accuracies = 100 * np.array([run[name] for run in runs])
        epochs = np.arange(1, accuracies.shape[1] + 1)
        axes.plot(epochs, accuracies.T, color=color, linewidth=0.7, alpha=0.4)
        axes.plot(epochs, accuracies.mean(axis=0), color=color, linewidth=2, label=name)
    axes.set(xlabel="epoch", ylabel="accuracy on unseen samples (%)")
    axes.set_title(f"{data}: each of {len(runs)} seed(s), and their mean")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=SETS, default="wine")
    parser.add_argument("--backend", help="name of a backend; by default the configured one")
    parser.add_argument("--plan", action="store_true", help="print what it would cost, and stop")
    parser.add_argument("--quick", action="store_true", help="one seed, two epochs")
    parser.add_argument("--samples", type=int, help="train with so many, by default with all")
    parser.add_argument("--seed", type=first_seed(3), default=0, help="the first of three seeds")
    parser.add_argument("--plot", type=picture, default="keras_classifier.png")
    options = parser.parse_args()
    seeds, epochs = (1, 2) if options.quick else (3, 30)
    numbers = range(options.seed, options.seed + seeds)
    if options.samples is not None and options.samples < 1:
        parser.error(f"--samples must be at least 1, got {options.samples}")
    with told_in_one_line(parser):
        if options.plan:
            print(f"one of {seeds} seeds, evaluation not counted")
            print(plan(options.data, options.seed, epochs, options))
            return
        runs = [train(options.data, n, epochs, options.backend, options.samples) for n in numbers]
    plot(runs, options.data, options.plot)
    last = 100 * np.array([[run["hybrid"][-1], run["classical"][-1]] for run in runs])
    print("\nAccuracy on unseen samples after the last epoch (%)\nseed    hybrid  classical")
    for label, (hybrid, classical) in zip([*numbers, "mean"], [*last, last.mean(0)], strict=True):
        print(f"{label:<6} {hybrid:7.1f} {classical:10.1f}")
    print(f"learning curves: {options.plot}")


if __name__ == "__main__":
    main()
