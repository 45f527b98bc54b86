"""Which circuit a loaded layer runs, and on which backend."""

import copy
import threading

import keras
import numpy as np
import pytest

import qml
from qml.circuits import library
from qml.circuits.stored import StoredKernel
from qml.errors import ConfigError, DeviceError, KernelNameError, QMLError, UnknownNameError
from qml.kernel import kernels
from qml.kinds import KINDS
from qml.layers import QuantumLayer, loading, set_backend, stored as stored_module

WEIGHTS = {"theta": (2,)}
X = np.random.default_rng(0).normal(size=(5, 2))


def define(angle=0.3, first="ry", width=2, name="test_stored.kernel", last=lambda qc: None):
    """A kernel under one name, as it is now in the user's script."""

    def kernel(qc, x, theta):
        for q in range(2):
            getattr(qc, first)(x[q], q)
            qc.rx(theta[q] + angle, q)
        qc.cx(0, 1)
        last(qc)
        return [qml.Z(0), qml.Z(1)]

    kernels._kernels.pop(name, None)
    return qml.qkernel(qubits=width, name=name)(kernel)


@pytest.fixture(autouse=True)
def forget():
    yield
    for name in [name for name in kernels if name.startswith("test_stored.")]:
        del kernels._kernels[name]


def built(**options):
    layer = QuantumLayer(define(**options), WEIGHTS, name="layer")
    layer.build((None, 2))
    return layer


def values(layer):
    return keras.ops.convert_to_numpy(layer(X))


def restored(layer):
    other = QuantumLayer.from_config(layer.get_config())
    other.build((None, 2))
    other.set_weights(layer.get_weights())
    return other


def test_a_registered_kernel_of_the_same_circuit_is_used():
    layer = built()
    again = define()
    assert again is not layer.kernel
    assert restored(layer).kernel is again


def test_without_a_registered_kernel_the_stored_circuit_runs_under_its_name():
    layer = built()
    del kernels._kernels[layer.kernel.name]
    other = restored(layer)
    assert isinstance(other.kernel, StoredKernel)
    assert other.kernel.name == "test_stored.kernel"
    assert other.program == layer.program
    np.testing.assert_array_equal(values(other), values(layer))
    assert other.get_config() == layer.get_config()
    assert not any(name.startswith("test_stored.") for name in kernels)


def test_a_stored_circuit_is_copied_saved_and_restored_before_and_after_it_is_built():
    layer = built()
    del kernels._kernels[layer.kernel.name]
    unbuilt = QuantumLayer.from_config(layer.get_config())
    assert unbuilt.get_config() == layer.get_config()
    assert copy.deepcopy(unbuilt).get_config() == layer.get_config()
    again = restored(restored(layer))
    np.testing.assert_array_equal(values(again), values(layer))
    another = QuantumLayer(unbuilt.kernel, WEIGHTS)  # the kernel itself goes on too
    assert another(X).shape == (5, 2)


def test_another_circuit_of_the_same_values_is_no_reason_to_refuse_and_the_stored_one_runs():
    layer = built()
    define(last=lambda qc: (qc.h(0), qc.h(0)))
    other = restored(layer)
    assert isinstance(other.kernel, StoredKernel)
    assert other.program == layer.program
    np.testing.assert_array_equal(values(other), values(layer))
    assert other.get_config() == layer.get_config()


@pytest.mark.parametrize(
    "changed",
    [{"angle": 0.3 + 1e-6}, {"first": "rx"}, {"last": lambda qc: qc.h(0)}, {"width": 3}],
    ids=["angle", "gate", "one more", "width"],
)
def test_another_circuit_of_other_values_is_refused(changed):
    layer = built()
    define(**changed)
    with pytest.raises(KernelNameError, match=r"layer: the kernel 'test_stored.kernel' writes"):
        restored(layer)


def test_what_is_too_wide_to_compare_is_refused():
    layer = built(width=13)
    define(width=13, last=lambda qc: (qc.h(0), qc.h(0)))
    with pytest.raises(KernelNameError, match="more than 12 qubits are not compared by values"):
        restored(layer)
    define(width=13)
    restored(layer)


def square_root(qc, x, w):
    qc.rx((x[0] - 0.2) ** 0.5 + w[0].log(), 0)
    return qml.Z(0)


def square_root_and_more(qc, x, w):
    square_root(qc, x, w)
    qc.rz(w[0], 0)
    return qml.Z(0)


def square_root_and_other(qc, x, w):
    square_root(qc, x, w)
    qc.rx(0.1 * w[0], 0)
    return qml.Z(0)


def nowhere(qc, x, w):
    qc.rx((x[0] - 9) ** 0.5 + w[0], 0)
    return qml.Z(0)


def nowhere_either(qc, x, w):
    nowhere(qc, x, w)
    qc.rz(0.1, 0)
    return qml.Z(0)


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        (square_root, square_root_and_more, None),
        (square_root, square_root_and_other, "values differ by"),
        (nowhere, nowhere_either, "angles have values at other arguments"),
    ],
)
def test_angles_are_compared_where_they_have_a_value(one, other, problem):
    name = "test_stored.roots"
    layer = QuantumLayer(qml.qkernel(qubits=1, name=name)(one), {"w": (1,)})
    layer.build((None, 1))
    del kernels._kernels[name]
    qml.qkernel(qubits=1, name=name)(other)
    if problem is None:
        assert QuantumLayer.from_config(layer.get_config()).kernel.stored == layer.program
    else:
        with pytest.raises(KernelNameError, match=problem):
            QuantumLayer.from_config(layer.get_config())


