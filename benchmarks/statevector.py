"""One training step on the exact engine: values and all gradients of a batch, ours and the peers'.

    python benchmarks/statevector.py               all sizes and peers, many minutes
    python benchmarks/statevector.py --sizes 4 8   some sizes

The workload: 4 layers of RY(x) on all qubits, RY RZ with weights, and a CX ring; <Z> on every
qubit; the values, and the product of a cotangent with the Jacobian by inputs and weights. The
median of 9 calls after the first, in milliseconds, and the factor to ours in the same precision.
Every library runs in a process of its own, the peers in environments of their own with one OpenMP
thread. A library is left out where it takes over two minutes. Values that differ are an error.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from environments import environment

HERE = Path(__file__).resolve()
LAYERS = 4
BATCHES = {4: 64, 8: 64, 12: 32, 16: 8, 20: 1}
"""qubits -> samples."""

CALLS = 9
PATIENCE = 120.0
TOLERANCE = {"float32": 1e-3, "float64": 1e-9}

Arrays = tuple[Any, Any, Any]
Step = Callable[[], Arrays]
"""() -> values (B, n), gradients by inputs (B, n) and by weights (L, n, 2)."""


def workload(qubits: int) -> Arrays:
    """Inputs (B, n), weights (L, n, 2), cotangents (B, n)."""
    rng = np.random.default_rng(0)
    batch = BATCHES[qubits]
    return (
        rng.normal(size=(batch, qubits)),
        rng.normal(size=(LAYERS, qubits, 2)),
        rng.normal(size=(batch, qubits)),
    )


def by_jax(batched: Callable[..., Any], arrays: Arrays, dtype: str) -> Step:
    """A step of a JAX function (inputs, weights) -> values, jitted."""
    import jax
    import jax.numpy as jnp

    x, w, c = (jnp.asarray(array, dtype) for array in arrays)

    def loss(x: Any, w: Any) -> Any:
        values = batched(x, w)
        return (values * c).sum(), values

    step = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))

    def call() -> Arrays:
        (_, values), (gx, gw) = jax.block_until_ready(step(x, w))
        return values, gx, gw

    return call


def ours(qubits: int, arrays: Arrays, dtype: str) -> Step:
    import jax

    sys.path.insert(0, str(HERE.parents[1]))
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

    one = lambda x, w: kernel(x, w, backend="statevector")
    return by_jax(jax.vmap(one, (0, None)), arrays, dtype)


def tensorcircuit(qubits: int, arrays: Arrays, dtype: str) -> Step:
    import jax
    import jax.numpy as jnp
    import tensorcircuit as tc

    tc.set_backend("jax")
    tc.set_dtype("complex64" if dtype == "float32" else "complex128")

    def one(x: Any, w: Any) -> Any:
        circuit = tc.Circuit(qubits)
        for layer in range(LAYERS):
            for q in range(qubits):
                circuit.ry(q, theta=x[q])
            for q in range(qubits):
                circuit.ry(q, theta=w[layer, q, 0])
                circuit.rz(q, theta=w[layer, q, 1])
            for q in range(qubits):
                circuit.cnot(q, (q + 1) % qubits)
        return jnp.stack([jnp.real(circuit.expectation_ps(z=[q])) for q in range(qubits)])

    return by_jax(jax.vmap(one, (0, None)), arrays, dtype)


def pennylane_jit(qubits: int, arrays: Arrays, dtype: str) -> Step:
    import jax.numpy as jnp
    import pennylane as qp

    @qp.qnode(qp.device("default.qubit", wires=qubits), interface="jax", diff_method="backprop")
    def node(x: Any, w: Any) -> Any:
        for layer in range(LAYERS):
            for q in range(qubits):
                qp.RY(x[:, q], q)
            for q in range(qubits):
                qp.RY(w[layer, q, 0], q)
                qp.RZ(w[layer, q, 1], q)
            for q in range(qubits):
                qp.CNOT([q, (q + 1) % qubits])
        return [qp.expval(qp.PauliZ(q)) for q in range(qubits)]

    return by_jax(lambda x, w: jnp.stack(node(x, w), axis=-1), arrays, dtype)


def qulacs(qubits: int, arrays: Arrays, dtype: str) -> Step:
    from qulacs import Observable, ParametricQuantumCircuit, QuantumState

    x, w, c = arrays
    circuit = ParametricQuantumCircuit(qubits)
    for _ in range(LAYERS):
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
            angles = np.concatenate(
                [np.concatenate([sample, layer.ravel()]) for layer in w]
            )  # as added
            for k, angle in enumerate(angles):
                circuit.set_parameter(k, -angle)  # Qulacs rotates by exp(+i a/2 P)
            state = QuantumState(qubits)
            circuit.update_quantum_state(state)
            values[b] = [string.get_expectation_value(state) for string in strings]
            weighted = Observable(qubits)
            for q in range(qubits):
                weighted.add_operator(c[b, q], f"Z {q}")
            slopes = -np.array(circuit.backprop(weighted)).reshape(LAYERS, 3 * qubits)
            gx[b] = slopes[:, :qubits].sum(axis=0)
            gw += slopes[:, qubits:].reshape(LAYERS, qubits, 2)
        return values, gx, gw

    return call


JAX = ("jax==0.10.2", "numpy==2.4.6")
LIBRARIES: dict[str, tuple[Callable[..., Step], tuple[str, ...], tuple[str, ...]]] = {
    "ours": (ours, (), ("float32", "float64")),
    "TensorCircuit-NG, jit": (
        tensorcircuit,
        ("tensorcircuit-ng==1.10.0", *JAX),
        ("float32", "float64"),
    ),
    "PennyLane default.qubit, jit": (
        pennylane_jit,
        ("pennylane==0.45.1", *JAX),
        ("float32", "float64"),
    ),
    "Qulacs": (qulacs, ("qulacs==0.6.13",), ("float64",)),
}
"""name -> (what makes its step, the pins of its environment, the precisions it has)."""


def measure(library: str, qubits: int, dtype: str) -> dict[str, Any]:
    """Milliseconds of a step, seconds of the first, and the values and gradients."""
    if dtype == "float64" and LIBRARIES[library][0] is not qulacs:
        import jax

        jax.config.update("jax_enable_x64", True)
    begin = time.perf_counter()
    step = LIBRARIES[library][0](qubits, workload(qubits), dtype)
    found = step()
    first = time.perf_counter() - begin
    times = []
    while len(times) < CALLS:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    values = np.concatenate([np.ravel(array) for array in found])
    return {"milliseconds": 1e3 * np.median(times), "first": first, "values": values}


def run(library: str, qubits: int, dtype: str) -> dict[str, Any] | None:
    """Measures in a process of its own; None where patience ended."""
    python = environment(LIBRARIES[library][1])
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "found.npz")
        command = [python, str(HERE), "--measure", library, str(qubits), dtype, str(answer)]
        surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
        try:
            subprocess.run(command, check=True, env=surroundings, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return None
        with np.load(answer) as stored:
            return dict(stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, choices=list(BATCHES), default=None)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        library, qubits, dtype, answer = arguments.measure
        np.savez(answer, **measure(library, int(qubits), dtype))
        return
    print("| qubits, samples | precision | library | ms per step | to ours | first call, s |")
    print("|---" * 6 + "|")
    for qubits in arguments.sizes or BATCHES:
        for dtype in ("float32", "float64"):
            reference: dict[str, Any] = {}
            for library, (_, _, precisions) in LIBRARIES.items():
                if dtype not in precisions:
                    continue
                found = run(library, qubits, dtype)
                cells = f"| {qubits}, {BATCHES[qubits]} | {dtype} | {library} |"
                if found is None:
                    print(f"{cells} - | - | over {PATIENCE:.0f} |", flush=True)
                    continue
                reference = reference or found
                worst = float(np.abs(found["values"] - reference["values"]).max())
                if worst > TOLERANCE[dtype]:
                    sys.exit(f"{library} and we differ by {worst:.1e}: times compare nothing.")
                milliseconds = float(found["milliseconds"])
                ratio = milliseconds / float(reference["milliseconds"])
                print(
                    f"{cells} {milliseconds:.2f} | {ratio:.1f}x | {float(found['first']):.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
