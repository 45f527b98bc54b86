"""What JAX costs around the exact engine: dispatch, loops, Hessians.

    python benchmarks/jax_overhead.py             everything, minutes
    python benchmarks/jax_overhead.py --quick     without PennyLane

Dispatch: one call of a jitted kernel of 2 qubits, beside jitted functions that do nothing. Loop:
1000 steps of gradient descent in one `lax.scan`, 4 qubits and 4 layers of the circuit in peers.py,
beside a loop of the engine's gradient alone, and beside the engine called 1000 times from Python.
Hessian: of one <Z>, 50 slots on 6 qubits, beside PennyLane default.qubit by backpropagation, both
jitted; the values are compared.

The median of 9 measurements after the first, in single and double precision, every function in a
process of its own; PennyLane with the better of one and two threads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from environments import environment
from peers import BOTH, PENNYLANE, our_kernel
from timing import best, in_process, median, single_or_double

CALLS = 2000
"""In one measurement of dispatch."""

STEPS = 1000
LOOP_QUBITS, LOOP_LAYERS = 4, 4
QUBITS, SLOTS = 6, 50
TOLERANCE = {"float32": 1e-3, "float64": 1e-9}

Call = Callable[[], tuple[Any, ...]]
Circuit = Callable[[Any], Any]


# --- dispatch


def dispatch(function: Callable[[Any], Any], dtype: str) -> Call:
    """CALLS calls, each waited for."""
    import jax
    import jax.numpy as jnp

    jitted, x = jax.jit(function), jnp.asarray([0.3, 0.5], dtype)

    def call() -> tuple[Any, ...]:
        for _ in range(CALLS):
            found = jitted(x).block_until_ready()
        return (found,)

    return call


def two_qubits(dtype: str) -> Call:
    import qml

    @qml.qkernel(qubits=2)
    def kernel(qc: Any, x: Any) -> Any:
        qc.ry(x[0], 0)
        qc.cx(0, 1)
        qc.rx(x[1], 1)
        return [qml.Z(0), qml.Z(1)]

    return dispatch(kernel, dtype)


# --- loops


def loop_arrays(dtype: str) -> tuple[Any, Any]:
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=LOOP_QUBITS), dtype)
    return x, jnp.asarray(rng.normal(size=(LOOP_LAYERS, LOOP_QUBITS, 2)), dtype)


def descent(dtype: str) -> Call:
    """What a user writes."""
    import jax

    kernel = our_kernel(LOOP_QUBITS)
    x, w = loop_arrays(dtype)
    slope = jax.grad(lambda w: kernel(x, w).sum())
    train = jax.jit(
        lambda w: jax.lax.scan(lambda w, _: (w - 0.01 * slope(w), None), w, None, STEPS)[0]
    )
    return lambda: (train(w).block_until_ready(),)


def engine_loop(dtype: str) -> Call:
    """The engine's gradient and nothing else, on as many angles, in a loop of XLA."""
    import jax
    import jax.numpy as jnp

    from qml.kinds import StatevectorConfig
    from qml.primitives import vjp_p

    x, w = loop_arrays(dtype)
    program = our_kernel(LOOP_QUBITS).program(x, w)
    angles = jnp.ones((1, program.num_slots), dtype)
    weights = jnp.ones((1, 1, program.num_outputs), dtype)
    bound = partial(vjp_p.bind, np.uint32(0), program=program, config=StatevectorConfig())
    # The next angles are the gradient, so that no call can be left out or moved out of the loop.
    loop = jax.jit(
        lambda a: jax.lax.scan(lambda a, _: (bound(a, weights)[:, 0], None), a, None, STEPS)[0]
    )
    return lambda: (loop(angles).block_until_ready(),)


def engine_calls(dtype: str) -> Call:
    """The same from Python, without JAX."""
    from qml.kinds import StatevectorConfig
    from qml.simulators.registry import engine

    program = our_kernel(LOOP_QUBITS).program(*loop_arrays(dtype))
    runner: Any = engine(StatevectorConfig())
    weights = np.ones((1, 1, program.num_outputs), dtype)

    def call() -> tuple[Any, ...]:
        angles = np.ones((1, program.num_slots), dtype)
        for _ in range(STEPS):
            angles = runner.compute("expval_vjp", program, angles, weights)[:, 0]
        return (angles,)

    return call


