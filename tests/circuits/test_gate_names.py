"""A user's own gate may have any name: what it does is its definition."""

import jax
import numpy as np
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit import Gate

import qml
from qml.circuits.gates import BASIS, IGNORED

NAMES = sorted({*BASIS, *IGNORED, "cs", "ch", "iswap", "my gate"})


class Named(Gate):
    """RY under any name."""

    def __init__(self, name, angle):
        super().__init__(name, 1, [angle])

    def _define(self):
        self.definition = QuantumCircuit(1)
        self.definition.ry(self.params[0], 0)


def block(name, angle):
    inner = QuantumCircuit(1, name=name)
    inner.ry(angle, 0)
    return inner.to_gate()


def nested(name, angle):
    outer = QuantumCircuit(1, name="outer")
    outer.append(block(name, angle), [0])
    return outer.to_gate()


@pytest.mark.parametrize("make", [block, nested, Named])
@pytest.mark.parametrize("name", NAMES)
def test_a_gate_of_the_users_own_does_what_its_definition_says(make, name):
    @qml.qkernel(qubits=2)
    def kernel(qc, x):
        qc.append(make(name, 2 * x), [1])
        return [qml.Z(0), qml.Z(1)]

    np.testing.assert_allclose(kernel(0.4), [1, np.cos(0.8)], atol=1e-12)
    np.testing.assert_allclose(jax.jacrev(kernel)(0.4), [0, -2 * np.sin(0.8)], atol=1e-12)


def test_the_true_gates_keep_their_names():
    @qml.qkernel(qubits=1)
    def kernel(qc):
        qc.h(0)
        qc.append(block("h", 0.3), [0])
        return qml.X(0)

    np.testing.assert_allclose(kernel(), np.cos(0.3), atol=1e-12)
    assert [operation.name for operation in kernel.program().operations[:1]] == ["h"]
