"""Peak memory of values and all gradients against the depth of the circuit (Linux).

    python benchmarks/memory.py                       16 qubits, 8 samples, 10 to 1000 layers
    python benchmarks/memory.py --profile 1000        where the time before the first step goes

Layers of the circuit in peers.py, in three kinds. *Own weights*: every layer has weights of its
own, so that arguments, angles and gradients grow with the depth, as the answer itself does. *Shared
weights*: all layers have the same ones; angles still grow. *10 layers of weights*: the first and
the last five layers have inputs and weights and all between them constant angles, so that the
operands stay as they are and both sweeps still go through every layer.

Each depth runs in a process of its own, which may take half the machine's memory and in which a
step of 4 qubits was run first. MiB: *circuit*, the resident growth by tracing, planning and
compiling; *step*, the peak of the first compiled step above what was resident before it; *angles*,
one array of the angles of all slots and samples; *net*, the step without the engine's operand and
result, which are two such arrays, and without the values and gradients that the step returns. The
factors are to the least depth. Seconds per 1000 gates: *trace*, writing the Qiskit circuit and
lowering it to a Program; *plan*, from there to XLA's code.

Transparent huge pages are off. XLA's allocator asks for them, and then the kernel, every few
seconds and whatever the process does, makes pages half in use into whole ones: up to 8 MiB more
during a step of 10 s that allocates none of it.
"""

from __future__ import annotations

import argparse
import cProfile
import ctypes
import gc
import os
import pstats
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import Failure, in_process, single_or_double

BATCH = 8
DEPTHS = (10, 100, 1000)
CONSTANT_ANGLE = 0.3
OWN, SHARED, ENDS = KINDS = ("own weights", "shared weights", "10 layers of weights")
ENDS_LAYERS = 10

MIB = 2**20
LIBC = ctypes.CDLL("libc.so.6", use_errno=True)
PR_SET_THP_DISABLE = 41


def deep_kernel(qubits: int, depth: int, kind: str) -> Any:
    """The circuit in peers.py with this many layers, some of them of constant angles."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import qml

    @qml.qkernel(qubits=qubits)
    def kernel(qc: Any, x: Any, w: Any) -> Any:
        layers: list[tuple[Any, Any]] = [(x, layer) for layer in w]
        if kind == SHARED:
            layers *= depth
        elif kind == ENDS:
            constants = [CONSTANT_ANGLE] * qubits, np.full((qubits, 2), CONSTANT_ANGLE)
            layers[len(w) // 2 : len(w) // 2] = [constants] * (depth - len(w))
        for inputs, weights in layers:
            for q in range(qubits):
                qc.ry(inputs[q], q)
            for q in range(qubits):
                qc.ry(weights[q, 0], q)
                qc.rz(weights[q, 1], q)
            for q in range(qubits):
                qc.cx(q, (q + 1) % qubits)
        return [qml.Z(q) for q in range(qubits)]

    return kernel


def traced(qubits: int, depth: int, kind: str, dtype: str) -> tuple[Any, Any]:
    """The traced kernel, and inputs, weights and cotangents."""
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    with_weights = {OWN: depth, SHARED: 1, ENDS: min(depth, ENDS_LAYERS)}[kind]
    shapes = (BATCH, qubits), (with_weights, qubits, 2), (BATCH, qubits)
    operands = tuple(jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes)
    kernel = deep_kernel(qubits, depth, kind)
    kernel.trace(operands[0][0], operands[1])
    return kernel, operands


def compiled(kernel: Any, operands: Any) -> Callable[[], Any]:
    """The values and gradients as an executable that has not run yet."""
    import jax

    def weighted(x: Any, w: Any, c: Any) -> Any:
        values = jax.vmap(lambda x, w: kernel(x, w, backend="statevector"), (0, None))(x, w)
        return (values * c).sum(), values

    step = jax.value_and_grad(weighted, (0, 1), has_aux=True)
    executable = jax.jit(step).lower(*operands).compile()
    return lambda: jax.block_until_ready(executable(*operands))  # type: ignore[no-untyped-call]


def status(key: str) -> int:
    """Bytes: VmRSS, resident now, or VmHWM, the most since `settle`."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key)
    )
    return 1024 * int(line.split()[1])


