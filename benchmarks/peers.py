"""The libraries measured: one circuit, and one training step of it, in each.

The circuit: layers of RY(x) on all qubits, RY RZ with weights, and a CX ring; <Z> on every qubit.
A JAX library gives the circuit as a function of a batch; the others their own fastest way to the
values and the product of a cotangent with the Jacobian by inputs and weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = tuple[Any, Any, Any]
"""Inputs (B, n), weights (L, n, 2), cotangents (B, n)."""

Model = Callable[[Any, Any], Any]
"""(inputs (B, n), weights (L, n, 2)) -> values (B, n), of JAX arrays."""

Step = Callable[[], Arrays]
"""() -> values (B, n), gradients by inputs (B, n) and by weights (L, n, 2)."""


@dataclass(frozen=True)
class Library:
    """How to measure a library: its environment, and a JAX model or a step of its own.

    Attributes:
        pins: of its environment; none for this one.
        precisions: that it computes in.
        model: (qubits, layers, dtype) -> Model.
        step: (arrays, dtype) -> Step.
    """

    pins: tuple[str, ...]
    precisions: tuple[str, ...]
    model: Callable[[int, int, str], Model] | None = None
    step: Callable[[Arrays, str], Step] | None = None


def our_kernel(qubits: int) -> Any:
    """The circuit as a kernel; the weights give the layers."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import qml

    @qml.qkernel(qubits=qubits)
    def kernel(qc: Any, x: Any, w: Any) -> Any:
        for layer in w:
            for q in range(qubits):
                qc.ry(x[q], q)
            for q in range(qubits):
                qc.ry(layer[q, 0], q)
                qc.rz(layer[q, 1], q)
            for q in range(qubits):
                qc.cx(q, (q + 1) % qubits)
        return [qml.Z(q) for q in range(qubits)]

    return kernel


def ours(qubits: int, layers: int, dtype: str) -> Model:
    import jax

    kernel = our_kernel(qubits)
    return jax.vmap(lambda x, w: kernel(x, w, backend="statevector"), (0, None))


def tensorcircuit(qubits: int, layers: int, dtype: str) -> Model:
    import jax
    import jax.numpy as jnp
    import tensorcircuit as tc

    tc.set_backend("jax")
    tc.set_dtype("complex64" if dtype == "float32" else "complex128")

    def one(x: Any, w: Any) -> Any:
        circuit = tc.Circuit(qubits)
        for layer in range(layers):
            for q in range(qubits):
                circuit.ry(q, theta=x[q])
            for q in range(qubits):
                circuit.ry(q, theta=w[layer, q, 0])
                circuit.rz(q, theta=w[layer, q, 1])
            for q in range(qubits):
                circuit.cnot(q, (q + 1) % qubits)
        return jnp.stack([jnp.real(circuit.expectation_ps(z=[q])) for q in range(qubits)])

    return jax.vmap(one, (0, None))


def default_qubit(qubits: int, layers: int, dtype: str) -> Model:
    import jax.numpy as jnp
    import pennylane as qp

    def circuit(x: Any, w: Any) -> Any:
        for layer in range(layers):
            for q in range(qubits):
                qp.RY(x[:, q], q)
            for q in range(qubits):
                qp.RY(w[layer, q, 0], q)
                qp.RZ(w[layer, q, 1], q)
            for q in range(qubits):
                qp.CNOT([q, (q + 1) % qubits])
        return [qp.expval(qp.PauliZ(q)) for q in range(qubits)]

    device = qp.device("default.qubit", wires=qubits)
    node = qp.QNode(circuit, device, interface="jax", diff_method="backprop")
    return lambda x, w: jnp.stack(node(x, w), axis=-1)


