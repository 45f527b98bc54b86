"""What a file holds of a quantum layer: its circuit, its kernel's name, and its backend."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np
from keras.src.saving.serialization_lib import in_safe_mode  # not public
from numpy.typing import NDArray

from qml.circuits.archive import pack
from qml.circuits.formulas import COMPLEX, evaluate
from qml.circuits.program import AngleMap, Program
from qml.circuits.stored import StoredKernel
from qml.circuits.tracing import Trace
from qml.config import Backend, resolve
from qml.errors import (
    ConfigError,
    DeviceError,
    EngineError,
    KernelNameError,
    MissingDependencyError,
    QMLError,
    UnknownNameError,
)
from qml.kernel import Kernel, kernels
from qml.layers.batch import BatchedKernel
from qml.settings import EngineConfig
from qml.simulators.registry import engine

COMPARED: Final = 12
"""Qubits up to which two circuits of one name are compared by their values."""

_DRAWS: Final = 4
_TOLERANCE: Final = 1e-9

_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""How a backend's table names a function, for Python to import and call."""

_loading: ContextVar[EngineConfig | None] = ContextVar("loading", default=None)


@contextmanager
def loading(backend: Backend, gradient: str | None = None) -> Iterator[None]:
    """Quantum layers made of files, copies or configurations in this block run on that backend.

    In the place of the one they were saved with, which may need what is not here: a device, a
    plug-in, an account. Weights and random state stay those of the file.

        with qml.layers.loading(backend="statevector"):
            model = keras.saving.load_model("model.keras")

    Args:
        backend: name, table or configuration; None is the ambient backend, now.
        gradient: the rule for derivatives, instead of the backend's.

    Raises:
        ConfigError, UnknownNameError: the backend cannot be resolved.
        DeviceError, MissingDependencyError: what it needs is not there.
    """
    token = _loading.set(configuration(backend, gradient))
    try:
        yield
    finally:
        _loading.reset(token)


def configuration(backend: Backend, gradient: str | None = None) -> EngineConfig:
    """What was asked for, once its engine is there."""
    config = resolve(backend, gradient)
    engine(config)
    return config


def stored_backend(name: str, backend: Backend) -> EngineConfig:
    """The backend that a layer was saved with, or that of `loading`.

    Raises:
        ConfigError: a file names a function as a part of it, which Keras' safe mode forbids to run.
        ConfigError, UnknownNameError, DeviceError, MissingDependencyError, EngineError: as
            `configuration`, with how to load the layer nevertheless.
    """
    if (config := _loading.get()) is not None:
        return config
    if in_safe_mode() and isinstance(backend, Mapping):
        for key, value in backend.items():
            if isinstance(value, str) and _FUNCTION.fullmatch(value):
                raise ConfigError(
                    f"the layer {name!r} was saved with a backend that calls a function, "
                    f"{key} = {value!r}, and a file may name any. If you trust it, load with "
                    "safe_mode=False; or choose the backend yourself, by "
                    'with qml.layers.loading(backend="statevector"): ...'
                )
    try:
        return configuration(backend)
    except (
        ConfigError,
        UnknownNameError,
        DeviceError,
        MissingDependencyError,
        EngineError,
    ) as error:
        raise type(error)(
            f"{error} The layer {name!r} was saved with that backend. Load it on another one by "
            'with qml.layers.loading(backend="statevector"): ...'
        ) from error


STORED: Final = ("sample_shapes", "circuit", "digest")
"""The keys of a configuration that say what circuit it is; no arguments of a layer."""


def circuit_config(trace: Trace) -> dict[str, Any]:
    """The circuit of a layer as plain data."""
    return {"circuit": pack(trace.program, trace.shape), "digest": trace.program.digest}


