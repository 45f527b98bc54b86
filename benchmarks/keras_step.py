"""A step of `fit` with a quantum layer in a Keras model, ours and the peers'.

    python benchmarks/keras_step.py                    every Keras backend and every peer
    python benchmarks/keras_step.py --backends jax     one of Keras' backends

The model: 8 inputs, encoded once as RY angles, 4 layers of RY RZ with weights and a CX ring, <Z> on
every qubit, and a Dense layer; mean squared error, Adam, 64 samples a step. TensorFlow Quantum's
PQC takes the encoding as circuits, made before the clock starts; PennyLane's TorchLayer is trained
by a loop in PyTorch, all others by `fit`. Every library first gives the outputs of its layer for
the same weights: those that differ are an error. Milliseconds a step, of an epoch of 20 steps, the
median of 9 epochs after two others, at the better of one and two threads.

Also the share of our layer in a step: the step with it less the step with a multiplication by one
weight in its place, beside what the engine alone takes for the values and their gradient.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from environments import environment
from peers import JAX
from timing import CALLS, Failure, best, seconds

QUBITS, LAYERS, BATCH, STEPS = 8, 4, 64, 20
WARM_UP = 2
"""Epochs before those that are timed."""

BACKENDS = ("jax", "tensorflow", "torch")
TOLERANCE = 1e-5

Epoch = Callable[[], object]
"""() -> trains for STEPS steps."""

Prepared = tuple[Any, Epoch]
"""Outputs of the layer for the first samples (BATCH, QUBITS), and an epoch of training."""


def arrays() -> tuple[Any, Any, Any]:
    """Inputs (N, 8), targets (N, 1), weights (4, 8, 2)."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(BATCH * STEPS, QUBITS)).astype("float32")
    w = rng.uniform(-np.pi, np.pi, size=(LAYERS, QUBITS, 2)).astype("float32")
    return x, x[:, :1] * x[:, 1:2], w


def keras_epoch(layer: Any, inputs: Any, **options: Any) -> Prepared:
    import keras

    x, y, _ = arrays()
    model = keras.Sequential([keras.Input(x.shape[1:]), layer, keras.layers.Dense(1)])
    outputs = np.asarray(keras.ops.convert_to_numpy(layer(inputs[:BATCH])))
    model.compile(keras.optimizers.Adam(0.01), "mse", **options)
    return outputs, lambda: model.fit(inputs, y, batch_size=BATCH, verbose=0, shuffle=False)


def ours() -> Prepared:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import qml

    x, _, w = arrays()
    layer = qml.layers.QuantumLayer(our_kernel(), weights={"theta": w.shape})
    layer.build((None, QUBITS))
    layer.set_weights([w])
    return keras_epoch(layer, x)


def our_kernel() -> Any:
    import qml

    @qml.qkernel(qubits=QUBITS)
    def kernel(qc: Any, x: Any, theta: Any) -> Any:
        for q in range(QUBITS):
            qc.ry(x[q], q)
        for layer in theta:
            for q in range(QUBITS):
                qc.ry(layer[q, 0], q)
                qc.rz(layer[q, 1], q)
            for q in range(QUBITS):
                qc.cx(q, (q + 1) % QUBITS)
        return [qml.Z(q) for q in range(QUBITS)]

    return kernel


def without() -> Prepared:
    """Our step with a layer of one weight instead of the quantum layer."""
    import keras

    class Scale(keras.layers.Layer):  # type: ignore[misc]
        def build(self, _: Any) -> None:
            self.factor = self.add_weight(shape=(), initializer="ones")

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

    x, _, _ = arrays()
    return keras_epoch(Scale(), x)


