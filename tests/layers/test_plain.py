"""Circuits in plain operations: the values of the kernel, and files of ONNX."""

import importlib.util

import keras
import numpy as np
import pytest
from qiskit.circuit.random import random_circuit
from qiskit.quantum_info import SparsePauliOp, Statevector

import qml
from qml.circuits import library
from qml.errors import EngineError
from qml.layers import QuantumLayer, plain
from qml.layers.batch import BatchedKernel

BACKEND = keras.backend.backend()
WRITERS = {"tensorflow": "tf2onnx", "jax": "jax2onnx"}
can_write = BACKEND in WRITERS and importlib.util.find_spec(WRITERS[BACKEND]) is not None
writes = pytest.mark.skipif(not can_write, reason="what writes ONNX is not installed")

# On JAX and PyTorch, Keras 3.15 computes sin and its like of doubles in single precision.
CLOSE = 1e-12 if BACKEND == "tensorflow" else 2e-6

# What tf2onnx and jax2onnx do with NumPy 2.
quiet = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def computed(kernel, weights, inputs, given, units=None, data_axes=1):
    """The plain values, as a layer computes them, of NumPy arrays."""
    batched = BatchedKernel.of(
        kernel, {n: s.shape[units is not None :] for n, s in weights.items()}, data_axes, units
    )
    tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
    _, samples = batched.split({name: array.shape for name, array in inputs.items()})
    program = batched.trace(samples).program
    angles = [keras.ops.convert_to_tensor(array) for array in given]
    return keras.ops.convert_to_numpy(plain.layer_values(batched, program, tensors, angles))


@qml.qkernel(qubits=3)
def everything(qc, x, y, w):
    for q in range(3):
        qc.ry(x[q] * y, q)
        qc.rx(w[q].sin() + x[q] ** 2, q)
    qc.ccx(0, 1, 2)
    qc.rzz(w[0] * w[1], 0, 2)
    qc.h(1)
    qc.sdg(0)
    qc.cry((y / 9).arccos(), 1, 2)
    qc.rxx(0.3, 0, 1)
    return [qml.Z(0), 0.3 * qml.X(0) @ qml.Y(2) + 0.2 * qml.Y(1), qml.probs(2, 0)]


@pytest.mark.parametrize("units", [None, 2])
def test_they_are_those_of_the_kernel(units):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5))
    w = rng.normal(size=(3,) if units is None else (units, 3))
    found = computed(everything, {"w": w}, {"x": x, "y": y}, [w], units, {"x": 1, "y": 0})
    assert found.shape == (2, 5, 6 * (units or 1))
    copies = w[None] if units is None else w
    expected = [
        [
            [everything(a, b, copy, backend="reference") for copy in copies]
            for a, b in zip(p, q, strict=True)
        ]
        for p, q in zip(x, y, strict=True)
    ]
    np.testing.assert_allclose(found, np.reshape(expected, found.shape), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("seed", range(8))
def test_random_circuits_have_the_values_of_qiskit(seed):
    circuit = random_circuit(4, 5, max_operands=3, seed=seed)
    labels = ["ZIIX", "YXZI", "IIIZ"]

    @qml.qkernel(qubits=4)
    def kernel(qc, x):
        qc.compose(circuit, inplace=True)
        qc.ry(x[0], 0)
        return labels

    found = computed(kernel, {}, {"x": np.array([[0.0], [0.4]])}, [])
    for row, angle in zip(found, (0.0, 0.4), strict=True):
        whole = circuit.copy()
        whole.ry(angle, 0)
        state = Statevector(whole)
        expected = [state.expectation_value(SparsePauliOp(label)).real for label in labels]
        np.testing.assert_allclose(row, expected, rtol=0, atol=CLOSE)


def test_a_circuit_of_weights_alone_has_values_without_a_batch():
    @qml.qkernel(qubits=2)
    def kernel(qc, w):
        qc.ry(w[0], 0)
        qc.cx(0, 1)
        return [qml.Z(1), qml.Z(0)]

    found = computed(kernel, {"w": np.zeros(1)}, {}, [np.array([0.4])])
    np.testing.assert_allclose(found, [np.cos(0.4)] * 2)


def test_wider_circuits_are_refused():
    kernel = library.reuploading(11)
    w = np.zeros(library.weights(kernel, 1)["theta"])
    with pytest.raises(EngineError, match="11 qubits.*at most 10.*SavedModel"):
        computed(kernel, {"theta": w}, {"x": np.zeros((1, 11))}, [w])


@writes
@quiet
@pytest.mark.slow
def test_a_model_runs_in_onnxruntime_for_batches_of_any_size(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    x, y = keras.Input((3,), name="x"), keras.Input((2,), name="y")
    scalar = keras.ops.squeeze(keras.layers.Dense(1, "tanh")(y), -1)
    layer = QuantumLayer(
        everything, {"w": (3,)}, data_axes={"x": 1, "y": 0}, units=2, activation="tanh"
    )
    model = keras.Model([x, y], keras.layers.Dense(2)(layer({"x": x, "y": scalar})))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(7, size)).astype("float32") for size in (3, 2)]
    expected = keras.ops.convert_to_numpy(model(given))
    model.export(str(tmp_path / "model.onnx"), format="onnx", verbose=False)
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    names = [entry.name for entry in session.get_inputs()]
    for size in (1, 7):
        found = session.run(None, dict(zip(names, [a[:size] for a in given], strict=True)))[0]
        np.testing.assert_allclose(found, expected[:size], atol=2e-6)


@writes
def test_a_layer_that_samples_is_not_exported(tmp_path):
    layer = QuantumLayer(
        library.reuploading(2),
        library.weights(library.reuploading(2), 1),
        {"kind": "aer", "shots": 9},
    )
    model = keras.Sequential([keras.Input((2,)), layer])
    model(np.zeros((1, 2), "float32"))
    with pytest.raises(EngineError, match="'aer' engine cannot be exported.*set_backend"):
        model.export(str(tmp_path / "model.onnx"), format="onnx", verbose=False)
