"""Values and times of Aer and of the xla engine on a GPU, against the CPU; under three minutes.

    python benchmarks/gpu.py            on a machine with an NVIDIA GPU
    python benchmarks/gpu.py --cpu      the same without one, to see that the script works

The circuit in peers.py, 2 layers, <Z> on every qubit. Every value is compared with the statevector
engine on the CPU in double precision; what differs by more than its precision allows is an error.
Aer: values of a batch of samples. xla: values and all gradients. Milliseconds, the median of 9
calls after the first, and the factor of the CPU to the GPU.

It needs the extra `gpu` (jax[cuda12], qiskit-aer-gpu). Nothing falls back: without a GPU it ends
with status 2 and says what was found.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from peers import our_kernel
from timing import seconds, single_or_double

LAYERS = 2
BATCHES = {8: 256, 16: 32, 20: 4, 24: 1}
"""qubits -> samples."""

ON_CPU = (8, 12)
"""Sizes of a run without a GPU."""

TOLERANCE = {"single": 1e-4, "double": 1e-9}

AER: dict[str, dict[str, Any]] = {
    "Aer": {},
    "Aer, cuStateVec": {"custatevec": True},
}
"""label -> further keys of the backend."""

Arrays = tuple[Any, ...]


def operands(qubits: int) -> Arrays:
    """Inputs (B, n) and weights (L, n, 2)."""
    rng = np.random.default_rng(qubits)
    batch = BATCHES.get(qubits, 16)
    return rng.normal(size=(batch, qubits)), rng.normal(size=(LAYERS, qubits, 2))


def values_of(qubits: int, backend: Any) -> Callable[[Any, Any], Any]:
    kernel = our_kernel(qubits)
    return jax.jit(jax.vmap(lambda x, w: kernel(x, w, backend=backend), (0, None)))


def gradients_of(qubits: int, backend: Any) -> Callable[[Any, Any], Arrays]:
    """Values and gradients of their sum; one flat tuple of arrays."""
    values = values_of(qubits, backend)
    step = jax.jit(jax.value_and_grad(lambda x, w: values(x, w).sum(), (0, 1)))

    def call(x: Any, w: Any) -> Arrays:
        total, (by_x, by_w) = step(x, w)
        return total, by_x, by_w

    return call


def compared(found: Any, expected: Any, precision: str, label: str) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = max(1.0, float(np.abs(other).max()))
        worst = float(np.abs(np.asarray(one) - np.asarray(other)).max()) / scale
        if not worst <= TOLERANCE[precision]:
            sys.exit(f"{label}: differs by {worst:.1e} from the statevector engine.")


def milliseconds(function: Any, arguments: Arrays, device: Any = None) -> tuple[float, Any]:
    """Of a call, after the first, on a device or on the CPU, and what it returns."""
    with jax.default_device(device or jax.devices("cpu")[0]):
        placed = tuple(jnp.asarray(array) for array in arguments)
        call = lambda: jax.block_until_ready(function(*placed))  # type: ignore[no-untyped-call]
        found = call()
        return 1e3 * seconds(call), found


def aer_rows(qubits: int, device: str) -> Iterator[str]:
    arguments = operands(qubits)
    _, expected = milliseconds(values_of(qubits, "statevector"), arguments)
    for label, keys in AER.items():
        if device == "CPU" and keys:
            continue
        for precision in ("single", "double"):
            table = {"kind": "aer", "precision": precision}
            cpu, found = milliseconds(values_of(qubits, table), arguments)
            compared(found, expected, precision, f"{label} on the CPU")
            gpu, found = milliseconds(
                values_of(qubits, {**table, "device": device, **keys}), arguments
            )
            compared(found, expected, precision, f"{label} on the {device}")
            yield cells(f"{label}, values", qubits, precision, cpu, gpu)


def xla_rows(qubits: int, device: Any) -> Iterator[str]:
    inputs = operands(qubits)
    _, expected = milliseconds(gradients_of(qubits, "statevector"), inputs)
    for precision, dtype in (("single", np.float32), ("double", np.float64)):
        arguments = tuple(array.astype(dtype) for array in inputs)
        cpu, found = milliseconds(gradients_of(qubits, "statevector"), arguments)
        compared(found, expected, precision, "statevector")
        gpu, found = milliseconds(gradients_of(qubits, "xla"), arguments, device)
        compared(found, expected, precision, f"xla on {device}")
        yield cells("xla against statevector, gradients", qubits, precision, cpu, gpu)


def cells(label: str, qubits: int, precision: str, cpu: float, gpu: float) -> str:
    columns = (label, f"{qubits}", f"{BATCHES.get(qubits, 16)}", precision)
    return "| " + " | ".join((*columns, f"{cpu:.2f}", f"{gpu:.2f}", f"{cpu / gpu:.1f}x")) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cpu", action="store_true", help="without a GPU, on small sizes")
    arguments = parser.parse_args()
    single_or_double("float64")
    from qiskit_aer import AerSimulator

    found = [device.platform for device in jax.devices()], AerSimulator().available_devices()
    if not arguments.cpu and ("gpu" not in found[0] or "GPU" not in found[1]):
        print(
            f"A GPU is needed. JAX finds {', '.join(found[0])}; Aer finds {', '.join(found[1])}. "
            "Install the extra `gpu` on a machine with an NVIDIA GPU, or try --cpu."
        )
        sys.exit(2)
    sizes = ON_CPU if arguments.cpu else tuple(BATCHES)
    device = jax.devices("cpu" if arguments.cpu else "gpu")[0]
    print("| what | qubits | samples | precision | CPU, ms | device, ms | factor |")
    print("|---" * 7 + "|")
    for qubits in sizes:
        for row in aer_rows(qubits, "CPU" if arguments.cpu else "GPU"):
            print(row, flush=True)
        for row in xla_rows(qubits, device):
            print(row, flush=True)


if __name__ == "__main__":
    main()
