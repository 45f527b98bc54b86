"""Kernels as layers of Keras models, on Keras' JAX, TensorFlow and PyTorch backends.

Keras reads KERAS_BACKEND when it is first imported and takes TensorFlow where it is not set. Set it
before: `os.environ.setdefault("KERAS_BACKEND", "jax")`.
"""

from __future__ import annotations

from typing import Final

from qml.errors import ConfigError, MissingDependencyError

SUPPORTED: Final = ("jax", "tensorflow", "torch")
"""The Keras backends that a QuantumLayer runs on."""

_ADVICE: Final = (
    "Quantum layers run on Keras' 'jax', 'tensorflow' and 'torch' backends. Set the environment "
    "variable KERAS_BACKEND to 'jax' before Keras is first imported, or to 'tensorflow' or 'torch' "
    "after pip install 'hybrid-qml[tensorflow]' or 'hybrid-qml[torch]'."
)

try:
    import keras
except ModuleNotFoundError as error:
    framework = (error.name or "").split(".")[0]
    if framework not in {"keras", *SUPPORTED, "openvino"}:
        raise
    raise MissingDependencyError(
        f"Keras cannot be imported, because {framework!r} is not installed. {_ADVICE}"
    ) from error

if keras.backend.backend() not in SUPPORTED:
    raise ConfigError(f"Keras runs on its {keras.backend.backend()!r} backend. {_ADVICE}")

from qml.layers.convolution import QuantumConv2D as QuantumConv2D  # noqa: E402
from qml.layers.keras_layer import QuantumLayer as QuantumLayer  # noqa: E402
from qml.layers.moves import set_backend as set_backend  # noqa: E402
from qml.layers.reuploading import ReuploadingLayer as ReuploadingLayer  # noqa: E402
from qml.layers.saved_model import export as export  # noqa: E402
from qml.layers.stored import loading as loading  # noqa: E402
