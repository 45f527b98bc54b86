"""Jobs, layouts and parameters on machines, which misled users of other libraries.

One test per fault: its name is the claim, its docstring the public thread. Machines are IBM's fake
ones, through the code that runs the real ones; or a fake machine behind an estimator of Qiskit.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter, ParameterVector
from qiskit.circuit.library import zz_feature_map
from qiskit.primitives import BackendEstimatorV2, StatevectorEstimator
from qiskit.quantum_info import SparsePauliOp, Statevector
from qiskit.transpiler import StagedPassManager
from qiskit_ibm_runtime import Session
from qiskit_ibm_runtime.executor_estimator import Estimator
from qiskit_ibm_runtime.fake_provider import FakeManilaV2

import qml
from qml import qkernel
from qml.kinds import RuntimeConfig
from qml.layers import QuantumLayer

exactly = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-9)

FAKE = {"kind": "runtime", "fake": "FakeManilaV2", "resilience_level": 0, "shots": 1000}
EXACT = {"kind": "estimator", "factory": "qiskit.primitives:StatevectorEstimator"}
AER = {"kind": "estimator", "factory": "qiskit_aer.primitives:EstimatorV2"}


def manila(seed):
    """A factory of the kind `estimator`."""
    return BackendEstimatorV2(backend=FakeManilaV2(), options={"seed_simulator": seed})


@pytest.fixture
def counts(monkeypatch):
    """Sizes of the jobs that an estimator got, in PUBs, and circuits that were compiled."""
    seen = {"jobs": [], "transpilations": 0}
    for kind in (Estimator, BackendEstimatorV2, StatevectorEstimator):

        def run(self, pubs, *, _run=kind.run, **options):
            seen["jobs"].append(len(pubs))
            return _run(self, pubs, **options)

        monkeypatch.setattr(kind, "run", run)
    compiled = StagedPassManager.run

    def transpile(self, circuits, *args, **options):
        # Others are made of the parts of this one, and are none of a user's circuits.
        seen["transpilations"] += isinstance(circuits, QuantumCircuit)
        return compiled(self, circuits, *args, **options)

    monkeypatch.setattr(StagedPassManager, "run", transpile)
    return seen


def fresh_kernel():
    @qkernel(qubits=3)
    def ansatz(qc, x, theta):
        for q in range(3):
            qc.ry(x[q], q)
        for layer in range(3):
            for q in range(3):
                qc.rz(theta[3 * layer + q], q)
            qc.cx(layer, (layer + 1) % 3)
        qc.rx(theta[9], 0)
        return [qml.Z(q) for q in range(3)]

    return ansatz


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["runtime", "estimator"])
def test_forward_and_backward_are_one_job_each_and_one_transpilation_ever(
    kind, counts, monkeypatch
):
    """PennyLaneAI/pennylane-qiskit#138, PennyLaneAI/pennylane#2016, #7973: a job per circuit."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    estimator = {"kind": "estimator", "factory": "test_machines:manila", "shots": 100}
    table = (FAKE if kind == "runtime" else estimator) | {"seed": 4901}
    kernel = fresh_kernel()
    xs, theta = np.random.default_rng(0).normal(size=(8, 3)), np.linspace(0, 1, 10)

    def loss(theta):
        return jnp.sum(jax.vmap(lambda x: kernel(x, theta, backend=table))(xs))

    for step in range(1, 3):
        gradient = jax.grad(loss)(theta + step)
        assert gradient.shape == (10,)
        assert counts == {"jobs": [1] * 2 * step, "transpilations": 1}
    jax.vmap(lambda x: kernel(x, theta, backend=table))(xs[:5])
    assert counts == {"jobs": [1] * 5, "transpilations": 1}


@pytest.mark.slow
def test_a_training_step_in_keras_is_two_jobs(counts):
    """PennyLaneAI/pennylane-qiskit#138: the same, through a layer."""
    layer = QuantumLayer(fresh_kernel(), weights={"theta": (10,)}, backend=FAKE | {"seed": 4902})
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile("sgd", "mse", jit_compile=False)
    x, y = np.zeros((8, 3), "float32"), np.zeros((8, 3), "float32")
    model.fit(x, y, batch_size=8, epochs=1, verbose=0)
    assert counts == {"jobs": [1, 1], "transpilations": 1}


def test_large_requests_are_split_and_keep_their_order(counts):
    """Qiskit/qiskit-ibm-provider#478, Qiskit/qiskit-ibm-runtime#652: large jobs were rejected."""

    @qkernel(qubits=1)
    def cosine(qc, t):
        qc.rx(t, 0)
        return qml.Z(0)

    angles = np.linspace(-3, 3, 2000)
    found = jax.vmap(lambda t: cosine(t, backend=EXACT | {"max_rows": 300}))(angles)
    exactly(found, np.cos(angles))
    assert counts == {"jobs": [1] * 7, "transpilations": 1}
    assert (qml.last_run().jobs, qml.last_run().rows) == (7, 2000)


