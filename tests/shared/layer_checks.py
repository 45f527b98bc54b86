"""What Keras asks of every layer, as checks by name; each fails by an AssertionError.

Public Keras only, so that a layer of anyone's can be checked on any version of it.
"""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

LEFT_OUT = {"self", "kwargs", "gradient"}
"""Arguments that no configuration holds: the gradient is part of the backend's."""


@dataclass(frozen=True)
class Layer:
    """A layer under check, and what is expected of it.

    Attributes:
        make: (**options) -> a new layer of that configuration and those options of every layer.
        shapes: of a batch of inputs, or of each by name.
        output: shape of the output of that batch.
        weights: shape of each trained weight.
        losses: how many terms of regularisation a call adds.
        masks: whether a mask of the batch is handed on.
        generators: of random numbers, each a variable more that is not trained.
    """

    make: Callable[..., Any]
    shapes: Any
    output: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    losses: int = 0
    masks: bool = True
    generators: int = 1

    def inputs(self, dtype: str = "float32") -> Any:
        generator = np.random.default_rng(5)
        return each(lambda shape: generator.uniform(-1, 1, shape).astype(dtype), self.shapes)

    def symbols(self) -> Any:
        """Inputs of a functional model, for batches of any size."""
        if isinstance(self.shapes, dict):
            return {name: keras.Input(s[1:], name=name) for name, s in self.shapes.items()}
        return keras.Input(self.shapes[1:])

    def model(self, layer: Any) -> Any:
        symbols = self.symbols()
        return keras.Model(symbols, layer(symbols))


def each(function: Callable[[Any], Any], shapes: Any) -> Any:
    if isinstance(shapes, dict):
        return {name: function(shape) for name, shape in shapes.items()}
    return function(shapes)


def array(tensor: Any) -> Any:
    return np.array(keras.ops.convert_to_numpy(tensor))


def same(one: Any, other: Any, tolerance: float = 0.0) -> None:
    np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def check_configuration(case: Layer, folder: Any) -> None:
    """Plain data with every argument, from which the same layer is made, built or not."""
    for built in (False, True):
        layer = case.make()
        if built:
            layer.build(case.shapes)
        config = layer.get_config()
        assert json.loads(json.dumps(config)) == config
        arguments = set(inspect.signature(type(layer).__init__).parameters) - LEFT_OUT
        assert arguments <= set(config), arguments - set(config)
        again = type(layer).from_config(json.loads(json.dumps(config)))
        assert type(again) is type(layer)
        if built:
            again.build(case.shapes)
            assert [w.shape for w in again.weights] == [w.shape for w in layer.weights]
            again.set_weights(layer.get_weights())
            same(array(again(case.inputs())), array(layer(case.inputs())))
        assert again.get_config() == config
        assert set(vars(again)) == set(vars(layer))
        text = json.dumps(keras.saving.serialize_keras_object(layer))
        other = keras.saving.deserialize_keras_object(json.loads(text))
        assert type(other) is type(layer) and other.get_config() == config


def check_weights(case: Layer, folder: Any) -> None:
    """As many weights as expected, of the expected shapes, all trained, or none."""
    layer = case.make()
    assert not layer.built
    layer.build(case.shapes)
    assert layer.built
    assert tuple(tuple(w.shape) for w in layer.trainable_weights) == case.weights
    assert layer.count_params() == sum(int(np.prod(shape)) for shape in case.weights)
    assert layer.non_trainable_weights == []
    assert len(layer.non_trainable_variables) == case.generators
    assert {w.dtype for w in layer.weights} <= {layer.variable_dtype}
    assert len({w.path for w in layer.variables}) == len(layer.variables)
    frozen = case.make(trainable=False)
    frozen.build(case.shapes)
    assert frozen.trainable_weights == []
    assert len(frozen.non_trainable_weights) == len(case.weights)


def check_shapes(case: Layer, folder: Any) -> None:
    """What is said of the output's shape and dtype, symbolically and before, is what comes."""
    layer = case.make()
    unknown = each(lambda shape: (None, *shape[1:]), case.shapes)
    expected = (None, *case.output[1:])
    assert tuple(layer.compute_output_shape(unknown)) == expected
    assert tuple(layer.compute_output_shape(case.shapes)) == case.output
    symbol = layer(case.symbols())
    assert tuple(symbol.shape) == expected
    output = layer(case.inputs())
    assert tuple(output.shape) == case.output
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype == symbol.dtype
    assert np.isfinite(array(output)).all()
    nothing = layer(each(lambda a: a[:0], case.inputs()))
    assert tuple(nothing.shape) == (0, *case.output[1:])