# --- Hessians


def hessian(circuit: Circuit, dtype: str) -> Call:
    import jax
    import jax.numpy as jnp

    p = jnp.asarray(np.random.default_rng(0).normal(size=SLOTS), dtype)
    jitted = jax.jit(jax.hessian(circuit))
    return lambda: (jitted(p).block_until_ready(),)


def our_hessian(dtype: str) -> Call:
    import qml

    @qml.qkernel(qubits=QUBITS)
    def circuit(qc: Any, p: Any) -> Any:
        for k in range(SLOTS):
            (qc.rz if k // QUBITS % 2 else qc.ry)(p[k], k % QUBITS)
            if k % (2 * QUBITS) == 2 * QUBITS - 1:
                for q in range(QUBITS):
                    qc.cx(q, (q + 1) % QUBITS)
        return qml.Z(0)

    return hessian(circuit, dtype)


def default_qubit_hessian(dtype: str) -> Call:
    import pennylane as qp

    def circuit(p: Any) -> Any:
        for k in range(SLOTS):
            (qp.RZ if k // QUBITS % 2 else qp.RY)(p[k], k % QUBITS)
            if k % (2 * QUBITS) == 2 * QUBITS - 1:
                for q in range(QUBITS):
                    qp.CNOT([q, (q + 1) % QUBITS])
        return qp.expval(qp.PauliZ(0))

    device = qp.device("default.qubit", wires=QUBITS)
    return hessian(qp.QNode(circuit, device, interface="jax", diff_method="backprop"), dtype)


OURS: dict[str, Callable[[str], Call]] = {
    "kernel": two_qubits,
    "identity": partial(dispatch, lambda x: x),
    "negation": partial(dispatch, lambda x: -x),
    "descent": descent,
    "engine loop": engine_loop,
    "engine calls": engine_calls,
    "hessian": our_hessian,
}
PEER = "PennyLane"


def measured(name: str, dtype: str) -> tuple[float, Any]:
    """Milliseconds, and values, in a fresh process."""
    script, arguments = Path(__file__).resolve(), [name, dtype]
    if name == PEER:
        found, _ = best(environment(PENNYLANE), script, arguments)
    else:
        found = in_process(sys.executable, script, arguments)
    return float(found["milliseconds"]), found["values"]


def row(label: str, dtype: str, ours: float, other: str, its: float, unit: str) -> None:
    """A line of the table; the ratio is ours to the other's, or the inverse where we are faster."""
    ratio = f"{ours / its:.2f}x" if ours > its else f"{its / ours:.1f}x faster"
    print(f"| {label} | {dtype} | {ours:.2f} {unit} | {other} | {its:.2f} {unit} | {ratio} |")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without PennyLane")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, dtype, answer = arguments.measure
        single_or_double(dtype)
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        made = default_qubit_hessian if name == PEER else OURS[name]
        np.savez(answer, **median(made(dtype)))
        return
    print("| | precision | ours | beside | its | ours to it |\n" + "|---" * 6 + "|", flush=True)
    for dtype in BOTH:
        per_call = 1e3 / CALLS  # milliseconds of CALLS calls in microseconds of one
        ours, _ = measured("kernel", dtype)
        for name in ("identity", "negation"):
            its, _ = measured(name, dtype)
            row("dispatch", dtype, ours * per_call, f"jitted {name}", its * per_call, "us")
        ours, _ = measured("descent", dtype)
        for name in ("engine loop", "engine calls"):
            its, _ = measured(name, dtype)
            row(f"{STEPS} gradient steps", dtype, ours, name, its, "ms")
        ours, values = measured("hessian", dtype)
        if arguments.quick:
            print(f"| Hessian | {dtype} | {ours:.2f} ms | | | |", flush=True)
            continue
        its, theirs = measured(PEER, dtype)
        worst = float(np.abs(values - theirs).max())
        if worst > TOLERANCE[dtype]:
            sys.exit(f"{PEER} and we differ by {worst:.1e}: the times compare nothing.")
        row("Hessian", dtype, ours, f"{PEER} default.qubit, jit", its, "ms")


if __name__ == "__main__":
    main()