def stored_kernel(config: Mapping[str, Any]) -> Kernel | str:
    """The kernel of a layer, from its configuration, that writes the stored circuit.

    That is the registered one, where it has the stored circuit. If it writes another one, which has
    the same values, as after an upgrade of Qiskit or a change that means nothing, or if none is
    registered, the stored circuit itself.

    Returns:
        the name alone where no circuit is stored, as of a layer that was not built.

    Raises:
        KernelNameError: the registered kernel has other values, or too many qubits to tell.
        UnknownNameError: none is registered and, as in files of earlier releases, no circuit is
            stored.
        ConfigError: the stored circuit is damaged.
    """
    name, digest, text = config["kernel"], config.get("digest"), config.get("circuit")
    if not isinstance(name, str) or (digest is None and text is None):
        return name  # type: ignore[no-any-return]
    samples = config.get("sample_shapes") or {}
    if text is not None:
        stored = _checked(name, text, digest, samples)
    if name not in kernels and text is not None:
        return stored
    kernel = kernels[name]
    trace = written_by(kernel, config["weights"], config.get("data_axes", 1), samples)
    if trace is not None and trace.program.digest == digest:
        return kernel
    problem = "it does not take the same arguments"
    if trace is not None:
        problem = "no circuit is stored to compare with"
        if text is not None:
            problem = _difference(trace.program, stored.stored)
            if not problem:
                return stored
    raise KernelNameError(
        f"{config.get('name', name)}: the kernel {name!r} writes another circuit than when the "
        f"layer was saved or copied, so its weights would mean something else ({problem}). Restore "
        "the kernel as it was, and give the new one a name of its own: "
        "@qkernel(qubits=..., name=...). Where no kernel of that name has been defined, the layer "
        "loads with the circuit in the file."
    )


def _checked(name: str, text: object, digest: object, samples: Any) -> StoredKernel:
    """The stored circuit, once what stands beside it fits."""
    if not isinstance(digest, str):
        raise ConfigError(
            f"the circuit of {name!r} is stored without its digest: the file was changed."
        )
    stored = StoredKernel.read(name, text, digest)
    shapes = {argument: list(shape) for argument, shape in stored.stored.arguments}
    wrong = not isinstance(samples, Mapping) or [
        argument for argument, shape in samples.items() if shapes.get(argument) != list(shape)
    ]
    if wrong:
        raise ConfigError(
            f"the circuit of {name!r} is stored with arguments of shapes {shapes}, but as one for "
            f"samples of shapes {samples!r}: the file was changed."
        )
    return stored


def written_by(
    kernel: Kernel,
    weights: Mapping[str, Sequence[int]],
    data_axes: int | Mapping[str, int],
    samples: Mapping[str, Sequence[int]],
) -> Trace | None:
    """A kernel's circuit for these arguments, None where it cannot take them."""
    try:
        batched = BatchedKernel.of(kernel, weights, data_axes)
        if set(samples) != {name for name, _ in batched.data}:
            return None
        return batched.trace([tuple(samples[name]) for name, _ in batched.data])
    except QMLError:
        return None


def _difference(one: Program, other: Program) -> str:
    """In what two circuits differ; nothing where their values at drawn arguments agree."""
    if (one.num_qubits, one.arguments, one.num_outputs) != (
        other.num_qubits,
        other.arguments,
        other.num_outputs,
    ):
        return "it has other qubits, arguments or outputs"
    if one.num_qubits > COMPARED:
        return f"more than {COMPARED} qubits are not compared by values"
    generator = np.random.default_rng(0)
    size = (_DRAWS, one.angles.num_arguments)
    # All angles; and arguments at which square roots, logarithms and arc sines have a value.
    arguments = np.concatenate([generator.uniform(-np.pi, np.pi, size), generator.random(size)])
    angles = [np.array([_angles(p.angles, row) for row in arguments]) for p in (one, other)]
    finite = [np.isfinite(rows).all(axis=1) for rows in angles]
    if not finite[0].any() or (finite[0] != finite[1]).any():
        return "its angles have values at other arguments"
    exact = engine(resolve("reference"))
    wanted = np.ones(one.num_outputs, np.bool_)
    values = [
        exact.expval(program, rows[finite[0]], outputs=wanted, seed=0).values
        for program, rows in zip((one, other), angles, strict=True)
    ]
    gap = float(np.abs(values[0] - values[1]).max(initial=0.0))
    scale = 1 + float(np.abs(values[1]).max(initial=0.0))
    return "" if gap <= _TOLERANCE * scale else f"values differ by {gap:.1e}"


def _angles(angles: AngleMap, flat: NDArray[np.float64]) -> NDArray[np.float64]:
    """All slot angles in double precision, not a number where a formula has no real value."""
    found = angles.offset.copy()
    np.add.at(found, angles.slots, angles.coefficients * flat[angles.arguments])
    for formula in angles.formulas:
        for slot, which in zip(formula.slots, formula.arguments, strict=True):
            try:
                value = complex(evaluate(formula.text, flat[which].tolist(), COMPLEX))
            except (ArithmeticError, ValueError):  # outside of the domain of a function
                value = complex(np.nan)
            found[slot] += value.real if abs(value.imag) < _TOLERANCE else np.nan
    return found