def check_samples(case: Layer, folder: Any) -> None:
    """A batch is its samples, each for itself."""
    layer = case.make()
    whole = array(layer(case.inputs()))
    for i in range(len(whole)):
        one = layer(each(lambda a, i=i: a[i : i + 1], case.inputs()))
        same(array(one), whole[i : i + 1], 1e-6)


def check_losses(case: Layer, folder: Any) -> None:
    """A call adds the expected number of losses, anew each time."""
    layer = case.make()
    for _ in range(2):
        layer(case.inputs())
        assert len(layer.losses) == case.losses


def check_masks(case: Layer, folder: Any) -> None:
    """A mask of the batch is handed on, or the layer says that it is not."""
    layer = case.make()
    assert layer.supports_masking is case.masks
    if case.masks:
        mask = np.arange(case.output[0]) % 2 == 0
        symbols = case.symbols()
        handed = layer.compute_mask(symbols, each(lambda _: mask, case.shapes))
        np.testing.assert_array_equal(array(handed), mask)
        assert layer.compute_mask(symbols, each(lambda _: None, case.shapes)) is None


def check_prediction(case: Layer, folder: Any) -> None:
    """predict, in batches of another size, gives what a call gives."""
    layer = case.make()
    model = case.model(layer)
    same(model.predict(case.inputs(), batch_size=2, verbose=0), array(layer(case.inputs())), 1e-6)
    lines: list[str] = []
    model.summary(print_fn=lines.append, line_length=120)
    text = "\n".join(lines)
    row = next(
        line for line in text.splitlines() if f" {layer.name} ({type(layer).__name__})" in line
    )
    assert str((None, *case.output[1:])) in row
    assert f"Total params: {layer.count_params()} " in text


def check_saving(case: Layer, folder: Any) -> None:
    """A model loads from a file as it was, and its clone is another of that configuration."""
    model = case.model(case.make())
    model.save(folder / "model.keras")
    again = keras.saving.load_model(folder / "model.keras")
    same(again.predict(case.inputs(), verbose=0), model.predict(case.inputs(), verbose=0))
    configs = [m.layers[-1].get_config() for m in (model, again, keras.models.clone_model(model))]
    assert configs[0] == configs[1] == configs[2]
    assert {type(m.layers[-1]) for m in (model, again)} == {type(case.make())}
    model.save_weights(folder / "model.weights.h5")
    clone = keras.models.clone_model(model)
    clone.load_weights(folder / "model.weights.h5")
    same(clone.predict(case.inputs(), verbose=0), model.predict(case.inputs(), verbose=0))


def check_training(case: Layer, folder: Any) -> None:
    """One step changes every weight, to numbers, and none of a frozen layer."""
    for trainable in (True, False):
        layer = case.make(trainable=trainable)
        symbols = case.symbols()
        flat = keras.layers.Flatten()(layer(symbols))
        model = keras.Model(symbols, keras.layers.Dense(1)(flat))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        before = [array(w) for w in layer.weights]
        model.fit(case.inputs(), np.ones((case.output[0], 1)), epochs=1, verbose=0)
        after = [array(w) for w in layer.weights]
        assert len(after) == len(case.weights)
        for old, new in zip(before, after, strict=True):
            assert np.isfinite(new).all()
            assert np.any(old != new) == trainable


def check_precision(case: Layer, folder: Any) -> None:
    """Under policies of half precision angles and outputs stay in single; double is double."""
    layer = case.make()
    full = layer(case.inputs())
    for policy in ("mixed_float16", "mixed_bfloat16"):
        keras.config.set_dtype_policy(policy)
        mixed = case.make()
        output = mixed(case.inputs())
        mixed.set_weights(layer.get_weights())
        again = mixed(case.inputs())
        keras.config.set_dtype_policy("float32")
        assert {w.dtype for w in mixed.weights} <= {"float32"}
        assert keras.backend.standardize_dtype(output.dtype) == "float32" == mixed.compute_dtype
        same(array(again), array(full), 1e-6)
    double = case.make(dtype="float64")
    output = double(case.inputs("float64"))
    assert keras.backend.standardize_dtype(output.dtype) == "float64"
    double.set_weights(layer.get_weights())
    same(array(double(case.inputs("float64"))), array(full), 1e-5)


CHECKS = {
    name.removeprefix("check_"): function
    for name, function in list(globals().items())
    if name.startswith("check_")
}