def lightning(arrays: Arrays, dtype: str) -> Step:
    """Without QNodes: the whole batch of tapes in one request to the device."""
    import pennylane as qp
    from pennylane.devices import ExecutionConfig
    from pennylane.tape import QuantumScript

    x, w, c = arrays
    layers, qubits, _ = w.shape
    complex_dtype = np.complex64 if dtype == "float32" else np.complex128
    device = qp.device("lightning.qubit", wires=qubits, c_dtype=complex_dtype)
    adjoint = ExecutionConfig(gradient_method="adjoint", use_device_gradient=True)
    ring = [qp.CNOT([q, (q + 1) % qubits]) for q in range(qubits)]
    measured = [qp.expval(qp.PauliZ(q)) for q in range(qubits)]

    def script(sample: Any) -> Any:
        operations: list[Any] = []
        for layer in w:
            operations += [qp.RY(sample[q], q) for q in range(qubits)]
            for q in range(qubits):
                operations += [qp.RY(layer[q, 0], q), qp.RZ(layer[q, 1], q)]
            operations += ring
        every = list(range(3 * qubits * layers))
        return QuantumScript(operations, measured, trainable_params=every)

    def call() -> Arrays:
        scripts = [script(sample) for sample in x]
        cotangents = [tuple(row) for row in c]
        found, slopes = device.execute_and_compute_vjp(scripts, cotangents, adjoint)
        per_layer = np.array(slopes).reshape(len(x), layers, 3 * qubits)
        return (
            np.array(found),
            per_layer[:, :, :qubits].sum(axis=1),
            per_layer[:, :, qubits:].sum(axis=0).reshape(w.shape),
        )

    return call


def catalyst(arrays: Arrays, dtype: str) -> Step:
    """The loop over samples is compiled too; its vmap and vjp fail in the compiler, so that
    values and gradients run the circuit once each."""
    import catalyst as cat
    import jax.numpy as jnp
    import pennylane as qp

    x, w, c = arrays
    layers, qubits, _ = w.shape

    def circuit(x: Any, w: Any) -> Any:
        for layer in range(layers):
            for q in range(qubits):
                qp.RY(x[q], q)
            for q in range(qubits):
                qp.RY(w[layer, q, 0], q)
                qp.RZ(w[layer, q, 1], q)
            for q in range(qubits):
                qp.CNOT([q, (q + 1) % qubits])
        return [qp.expval(qp.PauliZ(q)) for q in range(qubits)]

    node = qp.QNode(circuit, qp.device("lightning.qubit", wires=qubits), diff_method="adjoint")

    def batch(x: Any, w: Any, c: Any) -> Any:
        def sample(b: Any, values: Any, gx: Any, gw: Any) -> Any:
            weighted = lambda x, w: (jnp.stack(node(x, w)) * c[b]).sum()
            by_x, by_w = cat.grad(weighted, argnums=[0, 1])(x[b], w)
            return values.at[b].set(jnp.stack(node(x[b], w))), gx.at[b].set(by_x), gw + by_w

        start = jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros_like(w)
        return cat.for_loop(0, len(x), 1)(sample)(*start)

    step = qp.qjit(batch)

    def call() -> Arrays:
        values, gx, gw = step(x, w, c)
        return np.asarray(values), np.asarray(gx), np.asarray(gw)

    return call


