"""Quanvolution: a kernel that goes over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from qml.circuits import library
from qml.circuits.templates import PREFIX, count
from qml.errors import ArgumentError, ShapeError, nearest
from qml.kernel import Kernel
from qml.layers.keras_layer import QuantumLayer

Sizes = tuple[int | None, ...]


@keras.saving.register_keras_serializable("qml")
class QuantumConv2D(QuantumLayer):
    """A kernel on every patch: (batch, height, width, channels) -> (batch, rows, columns, outputs).

    The geometry is that of keras.layers.Conv2D. One sample of the kernel is a patch, an array
    (features,) of its pixels row by row, of each pixel all channels; features = kernel height x
    kernel width x channels. All patches of all images of a batch are one request to the engine.
    What is padded is 0.

    Args:
        kernel_size: height and width of a patch; an integer is both.
        strides: how far apart patches are, down and across; an integer is both.
        padding: "valid" or "same".
        data_format: "channels_last" or "channels_first", of inputs and outputs; by default that of
            keras.config. An activation always sees the channels last.
        kernel: a Kernel of one argument of data, or the name of one; by default
            `qml.circuits.library.reuploading` with a qubit for every feature.
        weights: name -> shape of every trained argument of the kernel; by default those of `depth`
            layers, of a kernel of the library.
        depth: number of layers, where weights are not given.
        channels: of the images.
        **kwargs: backend, gradient, initializer, units, activation, regularizer, constraint, name,
            dtype, trainable: as of QuantumLayer. units are filters, each of all outputs of the
            kernel; trainable=False leaves the circuit as it was drawn, as in the source.

    Raises:
        ArgumentError: sizes that are none, an unknown padding or data format, or a kernel without
            weights that are known.
        ShapeError: when built, for images that are smaller than a patch, have other channels, no
            four axes, or no known sizes where "same" padding with strides needs them.

    Source: M. Henderson et al., Quantum Mach. Intell. 2, 2 (2020).

    >>> import numpy as np
    >>> layer = QuantumConv2D(kernel_size=2, strides=2, depth=1)
    >>> layer(np.zeros((5, 8, 6, 1))).shape == (5, 4, 3, 4), layer.count_params()
    (True, 8)
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "valid",
        data_format: str | None = None,
        kernel: Kernel | str | None = None,
        weights: Mapping[str, Sequence[int]] | None = None,
        depth: int = 1,
        channels: int = 1,
        **kwargs: Any,
    ) -> None:
        size = _pair("kernel_size", kernel_size)
        channels = count("channels", channels, 1)
        if kernel is None:
            kernel = library.reuploading(size[0] * size[1] * channels)
        elif isinstance(kernel, str) and kernel.startswith(PREFIX):
            kernel = library.named(kernel)
        if weights is None:
            weights = library.weights(kernel, depth)  # type: ignore[arg-type]
        super().__init__(kernel, weights, data_axes=1, **kwargs)
        if len(self._batched.data) != 1:
            raise ArgumentError(
                f"{self.name}: a patch is given to one argument of the kernel, but "
                f"{self.kernel.name}{self.kernel.signature} has {len(self._batched.data)} that are "
                "no weights."
            )
        self.supports_masking = False
        self._size = size
        self._strides = _pair("strides", strides)
        self._padding = _choice("padding", padding, ("valid", "same"))
        formats = ("channels_last", "channels_first")
        data_format = keras.config.image_data_format() if data_format is None else data_format
        self._data_format = _choice("data_format", data_format, formats)
        self._depth, self._channels = depth, channels

    def build(self, input_shape: Any = None) -> None:
        super().build(self._patches_shape(input_shape))

    def compute_output_shape(self, input_shape: Any = None) -> Sizes:
        shape = super().compute_output_shape(self._patches_shape(input_shape))
        return (shape[0], *shape[3:], *shape[1:3]) if self._channels_first else shape

    def call(self, inputs: Any = None) -> Any:
        self._patches_shape(inputs.shape)
        values = super().call(self._patches(inputs))
        return keras.ops.transpose(values, (0, 3, 1, 2)) if self._channels_first else values

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["data_axes"]
        return {
            **config,
            "kernel_size": list(self._size),
            "strides": list(self._strides),
            "padding": self._padding,
            "data_format": self._data_format,
            "depth": self._depth,
            "channels": self._channels,
        }

    @property
    def _channels_first(self) -> bool:
        return self._data_format == "channels_first"

    def _patches(self, images: Any) -> Any:
        """(batch, rows, columns, features). By slices: exact in any precision, for any size."""
        if self._channels_first:
            images = keras.ops.transpose(images, (0, 2, 3, 1))
        pads = [self._pads(axis, images.shape[1 + axis]) for axis in (0, 1)]
        if any(before or after for before, after in pads):
            images = keras.ops.pad(images, [(0, 0), *pads, (0, 0)])
        (height, width), (down, across) = self._size, self._strides
        pixels = [
            images[:, i : i - height + 1 or None : down, j : j - width + 1 or None : across]
            for i in range(height)
            for j in range(width)
        ]
        return keras.ops.concatenate(pixels, axis=-1)

    def _patches_shape(self, shape: Any) -> Sizes:
        """That of `_patches` for images of this shape.

        Raises:
            ShapeError: they are none, or have other channels than the layer.
        """
        order = (
            "(batch, channels, height, width)"
            if self._channels_first
            else ("(batch, height, width, channels)")
        )
        sizes = tuple(shape)
        if len(sizes) != 4:
            raise ShapeError(
                f"{self.name}: the images must have shape {order}, but have shape {sizes}."
            )
        if self._channels_first:
            sizes = (sizes[0], *sizes[2:], sizes[1])
        if sizes[3] != self._channels:
            raise ShapeError(
                f"{self.name}: the images must have shape {order} with {self._channels} "
                f"channel(s), but have shape {tuple(shape)}. Pass channels={sizes[3]}, which the "
                "kernel must fit, or another data_format."
            )
        spans = [self._patches_along(axis, sizes[1 + axis]) for axis in (0, 1)]
        return (sizes[0], *spans, self._size[0] * self._size[1] * self._channels)

    def _patches_along(self, axis: int, size: int | None) -> int | None:
        before, after = self._pads(axis, size)
        if size is None:
            return None
        room = size + before + after - self._size[axis]
        if room < 0:
            raise ShapeError(
                f"{self.name}: the {('height', 'width')[axis]} of the images must be at least that "
                f"of a patch, {self._size[axis]}, but is {size}. Pass padding='same'."
            )
        return 1 + room // self._strides[axis]

    def _pads(self, axis: int, size: int | None) -> tuple[int, int]:
        """How many rows or columns of zeros come before and after the image."""
        patch, stride = self._size[axis], self._strides[axis]
        if self._padding == "valid":
            return 0, 0
        if stride == 1:
            total = patch - 1
        elif size is None:
            raise ShapeError(
                f"{self.name}: 'same' padding with strides depends on the size of the images, "
                "which is not known. State it by keras.Input or tf.ensure_shape."
            )
        else:
            total = max(patch - (size % stride or stride), 0)
        return total // 2, total - total // 2


def _pair(what: str, value: Any) -> tuple[int, int]:
    both = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(both) != 2:
        raise ArgumentError(f"{what} must be an integer or two of them, got {value!r}.")
    return count(what, both[0], 1), count(what, both[1], 1)


def _choice(what: str, value: Any, valid: Sequence[str]) -> str:
    if value not in valid:
        raise ArgumentError(f"{what} is {value!r}: {nearest(str(value), valid)}")
    return str(value)
