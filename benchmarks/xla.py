"""The xla engine: how long it compiles, and how long a training step takes.

    python benchmarks/xla.py                       4, 8 and 12 qubits, and 8 qubits of 40 layers
    python benchmarks/xla.py --sizes 4 8           some sizes

The workload is that of statevector.py: layers of RY(x) on all qubits, RY RZ with weights, and a CX
ring; <Z> on every qubit; jit(value_and_grad(vmap)) by inputs and weights. Seconds to trace and to
compile; milliseconds of a step, the median of 9 calls after the first; MiB that XLA allocates for
it beside arguments and results. It runs on JAX's default device, in this process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from peers import our_kernel
from timing import seconds

BATCHES = {4: 64, 8: 64, 12: 32}
"""qubits -> samples."""

DEEP = (8, 40)
"""Qubits and layers of the last line."""


def step(qubits: int) -> Any:
    """(inputs (B, n), weights (L, n, 2), cotangents (B, n)) -> value and gradients, jitted."""

    kernel = our_kernel(qubits)

    def loss(x: Any, w: Any, c: Any) -> Any:
        values = jax.vmap(lambda x, w: kernel(x, w, backend="xla"), (0, None))(x, w)
        return (values * c).sum()

    return jax.jit(jax.value_and_grad(loss, (0, 1)))


def row(qubits: int, layers: int, dtype: str) -> str:
    """One line of the table."""
    rng = np.random.default_rng(0)
    batch = BATCHES[qubits]
    shapes = (batch, qubits), (layers, qubits, 2), (batch, qubits)
    with jax.enable_x64(dtype == "float64"):
        arrays = [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes]
        begin = time.perf_counter()
        lowered = step(qubits).lower(*arrays)
        traced = time.perf_counter()
        compiled = lowered.compile()
        finished = time.perf_counter()
        jax.block_until_ready(compiled(*arrays))
        took = seconds(lambda: jax.block_until_ready(compiled(*arrays)))
    memory = compiled.memory_analysis().temp_size_in_bytes / 2**20
    return (
        f"| {qubits}, {batch}, {layers} | {dtype} | {traced - begin:.2f} | {finished - traced:.2f} "
        f"| {1e3 * took:.2f} | {memory:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, choices=list(BATCHES), default=None)
    sizes = parser.parse_args().sizes or BATCHES
    print(f"On {jax.devices()[0].device_kind}.\n")
    print(
        "| qubits, samples, layers | precision | trace, s | compile, s | step, ms | memory, MiB |"
    )
    print("|---" * 6 + "|")
    for qubits, layers in [(qubits, 4) for qubits in sizes] + [DEEP]:
        for dtype in ("float32", "float64"):
            print(row(qubits, layers, dtype), flush=True)


if __name__ == "__main__":
    main()
