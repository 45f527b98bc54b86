"""Noise that was asked for and did not come, memory for idle qubits, devices, batches: Aer.

One test per fault: its name is the claim, its docstring the public thread.
"""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import psutil
import pytest
from qiskit_aer.noise import NoiseModel, depolarizing_error

import qml
from qml import qkernel
from qml.config import resolve
from qml.errors import EngineError
from qml.execution import recorded
from qml.simulators.registry import engine


@qkernel(qubits=3)
def ghz(qc, t):
    qc.h(0)
    qc.cx(0, 1)
    qc.cx(1, 2)
    qc.rz(t, 2)
    return qml.X(0) @ qml.X(1) @ qml.X(2)


@pytest.fixture(params=["name", "parameters", "file"])
def noise(request, tmp_path):
    """The same kind of noise from each source."""
    if request.param == "name":
        return "FakeManilaV2"
    if request.param == "parameters":
        return {"depolarizing_1q": 0.001, "depolarizing_2q": 0.03, "readout": 0.03}
    model = NoiseModel()
    model.add_all_qubit_quantum_error(depolarizing_error(0.1, 2), "cx")
    path = tmp_path / "noise.json"
    path.write_text(json.dumps(model.to_dict(serializable=True)))
    return {"file": str(path)}


@pytest.mark.parametrize("shots", [None, 4000])
def test_noise_that_is_asked_for_comes_in_every_call_and_goes_with_it(noise, shots):
    """Qiskit/qiskit-aer#2312, PennyLaneAI/pennylane-qiskit#114 and #636."""
    backend = {"kind": "aer", "noise": noise, "shots": shots}
    clean = {"kind": "aer", "shots": shots}
    key = jax.random.key(0)
    calls = {
        "direct": lambda backend: ghz(0.0, backend=backend),
        "jit": lambda backend: jax.jit(lambda t: ghz(t, backend=backend, key=key))(0.0),
        "vmap": lambda backend: jax.vmap(lambda t: ghz(t, backend=backend))(jnp.zeros(2))[1],
        # <XXX> = cos t, whose slope at -pi/2 is 1.
        "grad": lambda backend: jax.grad(lambda t: ghz(t, backend=backend))(-np.pi / 2),
    }
    for name, call in calls.items():
        for _ in range(2):
            assert 0.5 < call(backend) < 0.92, name
        np.testing.assert_allclose(call(clean), 1, atol=1e-6, err_msg=name)
    with qml.use(backend):
        assert 0.5 < ghz(0.0) < 0.92
    assert ghz(0.0) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("p", [0.01, 0.3, 1.0])
def test_a_depolarised_flip_is_minus_one_plus_p(p):
    """Qiskit/qiskit-aer#2312: rho -> (1 - p) rho + p I/2 after one X gate."""

    @qkernel(qubits=1)
    def flip(qc):
        qc.x(0)
        return qml.Z(0)

    found = flip(backend={"kind": "aer", "noise": {"depolarizing_1q": p}})
    np.testing.assert_allclose(found, -(1 - p), atol=1e-6)


def test_noise_of_gates_that_the_circuit_has_not_is_an_error():
    """Qiskit/qiskit-aer#2312: the noise of another machine's gates."""

    @qkernel(qubits=2)
    def local(qc, t):
        qc.ry(t, 0)
        return qml.Z(0)

    with pytest.raises(EngineError, match="would change nothing"):
        local(0.3, backend={"kind": "aer", "noise": {"depolarizing_2q": 0.1}})


def test_three_active_qubits_of_127_take_megabytes():
    """Qiskit/qiskit-aer#2249."""
    backend = {"kind": "aer", "noise": "FakeSherbrooke"}
    ghz(0.0, backend=backend)  # the description of the machine is loaded
    before = psutil.Process().memory_info().rss

    @qkernel(qubits=3)
    def other(qc, t):
        qc.h(0)
        qc.cx(0, 1)
        qc.cx(1, 2)
        qc.rx(t, 2)
        return qml.Z(0) @ qml.Z(1)

    assert 0.7 < other(0.3, backend=backend) < 0.999
    assert psutil.Process().memory_info().rss - before < 200e6


def test_a_result_says_where_it_was_computed_how_precisely_and_lies_with_its_input():
    """PennyLaneAI/pennylane#7955, sQUlearn/squlearn#340, Qiskit/qiskit-aer#2396."""
    t = jax.device_put(jnp.float32(0.3), jax.devices("cpu")[0])
    for precision in ("single", "double"):
        found = ghz(t, backend={"kind": "aer", "precision": precision})
        run = qml.last_run()
        assert (run.device, run.precision) == ("CPU", precision)
        assert found.devices() == t.devices() and found.dtype == jnp.float32


def test_a_batch_is_one_job_and_one_compilation_not_a_loop():
    """PennyLaneAI/pennylane-lightning#1195: by what is sent, as no time is asserted in tests."""

    @qkernel(qubits=6)
    def wide(qc, t):
        for q in range(6):
            qc.ry(t, q)
            qc.cx(q, (q + 1) % 6)
        return [qml.Z(q) for q in range(6)]

    ts = jnp.linspace(0, 1, 256)
    aer = engine(resolve("aer"))
    before = aer.transpilations
    with recorded() as runs:
        together = jax.vmap(partial(wide, backend="aer"))(ts)
        one_by_one = [wide(t, backend="aer") for t in ts[::64]]
    assert [(run.rows, run.jobs) for run in runs] == [(256, 1)] + [(1, 1)] * 4
    assert aer.transpilations - before == 1
    np.testing.assert_allclose(together[::64], jnp.stack(one_by_one), atol=1e-6)