def engine_alone() -> Prepared:
    """Values and gradient of every step by direct requests, in single precision as in the layer."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from qml.kinds import StatevectorConfig
    from qml.simulators.registry import engine

    x, _, w = arrays()
    program = our_kernel().program(x[0], w)
    runner: Any = engine(StatevectorConfig())
    angles = np.ones((BATCH, program.num_slots), "float32")
    cotangents = np.ones((BATCH, 1, program.num_outputs), "float32")

    def epoch() -> None:
        for _ in range(STEPS):
            runner.compute("expval", program, angles)
            runner.compute("expval_vjp", program, angles, cotangents)

    return np.zeros((BATCH, QUBITS)), epoch


def pennylane_circuit(inputs: Any, theta: Any) -> Any:
    import pennylane as qp

    for q in range(QUBITS):
        qp.RY(inputs[..., q], q)
    for layer in range(LAYERS):
        for q in range(QUBITS):
            qp.RY(theta[layer, q, 0], q)
            qp.RZ(theta[layer, q, 1], q)
        for q in range(QUBITS):
            qp.CNOT([q, (q + 1) % QUBITS])
    return [qp.expval(qp.PauliZ(q)) for q in range(QUBITS)]


def keras3_layer() -> Prepared:
    """The third-party layer; on TensorFlow it runs eagerly only, and PennyLane's backpropagation
    fails there on batches."""
    import keras
    import pennylane as qp
    from pennylane_keras_layer import KerasCircuitLayer

    def circuit(theta: Any, inputs: Any) -> Any:
        return pennylane_circuit(inputs, theta)

    x, _, w = arrays()
    KerasCircuitLayer.set_input_argument("inputs")
    eager = keras.backend.backend() == "tensorflow"
    method = "adjoint" if eager else "backprop"
    node = qp.QNode(circuit, qp.device("default.qubit", wires=QUBITS), diff_method=method)
    layer = KerasCircuitLayer(node, {"theta": w.shape}, output_dim=QUBITS)
    layer.set_weights([w])
    if eager:
        keras.config.run_eagerly = lambda: True  # which the layer looks for
    return keras_epoch(layer, x, run_eagerly=eager)


def torch_layer() -> Prepared:
    import pennylane as qp
    import torch

    x, y, w = (torch.tensor(array) for array in arrays())
    node = qp.QNode(
        pennylane_circuit, qp.device("default.qubit", wires=QUBITS), diff_method="backprop"
    )
    layer = qp.qnn.TorchLayer(node, {"theta": tuple(w.shape)})
    with torch.no_grad():
        layer.theta.copy_(w)
    model = torch.nn.Sequential(layer, torch.nn.Linear(QUBITS, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)

    def epoch() -> None:
        for start in range(0, len(x), BATCH):
            optimizer.zero_grad()
            predicted = model(x[start : start + BATCH])
            torch.nn.functional.mse_loss(predicted, y[start : start + BATCH]).backward()
            optimizer.step()

    return layer(x[:BATCH]).detach().numpy(), epoch


def pqc() -> Prepared:
    """With Keras 2, the only one it knows."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import cirq
    import sympy
    import tensorflow as tf
    import tensorflow_quantum as tfq

    x, y, w = arrays()
    wires = cirq.GridQubit.rect(1, QUBITS)
    # PQC sorts the symbols of its weights by name.
    symbols = [sympy.Symbol(f"w{k:03d}") for k in range(w.size)]
    circuit = cirq.Circuit()
    for layer in range(LAYERS):
        for q, wire in enumerate(wires):
            k = 2 * (layer * QUBITS + q)
            circuit += [cirq.ry(symbols[k])(wire), cirq.rz(symbols[k + 1])(wire)]
        circuit += [cirq.CNOT(wires[q], wires[(q + 1) % QUBITS]) for q in range(QUBITS)]
    encoded = tfq.convert_to_tensor(
        [
            cirq.Circuit(
                [cirq.ry(float(angle))(wire) for angle, wire in zip(row, wires, strict=True)]
            )
            for row in x
        ]
    )
    layer = tfq.layers.PQC(
        circuit,
        [cirq.Z(wire) for wire in wires],
        differentiator=tfq.differentiators.Adjoint(),
    )
    outer = tf.keras.Sequential(
        [tf.keras.layers.Input(shape=(), dtype=tf.string), layer, tf.keras.layers.Dense(1)]
    )
    layer.set_weights([w.ravel()])
    outer.compile(tf.keras.optimizers.Adam(0.01), "mse")
    return (
        np.asarray(layer(encoded[:BATCH])),
        lambda: outer.fit(encoded, y, batch_size=BATCH, verbose=0, shuffle=False),
    )


