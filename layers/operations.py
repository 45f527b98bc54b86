"""What a quantum layer is in TensorFlow: an operation of its graph, or a call of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import tensorflow as tf

from qml.errors import EngineError
from qml.layers.batch import BatchedKernel
from qml.layers.exporting import NATIVE, exported
from qml.layers.graphs import check_at_calls, is_compiled
from qml.layers.native import NativeOperation
from qml.layers.tensorflow_bridge import HostOperation
from qml.settings import EngineConfig


class Operations:
    """The operations of one layer: which of them runs depends on its engine and on the place.

    Args:
        layer: its name.
        batched: what it evaluates.
        config: gives its engine as of now.
    """

    def __init__(
        self, layer: str, batched: BatchedKernel, config: Callable[[], EngineConfig]
    ) -> None:
        self._layer = layer
        self._batched = batched
        self._config = config
        self._mark = object()
        self._groups = (len(batched.data) + len(batched.weights),)
        # One object per engine, by which compiled functions are found again.
        self._function = lru_cache(maxsize=2)(batched.on)
        self._native = lru_cache(maxsize=2)(self._made_native)
        self._host = HostOperation(lambda: self._function(self._config()), self._groups)

    def __call__(
        self,
        next_key: Callable[[], tf.Tensor],
        arrays: Sequence[tf.Tensor],
        shape: Sequence[Any],
        exporting: bool,
    ) -> list[tf.Tensor]:
        """The values, of this static shape (..., M), at inputs (..., *features) and weights.

        An exported graph and, on the xla engine, every other one hold the engine itself. Elsewhere
        the graph calls the engine in this process, whichever the layer has then.

        Raises:
            EngineError: the engine can be no part of a graph that is exported or compiled; and at
                calls of graphs that hold the xla engine, once the layer has moved to another.
        """
        config = self._config()
        if exporting:
            native = self._native(exported(self._layer, config))
        elif config.kind == NATIVE and not tf.executing_eagerly():
            check_at_calls(lambda: self._check_still_on(config), (self._mark, config.digest))
            native = self._native(config)
        elif not tf.executing_eagerly() and is_compiled():
            raise EngineError(
                f"{self._layer}: the {config.kind!r} engine runs in this process, and cannot be "
                "compiled into a tf.function(jit_compile=True). Leave that out, or move the model "
                "to the xla engine, qml.layers.set_backend(model, 'xla')."
            )
        else:
            # Though the engine be exact: a graph that was traced stays when the layer moves.
            return self._host(next_key(), arrays, [shape])
        # What one input tells of the batch, the others have too.
        alike = [
            tf.ensure_shape(x, [shape[i] if n is None else n for i, n in enumerate(x.shape)])
            for x in arrays
        ]
        return native(None, alike, [shape])

    def _check_still_on(self, config: EngineConfig) -> None:
        now = self._config()
        if now != config:
            raise EngineError(
                f"{self._layer}: a function was traced when the layer was on the {config.kind!r} "
                f"engine, which became a part of it, and the layer has moved to the {now.kind!r} "
                "engine since. Make the tf.function anew, compile the model anew, or call "
                "set_backend on the outermost model."
            )

    def _made_native(self, config: EngineConfig) -> NativeOperation:
        function = self._function(config)
        return NativeOperation(lambda: function, self._groups)