def test_a_file_of_an_earlier_release_has_no_circuit_and_needs_the_kernel():
    layer = built()
    config = layer.get_config()
    del config["circuit"]
    assert QuantumLayer.from_config(config).kernel is layer.kernel
    define(last=lambda qc: (qc.h(0), qc.h(0)))
    with pytest.raises(KernelNameError, match="no circuit is stored to compare with"):
        QuantumLayer.from_config(config)
    del kernels._kernels[layer.kernel.name]
    with pytest.raises(UnknownNameError, match="no kernel is registered as 'test_stored.kernel'"):
        QuantumLayer.from_config(config)


def test_a_stored_circuit_takes_its_own_shapes_only():
    layer = built()
    del kernels._kernels[layer.kernel.name]
    other = QuantumLayer.from_config(layer.get_config())
    with pytest.raises(QMLError, match="was loaded as the one circuit with x: "):
        other(np.zeros((1, 3)))


def test_an_argument_that_is_a_tree_is_no_weight():
    @qml.qkernel(qubits=1, name="test_stored.tree")
    def tree(qc, x, params):
        qc.rx(x[0] + params["a"], 0)
        return qml.Z(0)

    with pytest.raises(QMLError, match="must be a tuple of sizes"):
        QuantumLayer(tree, {"params": {"a": ()}})


# --- the backend


def test_a_block_of_loading_decides_the_backend_of_what_is_loaded_in_it():
    layer = QuantumLayer(define(), WEIGHTS, backend={"kind": "aer", "seed": 3})
    layer.build((None, 2))
    config = layer.get_config()
    with loading(backend="reference"):
        with loading({"kind": "xla"}, gradient="auto"):
            inner = QuantumLayer.from_config(config)
        outer = QuantumLayer.from_config(config)
        made = QuantumLayer(layer.kernel, WEIGHTS)
        seen = []
        thread = threading.Thread(
            target=lambda: seen.append(QuantumLayer.from_config(config).backend.kind)
        )
        thread.start()
        thread.join()
    kinds = [part.backend.kind for part in (inner, outer, made, QuantumLayer.from_config(config))]
    assert kinds == ["xla", "reference", "statevector", "aer"]
    assert seen == ["aer"]  # other threads load what they load


def test_a_model_of_a_device_that_is_not_here_loads_on_another_backend(tmp_path, monkeypatch):
    layer = QuantumLayer(define(), WEIGHTS)
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile("adam", "mse")
    model.fit(X, X, verbose=0)
    wanted = model.predict(X, verbose=0)
    elsewhere = KINDS["aer"](device="GPU", seed=4)
    monkeypatch.setattr(layer, "_backend", elsewhere)
    model.save(tmp_path / "model.keras")
    path = tmp_path / "model.keras"
    with pytest.raises(DeviceError) as caught:
        keras.saving.load_model(path)
    assert 'with qml.layers.loading(backend="statevector")' in str(caught.value)
    assert "The layer 'quantum_layer" in str(caught.value)
    with loading(backend="statevector"):
        again = keras.saving.load_model(path)
    np.testing.assert_allclose(again.predict(X, verbose=0), wanted, atol=1e-6)
    assert again.layers[-1].backend.kind == "statevector"
    set_backend(again, "reference")


@pytest.mark.parametrize(
    ("backend", "error"),
    [
        ({"kind": "of-a-plug-in"}, UnknownNameError),
        ({"kind": "aer", "sed": 1}, ConfigError),
        ({"kind": "aer", "device": "GPU"}, DeviceError),
        ({"kind": "pennylane", "device": "of-a-plug-in"}, QMLError),
    ],
)
def test_a_backend_that_cannot_be_had_is_told_with_what_to_do(backend, error):
    config = built().get_config() | {"backend": backend}
    with pytest.raises(error, match="was saved with that backend. Load it on another one"):
        QuantumLayer.from_config(config)
    with loading("statevector"):
        QuantumLayer.from_config(config)


def test_a_block_of_loading_with_a_backend_that_is_not_there_does_not_begin():
    with pytest.raises(UnknownNameError, match="did you mean 'statevector'"):
        with loading("statevectr"):
            raise AssertionError("never here")
    assert stored_module._loading.get() is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"digest": None}, "without its digest"),
        ({"digest": 3}, "without its digest"),
        ({"digest": "0" * 64}, "not the one whose digest"),
        ({"sample_shapes": {"x": [10**9]}}, "file was changed"),
        ({"sample_shapes": {"y": [2]}}, "file was changed"),
        ({"sample_shapes": [2]}, "file was changed"),
    ],
)
def test_what_stands_beside_a_stored_circuit_must_fit_it(change, told):
    layer = QuantumLayer(library.reuploading(2), library.weights(library.reuploading(2), 1))
    layer.build((None, 2))
    for name in ("qml.circuits.library.reuploading(qubits=2)", "nowhere.registered"):
        with pytest.raises(ConfigError, match=told):
            QuantumLayer.from_config(layer.get_config() | {"kernel": name} | change)