@dataclass(frozen=True)
class Library:
    """Its environment, Keras' backends it runs on, and how it is prepared."""

    pins: tuple[str, ...]
    backends: tuple[str, ...]
    prepare: Callable[[], Prepared]


THIRD_PARTY = ("pennylane-keras3-layer==1.1.0", "pennylane==0.45.1", "keras==3.15.1", *JAX)
THIRD_PARTY += ("tensorflow==2.21.0", "torch==2.13.0")
OURS, WITHOUT, ENGINE = "ours", "ours, without the layer", "the engine alone"
LIBRARIES = {
    OURS: Library((), BACKENDS, ours),
    WITHOUT: Library((), BACKENDS, without),
    ENGINE: Library((), ("jax",), engine_alone),
    "pennylane-keras3-layer": Library(THIRD_PARTY, BACKENDS, keras3_layer),
    "PennyLane TorchLayer": Library(THIRD_PARTY, ("torch",), torch_layer),
    "TensorFlow Quantum PQC": Library(("tensorflow-quantum==0.7.6",), ("tensorflow",), pqc),
}


def measure(name: str, backend: str) -> dict[str, Any]:
    os.environ["KERAS_BACKEND"] = backend
    outputs, epoch = LIBRARIES[name].prepare()
    for _ in range(WARM_UP):
        epoch()
    return {"milliseconds": 1e3 * seconds(epoch) / STEPS, "values": outputs}


def result(name: str, backend: str) -> tuple[float, int, Any]:
    """Milliseconds a step, the number of threads, and the outputs.

    Raises:
        Failure: there is no figure; the message says why.
    """
    try:
        python = environment(LIBRARIES[name].pins)
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1]
        raise Failure(f"cannot be installed: {last}") from None
    found, threads = best(python, Path(__file__).resolve(), [name, backend])
    return float(found["milliseconds"]), threads, found["values"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="*", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, backend, answer = arguments.measure
        np.savez(answer, **measure(name, backend))
        return
    print(f"ms a step, median of {CALLS} epochs of {STEPS} steps of {BATCH} samples\n")
    print("| library | Keras backend | ms | threads |\n|---|---|---|---|", flush=True)
    figures: dict[tuple[str, str], float] = {}
    expected: Any = None
    for name, library in LIBRARIES.items():
        for backend in library.backends:
            if backend not in arguments.backends and name != ENGINE:
                continue
            try:
                milliseconds, threads, outputs = result(name, backend)
            except Failure as failure:
                print(f"| {name} | {backend} | - | {failure} |", flush=True)
                continue
            expected = outputs if expected is None else expected
            if name not in (WITHOUT, ENGINE):
                worst = np.abs(outputs - expected).max()
                if not worst < TOLERANCE:
                    sys.exit(f"{name} and we differ by {worst:.1e}: the times compare nothing.")
            figures[name, backend] = milliseconds
            print(f"| {name} | {backend} | {milliseconds:.2f} | {threads} |", flush=True)
    theirs = {key: f for key, f in figures.items() if key[0] not in (OURS, WITHOUT, ENGINE)}
    print()
    for backend in arguments.backends:
        figure = figures[OURS, backend]
        if beside := {name: f for (name, where), f in theirs.items() if where == backend}:
            nearest = min(beside, key=lambda name: beside[name])
            print(f"{backend}: {beside[nearest] / figure:.1f}x faster than {nearest}")
        share, alone = figure - figures[WITHOUT, backend], figures[ENGINE, "jax"]
        print(f"    our share {share:.2f} ms, {share / alone:.2f}x the engine alone", flush=True)


if __name__ == "__main__":
    main()