@pytest.mark.slow
def test_parameters_may_have_our_names_and_may_cancel_out():
    """qiskit-machine-learning#1042, Qiskit/qiskit-ibm-runtime#809, Qiskit/qiskit#14089, #15355."""
    own = Parameter("slot1")
    block = QuantumCircuit(2)
    block.ry(own, 0)
    block.rx(0 * own, 1)

    @qkernel(qubits=2)
    def named(qc, x, slot0):
        qc.compose(zz_feature_map(2, parameter_prefix="slot0").assign_parameters(x), inplace=True)
        qc.compose(block.assign_parameters({own: slot0[0]}), inplace=True)
        qc.rz(0 * slot0[1], 1)
        return [qml.Z(0), qml.Z(1)]

    x, w = np.array([0.3, 0.8]), np.array([0.5, 0.9])
    circuit = zz_feature_map(2).assign_parameters(x)
    circuit.ry(w[0], 0)
    expected = [Statevector(circuit).expectation_value(SparsePauliOp(s)).real for s in ("IZ", "ZI")]
    exactly(named(x, w, backend=EXACT), expected)
    found = named(x, w, backend=FAKE)
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.25)
    gradient = jax.grad(lambda w: named(x, w, backend=EXACT)[0])(w)
    assert gradient[1] == 0


def test_jobs_need_no_session_unless_asked(monkeypatch):
    """PennyLaneAI/pennylane-qiskit#631, /607, PR /619: always a session, closed too early."""
    log = []
    made, closed = Session.__init__, Session.close
    monkeypatch.setattr(
        Session, "__init__", lambda self, **keys: (log.append("open"), made(self, **keys))[1]
    )
    monkeypatch.setattr(Session, "close", lambda self: (log.append("close"), closed(self))[1])
    assert RuntimeConfig(name="ibm_fez").mode == "job"
    kernel = fresh_kernel()
    x, theta = np.zeros(3), np.zeros(10)
    kernel(x, theta, backend=FAKE)
    assert log == []
    for _ in range(2):
        kernel(x, theta, backend=FAKE | {"mode": "session"})
    assert log == ["open"]


@pytest.mark.parametrize("shape", [(3, 2), (3, 3)])
def test_rows_and_observables_are_an_outer_product(shape):
    """NVIDIA/cuda-quantum#776: a batch of parameters and a list of observables mixed up."""
    rows, observables = shape

    @qkernel(qubits=3)
    def product(qc, t):
        for q in range(3):
            qc.rx((q + 1) * t, q)
        return [qml.Z(q) for q in range(observables)]

    ts = np.linspace(0.2, 1.4, rows)
    expected = np.cos(np.outer(ts, np.arange(1, observables + 1)))
    for table, tolerance in (EXACT, 1e-9), (AER, 1e-9), (FAKE, 0.2):
        found = jax.vmap(lambda t, table=table: product(t, backend=table))(ts)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("gradient", ["parameter_shift", "spsa"])
def test_outputs_that_do_not_commute_are_measured_and_differentiated(gradient):
    """PennyLaneAI/pennylane#5316: non-commuting outputs worked with one gradient method only.

    Derivatives of a Bell pair turned by RX(t) on qubit 0: XX stays 1, YY = -cos t, ZZ = cos t.
    """

    @qkernel(qubits=2)
    def bell(qc, t):
        qc.h(0)
        qc.cx(0, 1)
        qc.rx(t, 0)
        return [qml.X(0) @ qml.X(1), qml.Y(0) @ qml.Y(1), qml.Z(0) @ qml.Z(1), qml.Z(0)]

    for table, tolerance in (EXACT | {"shots": None}, 1e-9), (FAKE | {"shots": 4000}, 0.2):
        table = table | {"gradient": gradient}
        with qml.use(table):
            np.testing.assert_allclose(bell(0.0), [1, -1, 1, 0], rtol=0, atol=tolerance)
            found = jax.jacobian(bell)(0.7)
            expected = [0, np.sin(0.7), -np.sin(0.7), 0]
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.slow
def test_qubit_0_is_the_least_significant_bit():
    """Qiskit/qiskit#1148, oqc-community/qat#116, qiskit-optimization#97: reversed by one engine."""

    @qkernel(qubits=2)
    def distribution(qc, a, b):
        qc.ry(a, 0)
        qc.ry(b, 1)
        return qml.probs(0, 1)

    @qkernel(qubits=3)
    def labels(qc):
        qc.x(0)
        return [SparsePauliOp("ZII"), SparsePauliOp("IIZ")]

    expected = [0.274058, 0.017868, 0.664733, 0.043340]
    for table, tolerance in (EXACT, 1e-6), (AER, 1e-6), (FAKE, 0.08):
        found = distribution(0.5, 2.0, backend=table)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(labels(backend=table), [1, -1], rtol=0, atol=2 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("table", [EXACT, AER], ids=["qiskit", "aer"])
def test_idle_qubits_change_nothing(table):
    """Qiskit/qiskit-aer#2442: wrong values on a circuit with idle qubits."""
    rng = np.random.default_rng(30)
    for _ in range(200):
        busy = rng.permutation(6)[:3]
        angles = rng.uniform(-3, 3, 6)
        letters = ["I"] * 6
        for q in rng.permutation(6)[: rng.integers(1, 4)]:
            letters[q] = str(rng.choice([*"XYZ"]))
        label = "".join(letters)

        @qkernel(qubits=6)
        def some(qc, t, busy=busy, label=label):
            for j, q in enumerate(map(int, busy)):
                qc.rx(t[j], q)
                qc.cx(q, int(busy[(j + 1) % 3]))
                qc.ry(t[3 + j], q)
            return SparsePauliOp(label)

        circuit = QuantumCircuit(6)
        t = ParameterVector("t", 6)
        for j, q in enumerate(map(int, busy)):
            circuit.rx(t[j], q)
            circuit.cx(q, int(busy[(j + 1) % 3]))
            circuit.ry(t[3 + j], q)
        state = Statevector(circuit.assign_parameters(angles))
        expected = state.expectation_value(SparsePauliOp(label)).real
        exactly(some(angles, backend=table), expected)
