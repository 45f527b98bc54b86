"""A model as a file that TensorFlow alone can run, whatever version of JAX wrote it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import keras

from qml.errors import ArgumentError, MissingDependencyError
from qml.layers.exporting import exported_by_ours, refuse_torch

if TYPE_CHECKING:
    import tensorflow as tf


def export(model: keras.Model, folder: str | os.PathLike[str]) -> None:
    """Writes a model to a folder that `tf.saved_model.load` reads where this library is not.

    `load(folder).serve(inputs)` gives the model's outputs for batches of any size, and first
    derivatives. It is what `model.export(folder)` writes, and can be had with every JAX: under
    JAX 0.12, Keras' JAX backend by itself writes what TensorFlow 2.21 cannot read.

    Args:
        model: built, its quantum layers on an exact engine: statevector, reference or xla. The file
            holds the xla engine in each case.
        folder: made if there is none; what it holds of a former export is replaced.

    Raises:
        ArgumentError: `model` is no Keras model, or not built.
        EngineError: a quantum layer is on another engine; or Keras runs on torch.
        MissingDependencyError: TensorFlow is not installed.
    """
    if not isinstance(model, keras.Model) or not model.built:
        raise ArgumentError(f"export takes a built Keras model, got {model!r}. Call it on data.")
    if keras.backend.backend() == "torch":
        refuse_torch(model.name)
    try:
        import tensorflow  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "a model is exported by way of TensorFlow: pip install 'hybrid-qml[tensorflow]'."
        ) from error
    if keras.backend.backend() == "tensorflow":
        model.export(folder, verbose=False)
        return
    # Not public: what model.export is made of.
    from keras.src.backend.jax.export import JaxExportArchive
    from keras.src.export.export_utils import get_input_signature

    class Archive(JaxExportArchive):  # type: ignore[misc]
        def _convert_jax2tf_function(self, fn: Any, input_signature: Any, **kwargs: Any) -> Any:
            return converted(fn)

    archive = Archive()
    with exported_by_ours():
        archive.track_and_add_endpoint("serve", model, get_input_signature(model))
        archive.write_out(os.fspath(folder), verbose=False)


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A JAX function of structures of arrays as one of TensorFlow, of StableHLO of our version.

    Integers have no derivative, and are handed on as they are.
    """
    from qml.layers.native import NativeOperation, known, structures, types_of

    def run(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        operands = [_tensor(leaf) for leaf in leaves]
        floating = [operand.dtype.is_floating for operand in operands]

        def of_operands(*values: Any) -> Any:
            return function(*jax.tree.unflatten(structure, values))

        def of_two_kinds(integers: Any, *floats: Any) -> tuple[Any, ...]:
            kinds = {True: iter(floats), False: iter(integers or ())}
            return tuple(jax.tree.leaves(of_operands(*(next(kinds[is_]) for is_ in floating))))

        shaped = jax.eval_shape(of_operands, *structures(types_of(operands)))
        results, out = jax.tree.flatten(shaped)
        count = sum(jnp.issubdtype(r.dtype, jnp.floating) for r in results)
        operation = NativeOperation(lambda: of_two_kinds, (sum(floating),), count)
        key = [x for x, is_ in zip(operands, floating, strict=True) if not is_]
        arrays = [x for x, is_ in zip(operands, floating, strict=True) if is_]
        values = operation(key or None, arrays, [known(r.shape) for r in results])
        return jax.tree.unflatten(out, values)

    return run


def _tensor(leaf: Any) -> tf.Tensor:
    """A variable or an array, in the dtype that JAX would give it."""
    import tensorflow as tf

    tensor = tf.convert_to_tensor(leaf)
    return tf.cast(tensor, jax.dtypes.canonicalize_dtype(tensor.dtype.as_numpy_dtype))
