"""What a training run will cost: rows, circuits, shots and jobs, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qml.circuits.program import Program
from qml.config import Backend, resolve
from qml.errors import ArgumentError
from qml.execution import execute, prepare
from qml.kernel import Kernel
from qml.plans import Plan, planning
from qml.settings import EngineConfig


def estimate(
    target: Any,
    *arguments: Any,
    batch: int = 1,
    steps: int = 1,
    training: bool = True,
    backend: Backend = None,
    gradient: str | None = None,
    **keywords: Any,
) -> Plan:
    """The cost of `steps` training steps: values and gradients of all slots, at `batch` samples.

    Nothing is sent. `print` it for a table per request, step and run; `.rows`, `.circuits`,
    `.shots`, `.jobs` and `.seconds` (where the backend states them) are of one step.

    Args:
        target: a kernel; or a Keras model or layer that is built, with the backends of its layers.
        *arguments, **keywords: of the kernel, for one sample: arrays or jax.ShapeDtypeStruct.
        batch: samples in a step, each one run of the circuit.
        steps: of the run.
        training: False for values alone.
        backend, gradient: as in a call of the kernel; a layer has its own.

    Raises:
        ArgumentError: `target` is neither, holds no quantum layer, or comes with what only a
            kernel takes; or `batch` or `steps` is no positive integer.
        ShapeError: a layer is not built.
        EngineError, DeviceError, MissingDependencyError: the backend cannot run it.

    >>> import qml
    >>> @qml.qkernel(qubits=1)
    ... def kernel(qc, x):
    ...     qc.rx(x, 0)
    ...     return qml.Z(0)
    >>> plan = estimate(kernel, 0.5, batch=8, steps=100, backend={"kind": "aer", "shots": 1000})
    >>> plan.rows, plan.shots, plan.jobs  # a value, and two shifted rows for the gradient
    (24, 24000, 2)
    """
    for name, count in (("batch", batch), ("steps", steps)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise ArgumentError(f"{name} must be an integer of at least 1, got {count!r}.")
    if isinstance(target, Kernel):
        parts = [(target.program(*arguments, **keywords), resolve(backend, gradient), 1)]
    elif arguments or keywords or backend is not None or gradient is not None:
        raise ArgumentError(
            "arguments, backend and gradient are for kernels; the layers of a model have theirs."
        )
    else:
        parts = list(_layers(target))
    with planning(steps=int(steps)) as plan:
        for program, config, copies in parts:
            prepare(program, config)
            angles = np.zeros((batch * copies, program.num_slots))
            execute("expval", program, config, 0, angles)
            if training:
                cotangents = np.ones((batch * copies, 1, program.num_outputs))
                execute("expval_vjp", program, config, 0, angles, cotangents)
    return plan


def _layers(target: Any) -> Iterator[tuple[Program, EngineConfig, int]]:
    """Circuit, backend and copies of every quantum layer in a Keras model or layer, each once."""
    from qml.layers.keras_layer import QuantumLayer

    found: dict[int, Any] = {}
    waiting = [target]
    while waiting:
        layer = waiting.pop(0)
        if isinstance(layer, QuantumLayer):
            found.setdefault(id(layer), layer)
        waiting += list(getattr(layer, "layers", None) or ())
        inner = getattr(layer, "layer", None)  # of a wrapper, as TimeDistributed
        waiting += [inner] if inner is not None else []
    if not found:
        raise ArgumentError(
            f"estimate takes a kernel, or a Keras model or layer with a QuantumLayer in it, got a "
            f"{type(target).__name__} without one."
        )
    for layer in found.values():
        yield layer.program, layer.backend, layer.units or 1
