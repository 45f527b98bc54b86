"""Seconds to the first result in a fresh process, our compiled code in numba's cache on disk.

    python benchmarks/first_call.py

Three circuits, each in processes of its own: values and all gradients of 16 samples under jit, in
float32, on the statevector engine. *Imports*: qml, jax and the circuit library of Qiskit. *First
call*: from there to the result; tracing, XLA's compilation and what our package imports on first
use are in it. *Next circuit*: the first call of another kernel in the same process. *Process*: from
its start to its end. The median of 5 processes, after one more that fills the cache.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import in_process

BATCH = 16
PROCESSES = 5
Shape = tuple[int, ...]


def reuploading(qc: Any, x: Any, w: Any) -> None:
    for layer in w:
        for q in range(qc.num_qubits):
            qc.ry(x[q], q)
            qc.ry(layer[q, 0], q)
            qc.rz(layer[q, 1], q)
        for q in range(qc.num_qubits):
            qc.cx(q, (q + 1) % qc.num_qubits)


def library_circuits(qc: Any, x: Any, w: Any) -> None:
    """The ZZ feature map and EfficientSU2 of Qiskit's library."""
    from qiskit.circuit.library import efficient_su2, zz_feature_map

    encoder = zz_feature_map(qc.num_qubits, reps=1)
    ansatz = efficient_su2(qc.num_qubits, reps=2)
    qc.compose(encoder.assign_parameters(list(x)), inplace=True)
    qc.compose(ansatz.assign_parameters(list(w)), inplace=True)


def evolution(qc: Any, x: Any, w: Any) -> None:
    """Steps of a Heisenberg chain after rotations by the inputs."""
    from qiskit.circuit.library import PauliEvolutionGate
    from qiskit.quantum_info import SparsePauliOp

    for q in range(qc.num_qubits):
        qc.rx(x[q], q)
    for times in w:
        for name, time_ in zip(("XX", "YY", "ZZ"), times, strict=True):
            bonds = [(name, [q, q + 1], 1.0) for q in range(qc.num_qubits - 1)]
            chain = SparsePauliOp.from_sparse_list(bonds, qc.num_qubits)
            qc.append(PauliEvolutionGate(chain, time_), range(qc.num_qubits))


CIRCUITS: dict[str, tuple[Callable[[Any, Any, Any], None], int, Shape]] = {
    "re-uploading, 8 qubits": (reuploading, 8, (4, 8, 2)),
    "ZZ feature map, EfficientSU2, 6 qubits": (library_circuits, 6, (36,)),
    "Heisenberg evolution, 10 qubits": (evolution, 10, (3, 3)),
}
"""name -> (what writes it, qubits, shape of the weights)."""


def first(circuit: str) -> float:
    """Seconds from the definition of a kernel to its first value and gradient."""
    import jax
    import jax.numpy as jnp

    import qml

    begin = time.perf_counter()
    write, qubits, shape = CIRCUITS[circuit]

    @qml.qkernel(qubits=qubits)
    def kernel(qc: Any, x: Any, w: Any) -> Any:
        write(qc, x, w)
        return [qml.Z(q) for q in range(qubits)]

    one: Callable[[Any, Any], Any] = lambda x, w: kernel(x, w, backend="statevector")
    batched: Callable[[Any, Any], Any] = jax.vmap(one, (0, None))
    summed = lambda x, w: batched(x, w).sum()

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(BATCH, qubits)), jnp.float32)
    w = jnp.asarray(rng.normal(size=shape), jnp.float32)
    step = jax.jit(jax.value_and_grad(summed, (0, 1)))
    jax.block_until_ready(step(x, w))  # type: ignore[no-untyped-call]
    return time.perf_counter() - begin


def measure(circuit: str) -> dict[str, float]:
    """In this process, which has imported only NumPy before."""
    begin = time.perf_counter()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import jax  # noqa: F401
    import qiskit.circuit.library  # noqa: F401

    import qml  # noqa: F401

    imports = time.perf_counter() - begin
    names = list(CIRCUITS)
    following = names[(names.index(circuit) + 1) % len(names)]
    return {"imports": imports, "first": first(circuit), "next": first(following)}


def process(circuit: str) -> tuple[float, float, float, float]:
    """Imports, first call, next circuit and the whole of a new process, in seconds."""
    begin = time.perf_counter()
    found = in_process(sys.executable, Path(__file__).resolve(), [circuit])
    whole = time.perf_counter() - begin
    seconds = (float(found[name]) for name in ("imports", "first", "next"))
    imports, call, following = seconds
    return imports, call, following, whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        circuit, answer = arguments.measure
        np.savez(answer, **measure(circuit))  # type: ignore[arg-type]
        return
    for circuit in CIRCUITS:
        process(circuit)
    print("| circuit | imports, s | first call, s | next circuit, s | process, s |")
    print("|---" * 5 + "|")
    for circuit in CIRCUITS:
        seconds = np.median([process(circuit) for _ in range(PROCESSES)], axis=0)
        print(f"| {circuit} | " + " | ".join(f"{s:.2f}" for s in seconds) + " |", flush=True)


if __name__ == "__main__":
    main()
