"""Every layer that we export passes what Keras asks of a layer; and each check can fail."""

import keras
import pytest
from layer_checks import CHECKS, Layer

import qml
from qml.layers import QuantumConv2D, QuantumLayer, ReuploadingLayer


@qml.qkernel(qubits=2, name="test_every_layer.driven")
def driven(qc, x, field, w):
    qc.rx(x[0] + w[0] + field, 0)
    qc.rx(x[1] * w[1], 1)
    return [qml.Z(0), qml.Z(1)]


@qml.qkernel(qubits=1, name="test_every_layer.single")
def single(qc, x, w):
    qc.rx(x[0] + w, 0)
    return qml.Z(0)


@qml.qkernel(qubits=2, name="test_every_layer.table")
def table(qc, x, a, b):
    """Samples of two axes."""
    for q in range(2):
        qc.ry(x[0, q] + a[q], q)
        qc.rx(x[1, q] * b, q)
    qc.cx(0, 1)
    return [qml.Z(0), qml.Z(1), qml.X(0)]


matchgate = qml.circuits.library.matchgate(qubits=3)


def last(values):
    return values[..., -1:] ** 2


def of(cls, *args, **fixed):
    return lambda **options: cls(*args, **{**fixed, **options})


LAYERS = {
    "one output": Layer(of(QuantumLayer, single, {"w": ()}), (4, 1), (4, 1), ((),)),
    "more axes": Layer(of(QuantumLayer, single, {"w": ()}), (4, 3, 1), (4, 3, 1), ((),)),
    "several inputs": Layer(
        of(QuantumLayer, driven, {"w": (2,)}, data_axes={"x": 1, "field": 0}),
        {"x": (4, 2), "field": (4,)},
        (4, 2),
        ((2,),),
    ),
    "samples of two axes": Layer(
        of(QuantumLayer, table, {"a": (2,), "b": ()}, data_axes=2, regularizer={"a": "l2"}),
        (4, 2, 2),
        (4, 3),
        ((2,), ()),
        losses=1,
        masks=False,
    ),
    "copies": Layer(of(QuantumLayer, single, {"w": ()}, units=3), (4, 1), (4, 3), ((3,),)),
    "options": Layer(
        of(
            QuantumLayer,
            matchgate,
            qml.circuits.library.weights(matchgate, 2),
            backend={"kind": "aer", "seed": 3},
            units=2,
            activation="relu",
            regularizer="l2",
            constraint={"theta": "max_norm"},
            initializer={"phases": keras.initializers.RandomNormal(stddev=0.3, seed=5)},
        ),
        (4, 3),
        (4, 6),
        ((2, 3, 2, 2), (2, 2, 3)),
        losses=2,
    ),
    "re-uploading": Layer(of(ReuploadingLayer, 3, depth=2), (4, 3), (4, 3), ((2, 3, 2),)),
    "re-uploading with options": Layer(
        of(
            ReuploadingLayer,
            qubits=2,
            observables=["XX", "ZZ", "IZ"],
            units=2,
            backend="reference",
            regularizer=keras.regularizers.L1(0.01),
        ),
        (4, 5, 2),
        (4, 5, 6),
        ((2, 1, 2, 2),),
        losses=1,
    ),
    "convolution": Layer(
        of(QuantumConv2D, 2, depth=2), (3, 4, 3, 1), (3, 3, 2, 4), ((2, 4, 2),), masks=False
    ),
    "convolution with options": Layer(
        of(
            QuantumConv2D,
            (1, 2),
            strides=(2, 1),
            padding="same",
            data_format="channels_first",
            channels=2,
            units=2,
            backend="reference",
            activation="sigmoid",  # Keras' tanh makes float32 of float64 on JAX
        ),
        (3, 2, 3, 2),
        (3, 8, 2, 2),
        ((2, 1, 4, 2),),
        masks=False,
    ),
    "convolution by a kernel": Layer(
        of(QuantumConv2D, (3, 1), kernel=matchgate, strides=2, regularizer="l2"),
        (2, 5, 3, 1),
        (2, 2, 2, 3),
        ((2, 2, 2), (1, 3)),
        losses=2,
        masks=False,
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_as_keras_wants_it(name, check, tmp_path):
    CHECKS[check](LAYERS[name], tmp_path)


def test_every_layer_that_is_exported_is_checked():
    exported = {
        value
        for value in vars(qml.layers).values()
        if isinstance(value, type) and issubclass(value, keras.layers.Layer)
    }
    assert {type(case.make()) for case in LAYERS.values()} == exported


# A layer with a fault, for each check one that it finds.


class Forgetful(ReuploadingLayer):
    def get_config(self):
        return {k: v for k, v in super().get_config().items() if k != "depth"}


class Stuck(ReuploadingLayer):
    def get_config(self):
        return super().get_config() | {"units": None}


class Unregistered(ReuploadingLayer):
    @classmethod
    def from_config(cls, config):
        return ReuploadingLayer.from_config(config)


class Extra(ReuploadingLayer):
    def build(self, input_shape=None):
        super().build(input_shape)
        self.add_weight(shape=(), name="extra")


class Hidden(ReuploadingLayer):
    def build(self, input_shape=None):
        super().build(input_shape)
        self._angles[0].trainable = False


class Wide(ReuploadingLayer):
    def compute_output_shape(self, input_shape=None):
        return (*super().compute_output_shape(input_shape)[:-1], 7)


class Mixing(ReuploadingLayer):
    def call(self, inputs=None):
        values = super().call(inputs)
        return values - keras.ops.mean(values, axis=0, keepdims=True)


class Lossy(ReuploadingLayer):
    def call(self, inputs=None):
        values = super().call(inputs)
        self.add_loss(keras.ops.sum(values))
        return values


class Unmasked(ReuploadingLayer):
    def compute_mask(self, inputs, previous_mask):
        return None


class Deaf(ReuploadingLayer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.supports_masking = False


class Detached(ReuploadingLayer):
    def call(self, inputs=None):
        values = super().call(inputs)
        return keras.ops.stop_gradient(values) + 0 * values


class Half(ReuploadingLayer):
    def call(self, inputs=None):
        return super().call(keras.ops.cast(keras.ops.cast(inputs, "bfloat16"), inputs.dtype))


class Coarse(ReuploadingLayer):
    def call(self, inputs=None):
        return keras.ops.cast(super().call(inputs), "float16")


class Unsaved(ReuploadingLayer):
    def load_own_variables(self, store):
        pass


class Noisy(ReuploadingLayer):
    def call(self, inputs=None):
        values = super().call(inputs)
        return values + 0.1 * keras.random.normal(keras.ops.shape(values), seed=self._seeds)


FAULTS = {
    "configuration": [Forgetful, Stuck, Unregistered],
    "weights": [Extra, Hidden],
    "shapes": [Wide, Coarse],
    "samples": [Mixing],
    "losses": [Lossy],
    "masks": [Unmasked, Deaf],
    "prediction": [Noisy],
    "saving": [Unsaved],
    "training": [Detached],
    "precision": [Coarse],
}


@pytest.mark.parametrize(
    ("check", "fault"), [(check, fault) for check, faults in FAULTS.items() for fault in faults]
)
def test_a_check_finds_the_fault_of_its_kind(check, fault, tmp_path):
    case = Layer(of(fault, 3, depth=2, units=2), (4, 3), (4, 6), ((2, 2, 3, 2),))
    whole = Layer(of(ReuploadingLayer, 3, depth=2, units=2), case.shapes, case.output, case.weights)
    with keras.saving.custom_object_scope({fault.__name__: fault}):
        with pytest.raises(AssertionError):
            CHECKS[check](case, tmp_path)
        CHECKS[check](whole, tmp_path)


def test_every_check_has_a_fault_to_find():
    assert set(FAULTS) == set(CHECKS)
