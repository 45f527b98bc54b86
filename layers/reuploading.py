"""A layer for those who have no circuit in mind: data re-uploading."""

from __future__ import annotations

from typing import Any

import keras

from qml.circuits import library
from qml.errors import ArgumentError
from qml.layers.keras_layer import QuantumLayer


@keras.saving.register_keras_serializable("qml")
class ReuploadingLayer(QuantumLayer):
    """Data re-uploading as a layer: (batch, qubits) -> (batch, qubits).

    Every feature is the angle of one qubit, in radian, in each of `depth` layers of
    `qml.circuits.library.reuploading`. So the outputs are Fourier series of the features, up to the
    frequency `depth`: scale features to a full turn at most. For another number of features than
    qubits put a Dense(qubits) before this layer.

    Args:
        qubits: how many, as many as there are features.
        depth: how many times the features enter, at least 1.
        observables: Pauli labels, qubit 0 rightmost, or "probs", instead of Z on every qubit.
        **kwargs: backend, gradient, initializer, units, activation, regularizer, constraint, name,
            dtype, trainable: as of QuantumLayer.

    Raises:
        ArgumentError, ObservableError: qubits, depth or observables are none.
        ShapeError: when built, for another number of features.

    >>> import numpy as np
    >>> layer = ReuploadingLayer(qubits=3, depth=2)
    >>> layer(np.zeros((5, 3))).shape == (5, 3), layer.count_params()
    (True, 12)
    """

    def __init__(self, qubits: int, depth: int = 1, observables: Any = None, **kwargs: Any) -> None:
        ready = library.reuploading(qubits, observables)
        shapes = library.weights(ready, depth)
        # A configuration has both: its kernel may be a circuit from a file.
        kernel, weights = kwargs.pop("kernel", ready), kwargs.pop("weights", shapes)
        given = {name: tuple(shape) for name, shape in dict(weights).items()}
        if getattr(kernel, "name", kernel) != ready.name or given != shapes:
            raise ArgumentError(
                f"a ReuploadingLayer runs {ready.name} with weights of its own. Use a QuantumLayer "
                "for another kernel, or other weights."
            )
        super().__init__(kernel, weights, **kwargs)
        self._options = {"qubits": ready.num_qubits, "depth": depth, "observables": observables}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._options}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> QuantumLayer:
        """As `QuantumLayer.from_config`, in any process."""
        library.reuploading(config["qubits"], config["observables"])
        return super().from_config(config)