def tensorflow_quantum(arrays: Arrays, dtype: str) -> Step:
    """In float32, the only precision it has."""
    import cirq
    import sympy
    import tensorflow as tf
    import tensorflow_quantum as tfq

    layers, qubits, _ = arrays[1].shape
    x, w, c = (tf.constant(array, tf.float32) for array in arrays)
    wires = cirq.GridQubit.rect(1, qubits)
    inputs = sympy.symbols(f"x0:{qubits}")
    weights = sympy.symbols(f"w0:{layers * qubits * 2}")
    circuit = cirq.Circuit()
    for layer in range(layers):
        circuit += [cirq.ry(angle)(wire) for angle, wire in zip(inputs, wires, strict=True)]
        for q, wire in enumerate(wires):
            k = 2 * (layer * qubits + q)
            circuit += [cirq.ry(weights[k])(wire), cirq.rz(weights[k + 1])(wire)]
        circuit += [cirq.CNOT(wires[q], wires[(q + 1) % qubits]) for q in range(qubits)]
    batch = len(arrays[0])
    circuits = tf.repeat(tfq.convert_to_tensor([circuit]), batch)
    strings = tfq.convert_to_tensor([[cirq.Z(wire) for wire in wires]])
    operators = tf.repeat(strings, batch, axis=0)
    names = [str(symbol) for symbol in (*inputs, *weights)]
    expectation = tfq.layers.Expectation(differentiator=tfq.differentiators.Adjoint())

    def batched(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            angles = tf.concat([x, tf.repeat(tf.reshape(w, (1, -1)), batch, 0)], 1)
            values = expectation(
                circuits, symbol_names=names, symbol_values=angles, operators=operators
            )
            weighted = tf.reduce_sum(values * c)
        return values, *tape.gradient(weighted, [x, w])

    step = tf.function(batched)

    def call() -> Arrays:
        values, gx, gw = step(x, w)
        return values.numpy(), gx.numpy(), gw.numpy()

    return call


def qulacs(arrays: Arrays, dtype: str) -> Step:
    from qulacs import Observable, ParametricQuantumCircuit, QuantumState

    x, w, c = arrays
    layers, qubits, _ = w.shape
    circuit = ParametricQuantumCircuit(qubits)
    for _ in range(layers):
        for q in range(qubits):
            circuit.add_parametric_RY_gate(q, 0.0)
        for q in range(qubits):
            circuit.add_parametric_RY_gate(q, 0.0)
            circuit.add_parametric_RZ_gate(q, 0.0)
        for q in range(qubits):
            circuit.add_CNOT_gate(q, (q + 1) % qubits)
    strings = []
    for q in range(qubits):
        strings.append(Observable(qubits))
        strings[-1].add_operator(1.0, f"Z {q}")

    def call() -> Arrays:
        values, gx, gw = np.zeros_like(x), np.zeros_like(x), np.zeros_like(w)
        for b, sample in enumerate(x):
            angles = [angle for layer in w for angle in (*sample, *layer.ravel())]  # as added
            for k, angle in enumerate(angles):
                circuit.set_parameter(k, -angle)  # Qulacs rotates by exp(+i a/2 P)
            state = QuantumState(qubits)
            circuit.update_quantum_state(state)
            values[b] = [string.get_expectation_value(state) for string in strings]
            weighted = Observable(qubits)
            for q in range(qubits):
                weighted.add_operator(c[b, q], f"Z {q}")
            slopes = -np.array(circuit.backprop(weighted)).reshape(layers, 3 * qubits)
            gx[b] = slopes[:, :qubits].sum(axis=0)
            gw += slopes[:, qubits:].reshape(w.shape)
        return values, gx, gw

    return call


BOTH = ("float32", "float64")
JAX = ("jax==0.10.2", "numpy==2.4.6")
PENNYLANE = ("pennylane==0.45.1", "pennylane-lightning==0.45.0", *JAX)
OURS = "ours"

LIBRARIES = {
    OURS: Library((), BOTH, model=ours),
    "TensorCircuit-NG, jit": Library(("tensorcircuit-ng==1.10.0", *JAX), BOTH, tensorcircuit),
    "PennyLane default.qubit, jit": Library(PENNYLANE, BOTH, default_qubit),
    "PennyLane lightning.qubit, adjoint": Library(PENNYLANE, BOTH, step=lightning),
    "Catalyst": Library(("pennylane-catalyst==0.15.0",), ("float64",), step=catalyst),
    "TensorFlow Quantum": Library(
        ("tensorflow-quantum==0.7.6",), ("float32",), step=tensorflow_quantum
    ),
    "Qulacs": Library(("qulacs==0.6.13",), ("float64",), step=qulacs),
}