def settle() -> int:
    """Gives freed memory back, so that nothing hides in it; resident bytes, the peak from now."""
    gc.collect()
    LIBC.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def measure(qubits: int, depth: int, kind: str, dtype: str) -> dict[str, float]:
    """Bytes and seconds of one circuit, in this process."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    resource.setrlimit(resource.RLIMIT_AS, (half, half))
    if LIBC.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel keeps transparent huge pages on")
    single_or_double(dtype)
    compiled(*traced(4, 1, OWN, dtype))()
    before = settle()
    begin = time.perf_counter()
    kernel, operands = traced(qubits, depth, kind, dtype)
    middle = time.perf_counter()
    step = compiled(kernel, operands)
    end = time.perf_counter()
    resident = settle()
    results = step()
    growth = status("VmHWM") - resident
    trace = kernel.trace(operands[0][0], operands[1])
    angles = BATCH * trace.program.num_slots * np.dtype(dtype).itemsize
    (_, values), gradients = results
    returned = sum(array.nbytes for array in (values, *gradients))
    return {
        "circuit": resident - before,
        "step": growth,
        "angles": angles,
        "net": growth - 2 * angles - returned,
        "gates": len(trace.circuit.data),
        "trace": middle - begin,
        "plan": end - middle,
    }


def profile(qubits: int, depth: int, kind: str, dtype: str) -> None:
    """Prints the functions that tracing, planning and compiling spend most in themselves."""
    single_or_double(dtype)
    compiled(*traced(4, 1, OWN, dtype))()
    with cProfile.Profile() as profiler:
        compiled(*traced(qubits, depth, kind, dtype))
    stats = pstats.Stats(profiler)
    for order in ("cumulative", "tottime"):
        stats.sort_stats(order).print_stats(30)


def row(qubits: int, depth: int, kind: str, dtype: str, least: dict[str, float]) -> str:
    """A row of the table; `least` takes what the first depth found, or has it."""
    try:
        found = in_process(
            sys.executable, Path(__file__).resolve(), [str(qubits), str(depth), kind, dtype]
        )
    except Failure as failure:
        return f"| {kind} | {depth:,} | {failure} |"
    for key in ("step", "net"):
        least.setdefault(key, float(found[key]))
    gates = float(found["gates"])
    cells = (
        kind,
        f"{depth:,}",
        f"{gates:,.0f}",
        f"{found['circuit'] / MIB:.1f}",
        f"{found['step'] / MIB:.1f}",
        f"{found['step'] / least['step']:.3f}",
        f"{found['angles'] / MIB:.2f}",
        f"{found['net'] / MIB:.1f}",
        f"{found['net'] / least['net']:.3f}",
        f"{1e3 * found['trace'] / gates:.3f}",
        f"{1e3 * found['plan'] / gates:.3f}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qubits", type=int, default=16)
    parser.add_argument("--depths", nargs="*", type=int, default=DEPTHS, help="of 10 and more")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--precision", choices=("float32", "float64"), default="float64")
    parser.add_argument("--profile", type=int, metavar="LAYERS")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        qubits, depth, kind, dtype, answer = arguments.measure
        np.savez(answer, **measure(int(qubits), int(depth), kind, dtype))  # type: ignore[arg-type]
        return
    if arguments.profile:
        profile(arguments.qubits, arguments.profile, arguments.kinds[0], arguments.precision)
        return
    head = ["circuit", "layers", "gates", "circuit, MiB", "step, MiB", "factor", "angles, MiB"]
    head += ["net, MiB", "factor", "trace, s per 1000 gates", "plan, s per 1000 gates"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for kind in arguments.kinds:
        least: dict[str, float] = {}
        for depth in arguments.depths:
            print(row(arguments.qubits, depth, kind, arguments.precision, least), flush=True)


if __name__ == "__main__":
    main()
