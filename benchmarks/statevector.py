"""Training steps on the exact engine, ours and the peers', values compared.

    python benchmarks/statevector.py                     everything, over an hour
    python benchmarks/statevector.py --sizes 4 8         training steps of some sizes
    python benchmarks/statevector.py --sizes --forces    force matching alone

A training step: 4 layers of the circuit in peers.py; the values, and the product of a cotangent
with the Jacobian by inputs and weights. Force matching: 6 qubits, 6 layers, 32 samples, E the sum
of all <Z>; the mean of (dE/dx)^2 and its gradient by all weights, in the libraries that
differentiate twice under jit.

The median of 9 calls after the first and 0.3 s of others (short ones as the mean over 0.05 s), in
milliseconds, and the factor to ours in the same precision. Every library runs in a process of its
own, the peers in environments of their own, once with one and once with two threads (of OpenMP, and
of XLA's pool); the better one is kept. What takes over two minutes, imports and compilation
included, or would for 9 calls, is given up, and the table says so. Values that differ are an error.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from environments import environment
from peers import BOTH, LIBRARIES, OURS, Arrays, Model, Step
from timing import Failure, best, median, single_or_double

LAYERS = 4
BATCHES = {4: 64, 8: 64, 12: 32, 16: 8, 20: 1}
"""qubits -> samples."""

FORCES = "forces"
FORCE_QUBITS, FORCE_LAYERS, FORCE_BATCH = 6, 6, 32

TOLERANCE = {"float32": 1e-3, "float64": 1e-9}


def arrays(qubits: int, layers: int, batch: int) -> Arrays:
    """Inputs, weights, cotangents."""
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(batch, qubits)),
        rng.normal(size=(layers, qubits, 2)),
        rng.normal(size=(batch, qubits)),
    )


def training_step(model: Model, given: Arrays, dtype: str) -> Step:
    """Values, and their gradients weighted by the cotangents."""
    import jax
    import jax.numpy as jnp

    x, w, c = (jnp.asarray(array, dtype) for array in given)

    def weighted(x: Any, w: Any) -> Any:
        values = model(x, w)
        return (values * c).sum(), values

    step = jax.jit(jax.value_and_grad(weighted, (0, 1), has_aux=True))

    def call() -> Arrays:
        (_, values), (gx, gw) = jax.block_until_ready(step(x, w))  # type: ignore[no-untyped-call]
        return values, gx, gw

    return call


def force_step(model: Model, given: Arrays, dtype: str) -> Callable[[], tuple[Any, Any]]:
    """The mean of the squared components of the forces, and its gradient by the weights."""
    import jax
    import jax.numpy as jnp

    x, w, _ = (jnp.asarray(array, dtype) for array in given)

    def loss(w: Any) -> Any:
        forces = jax.grad(lambda x: model(x, w).sum())(x)
        return (forces**2).mean()

    step = jax.jit(jax.value_and_grad(loss))

    def call() -> tuple[Any, Any]:
        value, slopes = jax.block_until_ready(step(w))  # type: ignore[no-untyped-call]
        return value, slopes

    return call


def measure(name: str, workload: str, dtype: str) -> dict[str, Any]:
    """A workload, FORCES or a number of qubits, in this process; the first call traces."""
    library = LIBRARIES[name]
    if library.step is not None:
        qubits = int(workload)
        return median(library.step(arrays(qubits, LAYERS, BATCHES[qubits]), dtype))
    assert library.model is not None
    single_or_double(dtype)
    if workload == FORCES:
        model = library.model(FORCE_QUBITS, FORCE_LAYERS, dtype)
        return median(force_step(model, arrays(FORCE_QUBITS, FORCE_LAYERS, FORCE_BATCH), dtype))
    qubits = int(workload)
    model = library.model(qubits, LAYERS, dtype)
    return median(training_step(model, arrays(qubits, LAYERS, BATCHES[qubits]), dtype))


@dataclass(frozen=True)
class Result:
    """What a library did with a workload.

    Attributes:
        milliseconds: of a step; None where there is none.
        remark: the threads, and the seconds of the first call; or why there is none.
        values: of the step.
    """

    milliseconds: float | None
    remark: str
    values: Any = None


def result(name: str, workload: str, dtype: str) -> Result:
    """Measured in processes of the library's environment."""
    script, arguments = Path(__file__).resolve(), [name, workload, dtype]
    try:
        python = environment(LIBRARIES[name].pins)
    except subprocess.CalledProcessError as error:
        return Result(None, f"cannot be installed: {error.stderr.strip().splitlines()[-1]}")
    try:
        found, threads = best(python, script, arguments)
    except Failure as failure:
        return Result(None, str(failure))
    remark = f"{threads}; {float(found['first']):.1f} s"
    return Result(float(found["milliseconds"]), remark, found["values"])


def compare(workload: str, label: str, dtype: str, chosen: list[str]) -> str:
    """Prints a row for each library; the row of the summary."""
    reference = result(OURS, workload, dtype)
    assert reference.milliseconds is not None
    factors: dict[str, float] = {}
    for name in [OURS, *chosen]:
        library = LIBRARIES[name]
        if dtype not in library.precisions or (workload == FORCES and library.model is None):
            continue
        found = reference if name == OURS else result(name, workload, dtype)
        cells = f"| {label} | {dtype} | {name} |"
        if found.milliseconds is None:
            print(f"{cells} - | - | {found.remark} |", flush=True)
            continue
        scale = max(1.0, float(np.abs(reference.values).max()))
        worst = float(np.abs(found.values - reference.values).max()) / scale
        if worst > TOLERANCE[dtype]:
            sys.exit(f"{name} and we differ by {worst:.1e}: the times compare nothing.")
        factors[name] = found.milliseconds / reference.milliseconds
        print(
            f"{cells} {found.milliseconds:.2f} | {factors[name]:.1f}x | {found.remark} |",
            flush=True,
        )
    del factors[OURS]
    nearest = min(factors, key=lambda name: factors[name], default=None)
    against = "-" if nearest is None else f"{factors[nearest]:.1f}x {nearest}"
    return f"| {label} | {dtype} | {reference.milliseconds:.2f} | {against} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    peers = [name for name in LIBRARIES if name != OURS]
    parser.add_argument("--sizes", nargs="*", type=int, choices=list(BATCHES), default=None)
    parser.add_argument("--forces", action="store_true", help="force matching after the sizes")
    parser.add_argument("--peers", nargs="*", choices=peers, default=peers)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, workload, dtype, answer = arguments.measure
        np.savez(answer, **measure(name, workload, dtype))
        return
    everything = arguments.sizes is None
    sizes = list(BATCHES) if everything else arguments.sizes
    rows = {str(qubits): f"{qubits} qubits, {BATCHES[qubits]} samples" for qubits in sizes}
    if everything or arguments.forces:
        rows[FORCES] = f"forces, {FORCE_QUBITS} qubits, {FORCE_BATCH} samples"
    print("| workload | precision | library | ms per step | to ours | threads; first call |")
    print("|---" * 6 + "|", flush=True)
    summary = [
        compare(workload, label, dtype, arguments.peers)
        for workload, label in rows.items()
        for dtype in BOTH
    ]
    print("\n| workload | precision | ours, ms | nearest peer |\n" + "|---" * 4 + "|")
    print("\n".join(summary))


if __name__ == "__main__":
    main()
