"""Bytes moved per second at 20 qubits, against loops that only copy.

    python benchmarks/bandwidth.py [--qubits 20]

One sample of the circuit in peers.py, 4 layers, on the engine itself, without JAX. Counted is the
traffic of sweeps that go over a state once for each step of the plan, reading and writing it:
forward one state; backward two, psi and the adjoint state, down to the first step with a slot. Not
counted: coefficients, the initial state, the observable. Where steps share a pass over memory the
rate is that of an engine without this saving.

The bound is NumPy on arrays of the size of a state, in as many threads: *copy* reads one array and
writes another, *in place* multiplies one by a number and writes it back, as a gate does. The last
column is the time the same traffic would take at the rate of the faster of the two. The median of 9
calls.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from peers import BOTH, our_kernel
from timing import seconds

LAYERS = 4


def warm(call: Callable[[], object]) -> float:
    """Seconds of a call after the first."""
    call()
    return seconds(call)


def loops(state: int, dtype: str, threads: int) -> tuple[float, float]:
    """Bytes per second of the copy and of the product in place, both read and written counted."""
    a = np.ones(state // np.dtype(dtype).itemsize, dtype)
    b = np.zeros_like(a)
    parts = list(zip(np.array_split(a, threads), np.array_split(b, threads), strict=True))
    copy = lambda part: np.copyto(part[1], part[0])
    product = lambda part: np.multiply(part[0], 1.0, out=part[0])
    with ThreadPoolExecutor(threads) as pool:
        copied = warm(lambda: list(pool.map(copy, parts)))
        multiplied = warm(lambda: list(pool.map(product, parts)))
    return 2 * state / copied, 2 * state / multiplied


def traffic(program: Any, state: int) -> tuple[int, int]:
    """Bytes read and written for the value, and for the value with all gradients."""
    from qml.simulators.statevector.plan import plan

    steps = plan(program).steps
    first = next(i for i, step in enumerate(steps) if any(f.slot >= 0 for f in step.factors))
    value = 2 * state * len(steps)
    return value, value + 2 * 2 * state * (len(steps) - first)


def rows(program: Any, dtype: str, threads: int) -> list[str]:
    from qml.kinds import StatevectorConfig
    from qml.simulators.statevector.engine import StatevectorEngine

    engine = StatevectorEngine(StatevectorConfig(threads=threads))
    rng = np.random.default_rng(0)
    angles = rng.normal(size=(1, program.num_slots)).astype(dtype)
    cotangent = rng.normal(size=(1, 1, program.num_outputs)).astype(dtype)
    state = 2 * np.dtype(dtype).itemsize << program.num_qubits
    copy, product = loops(state, dtype, threads)
    value, gradient = traffic(program, state)
    calls: dict[str, tuple[int, Callable[[], object]]] = {
        "value": (value, lambda: engine.compute("expval", program, angles)),
        "value and gradient": (
            gradient,
            lambda: engine.compute("expval_vjp", program, angles, cotangent),
        ),
    }
    lines = []
    for name, (moved, call) in calls.items():
        took = warm(call)
        bound = max(copy, product)
        cells = (
            name,
            dtype,
            f"{threads}",
            f"{1e3 * took:.1f}",
            f"{moved / 1e9:.2f}",
            f"{moved / took / 1e9:.1f}",
            f"{copy / 1e9:.1f}",
            f"{product / 1e9:.1f}",
            f"{moved / took / bound:.2f}",
            f"{1e3 * moved / bound:.1f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qubits", type=int, default=20)
    qubits = parser.parse_args().qubits
    program = our_kernel(qubits).program(np.zeros(qubits), np.zeros((LAYERS, qubits, 2)))
    head = ["sweep", "precision", "threads", "ms", "GB moved", "GB/s", "copy, GB/s"]
    head += ["in place, GB/s", "ratio", "ms at the bound"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for threads in sorted({1, os.cpu_count() or 1}):
        for dtype in BOTH:
            print("\n".join(rows(program, dtype, threads)), flush=True)


if __name__ == "__main__":
    main()
