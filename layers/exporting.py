"""Whether a model is being exported, and what its quantum layers then run on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Final, NoReturn

import jax
import keras

from qml.errors import EngineError
from qml.execution import is_traceable
from qml.kinds import XlaConfig
from qml.settings import EngineConfig

NATIVE: Final = "xla"
"""The kind of engine that graphs of TensorFlow hold."""

SAME: Final = ("statevector", "reference")
"""Engines that run in this process only, and compute what the xla engine does."""

KERAS: Final = "keras.src.export"
"""Where Keras exports from, a module for each format."""

FORMATS: Final = frozenset({"litert", "openvino", "torch"})
"""The modules of formats that a quantum layer has no form for."""

PLAIN: Final = "onnx"
"""The module of the format for which a layer is written in plain operations."""

_ours: ContextVar[bool] = ContextVar("exported by ours", default=False)


def is_exporting() -> bool:
    """Whether Keras calls the layers to export them, by `model.export` or an `ExportArchive`.

    Keras does not tell its layers, so it is looked for among the callers. Should it not be found,
    engines that cannot be exported raise when the file is written.
    """
    return bool(_exporters()) or _is_torch_exporting()


def is_plain() -> bool:
    """Whether the format that is exported to has no operation that holds an engine."""
    return PLAIN in _exporters()


def _is_torch_exporting() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_exporting()


def _exporters() -> set[str]:
    """The modules of Keras' package of exporters that are among the callers."""
    found = set()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(KERAS):
            found.add(name.removeprefix(KERAS).strip("."))
        frame = frame.f_back
    return found


@contextmanager
def exported_by_ours() -> Iterator[None]:
    """Within, the StableHLO that is written is of the version that we choose, not Keras'."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def exported(layer: str, config: EngineConfig) -> EngineConfig:
    """The engine that an exported layer runs on, for one on this engine.

    Raises:
        EngineError: the engine cannot be exported, and no other one has the same values; or the
            file could not be read.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        refuse_torch(layer)
    for other in FORMATS & _exporters():
        raise EngineError(
            f"{layer}: a model with a quantum layer cannot be exported to the format {other!r}, "
            "which has no operation for what the layer holds. Export it to a SavedModel, "
            "qml.layers.export(model, folder)."
        )
    if not is_traceable("expval", config) and config.kind not in SAME:
        raise EngineError(
            f"{layer}: a layer on the {config.kind!r} engine cannot be exported: what it asks for "
            "runs in this process or on a machine, which an exported file cannot hold. Move the "
            "model to an exact engine first, qml.layers.set_backend(model, 'statevector'), or save "
            "it, model.save('model.keras'), and load it where this library is installed."
        )
    if backend == "jax" and not _ours.get() and not is_plain():
        from qml.layers.native import reads_what_jax_writes

        if not reads_what_jax_writes():
            raise EngineError(
                f"{layer}: JAX {jax.__version__} writes a StableHLO that this TensorFlow cannot "
                "read, so what model.export writes could not be run. Call "
                "qml.layers.export(model, folder) instead, which writes an older one, or export in "
                "a process with KERAS_BACKEND=tensorflow."
            )
    return config if is_traceable("expval", config) else XlaConfig()


def refuse_torch(name: str) -> NoReturn:
    """Raises EngineError: on torch, what is to be exported calls JAX."""
    raise EngineError(
        f"{name}: a model with a quantum layer cannot be exported from Keras' torch backend. Save "
        "it, model.save('model.keras'), and in a process with KERAS_BACKEND=tensorflow or jax load "
        "it and export it there."
    )
