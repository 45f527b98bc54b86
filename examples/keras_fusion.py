"""Two kinds of data fused in one quantum layer, and what each of them is worth.

Of a handwritten digit the models see two things: an image, its left half alone, and a table, how
much ink is in each row and each column of the whole. A small convolutional network makes three
angles of the image, a dense layer three of the table; the quantum layer takes both by name, and its
six expectation values tell the ten digits apart. Ablation: the same model is trained again without
the image, then without the table, each time with the mean of the training set in its place.

    python examples/keras_fusion.py                  # three seeds, 1347 digits, about a minute
    python examples/keras_fusion.py --quick          # a few steps, to see that everything works

The 1797 digits of 8 x 8 pixels ship with scikit-learn; a quarter is never trained on.

Keras runs on JAX unless KERAS_BACKEND says otherwise.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

os.environ.setdefault("KERAS_BACKEND", "jax")  # Keras reads it when it is imported

import qml.layers  # before Keras: it says what to do where Keras' backend does not fit

# isort: split
import keras
import numpy as np
from command_line import first_seed, picture, told_in_one_line
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

QUBITS = 6
LAYERS = 3


@dataclass(frozen=True)
class Modality:
    """Samples of one kind; all of its arrays have the batch first."""

    values: np.ndarray

    SHAPE: ClassVar[tuple[int, ...]]
    """Of one sample."""

    def __post_init__(self) -> None:
        if self.values.shape[1:] != self.SHAPE:
            raise ValueError(
                f"{type(self).__name__}: samples of shape {self.SHAPE} are expected, got "
                f"{self.values.shape[1:]}"
            )

    def blank(self, mean: np.ndarray) -> Self:
        """As many samples that all say the same."""
        return type(self)(np.broadcast_to(mean, self.values.shape))


class Images(Modality):
    """Left halves of digits (N, 8, 4, 1), ink from 0 to 1."""

    SHAPE = (8, 4, 1)

    @classmethod
    def of(cls, digits: np.ndarray) -> Self:
        return cls(digits[:, :, :4, None] / 16)


class Tables(Modality):
    """Ink of the 8 rows, then of the 8 columns (N, 16), each from 0 to 1."""

    SHAPE = (16,)

    @classmethod
    def of(cls, digits: np.ndarray) -> Self:
        return cls(np.concatenate([digits.mean(axis=2), digits.mean(axis=1)], axis=1) / 16)


@dataclass(frozen=True)
class Dataset:
    """The same digits (N,) seen in both ways."""

    image: Images
    table: Tables
    digits: np.ndarray

    @classmethod
    def of(cls, pixels: np.ndarray, digits: np.ndarray) -> Self:
        return cls(Images.of(pixels), Tables.of(pixels), digits)

    def inputs(self, without: str | None, means: "Dataset") -> dict[str, np.ndarray]:
        """What the model takes; a modality that it does without is the mean of another set."""
        given = {"image": self.image, "table": self.table}
        if without is not None:
            given[without] = given[without].blank(getattr(means, without).values.mean(axis=0))
        return {name: modality.values for name, modality in given.items()}


@qml.qkernel(qubits=QUBITS)
def fusion(qc, image, table, theta):
    """<Z> of each qubit; image (3,) and table (3,) on alternating qubits, theta (L, 6, 2)."""
    for layer in theta:
        for i in range(3):
            qc.ry(image[i], 2 * i)
            qc.ry(table[i], 2 * i + 1)
        for q in range(QUBITS):
            qc.ry(layer[q, 0], q)
            qc.rz(layer[q, 1], q)
        for q in range(QUBITS):
            qc.cx(q, (q + 1) % QUBITS)
    return [qml.Z(q) for q in range(QUBITS)]


def network(backend: str | None) -> keras.Model:
    image = keras.Input(Images.SHAPE, name="image")
    table = keras.Input(Tables.SHAPE, name="table")
    seen = keras.layers.Conv2D(6, 3, activation="relu")(image)
    angles = {
        "image": keras.layers.Dense(3, "tanh")(keras.layers.Flatten()(seen)),
        "table": keras.layers.Dense(3, "tanh")(table),
    }
    layer = qml.layers.QuantumLayer(fusion, {"theta": (LAYERS, QUBITS, 2)}, backend=backend)
    model = keras.Model([image, table], keras.layers.Dense(10)(layer(angles)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    return model


def train(seed: int, epochs: int, without: str | None, backend: str | None) -> list[float]:
    """Accuracy on unseen digits after each epoch."""
    keras.utils.set_random_seed(seed)
    digits = load_digits()
    parts = train_test_split(
        digits.images, digits.target, random_state=seed, stratify=digits.target
    )
    seen, unseen = Dataset.of(parts[0], parts[2]), Dataset.of(parts[1], parts[3])
    history = network(backend).fit(
        seen.inputs(without, seen),
        seen.digits,
        batch_size=32,
        epochs=epochs,
        validation_data=(unseen.inputs(without, seen), unseen.digits),
        verbose=1 if sys.stdout.isatty() else 2,
    )
    return history.history["val_accuracy"]


def plot(curves: dict[str, np.ndarray], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for (name, runs), color in zip(curves.items(), ("black", "tab:green", "tab:red"), strict=True):
        epochs = np.arange(1, runs.shape[1] + 1)
        axes.plot(epochs, 100 * runs.T, color=color, linewidth=0.7, alpha=0.4)
        axes.plot(epochs, 100 * runs.mean(axis=0), color=color, linewidth=2, label=name)
    axes.set(xlabel="epoch", ylabel="accuracy on unseen digits (%)")
    axes.set_title("each seed, and their mean")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", help="name of a backend; by default the configured one")
    parser.add_argument("--quick", action="store_true", help="one seed, two epochs")
    parser.add_argument("--seed", type=first_seed(3), default=0, help="the first of three seeds")
    parser.add_argument("--plot", type=picture, default=Path("keras_fusion.png"))
    options = parser.parse_args()
    seeds, epochs = (1, 2) if options.quick else (3, 20)
    kinds = {"both": None, "table alone": "image", "image alone": "table"}
    curves = {}
    with told_in_one_line(parser):
        for name, without in kinds.items():
            runs = []
            for seed in range(options.seed, options.seed + seeds):
                print(f"\n{name}, seed {seed}", flush=True)
                runs.append(train(seed, epochs, without, options.backend))
            curves[name] = np.array(runs)
    plot(curves, options.plot)
    print("\nAccuracy on unseen digits after the last epoch (%), mean and range of the seeds")
    for name, runs in curves.items():
        last = 100 * runs[:, -1]
        print(f"{name:<12} {last.mean():5.1f}   {last.min():5.1f} to {last.max():5.1f}")
    print(f"learning curves: {options.plot}")


if __name__ == "__main__":
    main()
