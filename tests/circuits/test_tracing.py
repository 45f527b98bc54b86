"""Tracing: what a kernel's function may do, and what is refused, in sub-circuits too."""

import numpy as np
import pytest
from qiskit import ClassicalRegister, QuantumCircuit, QuantumRegister
from qiskit.circuit import Gate, Parameter

import qml
from qml.circuits.tracing import trace
from qml.errors import ObservableError, QMLError, TracingError, UnsupportedCircuitError


def traced(write, *leaves, qubits=2):
    def function(qc, symbols):
        returned = write(qc, *symbols)
        return qml.Z(0) if returned is None else returned

    return trace(function, "mine", qubits, leaves or (("x", ()),))


def test_arguments_arrive_as_arrays_of_parameters_and_scalars_as_one():
    def write(qc, x, w, nothing):
        assert isinstance(x, Parameter)
        assert isinstance(w, np.ndarray) and w.shape == (2, 3) and w.dtype == object
        assert all(isinstance(p, Parameter) for p in w.flat)
        assert nothing.shape == (0,)
        qc.rx(x, 0)
        qc.rz(w[1, 2] + w.sum(), 0)

    found = traced(write, ("x", ()), ("w", (2, 3)), ("nothing", (0,)))
    assert found.program.arguments == (("x", ()), ("w", (2, 3)), ("nothing", (0,)))
    np.testing.assert_array_equal(found.program.angles.matrix[1], [0, 1, 1, 1, 1, 1, 2])
    assert found.circuit.num_parameters == 7


def test_no_name_of_an_argument_collides_with_one_of_a_library_circuit():
    from qiskit.circuit.library import real_amplitudes

    def write(qc, theta):
        ansatz = real_amplitudes(2, reps=0)  # its own vector is called θ
        assert {p.name for p in ansatz.parameters}.isdisjoint(p.name for p in theta)
        qc.compose(ansatz.assign_parameters(theta), inplace=True)

    assert traced(write, ("θ", (2,))).program.num_slots == 2


# --- what is not unitary


def in_sub_circuit(write, depth):
    """The same instructions, `depth` levels down."""

    def outer(qc, x):
        qc.ry(x, 0)
        inner = QuantumCircuit(2, 1)
        write(inner, x)
        for _ in range(depth - 1):
            wrapped = QuantumCircuit(2, 1)
            wrapped.append(inner.to_instruction(), [0, 1], [0])
            inner = wrapped
        qc.add_register(ClassicalRegister(1))
        qc.append(inner.to_instruction(), [0, 1], [0])

    return outer


def measures(qc, x):
    qc.measure(0, 0)


def measures_all(qc, x):
    qc.measure_all()


def resets(qc, x):
    qc.ry(x, 0)
    qc.reset(0)


def initializes_late(qc, x):
    qc.ry(x, 0)
    qc.initialize([0, 1], 0)


def branches(qc, x):
    qc.add_register(bit := ClassicalRegister(1))
    with qc.if_test((bit, 1)):
        qc.x(0)


def loops(qc, x):
    with qc.for_loop(range(3)):
        qc.rx(x, 0)


def switches(qc, x):
    qc.add_register(bit := ClassicalRegister(1))
    with qc.switch(bit) as case, case(1):
        qc.x(0)


def with_a_bit(write):
    def outer(qc, x):
        qc.add_register(ClassicalRegister(1))
        write(qc, x)

    return outer


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (with_a_bit(measures), "the kernel measures a qubit.*return what is to be measured"),
        (measures_all, "the kernel measures a qubit.*return what is to be measured"),
        (in_sub_circuit(measures, 1), "the kernel measures a qubit"),
        (in_sub_circuit(measures, 3), "the kernel measures a qubit"),
        (resets, "'reset'.*Write a unitary circuit"),
        (in_sub_circuit(resets, 1), "'reset'.*Write a unitary circuit"),
        (in_sub_circuit(resets, 3), "'reset'.*Write a unitary circuit"),
        (initializes_late, "'reset'.*Write a unitary circuit"),
        (branches, "'if_else'.*feed-forward"),
        (switches, "'switch_case'.*feed-forward"),
        (loops, "'for_loop'"),
    ],
)
def test_what_is_not_unitary_is_refused(write, message):
    with pytest.raises(UnsupportedCircuitError, match=message) as caught:
        traced(write)
    assert "While tracing kernel 'mine' with x: ()." in caught.value.__notes__
    assert traced(lambda qc, x: qc.rx(x, 0) and None).program.num_slots == 1


def test_resets_of_untouched_qubits_do_nothing():
    def write(qc, x):
        qc.reset([0, 1])
        qc.initialize([0, 1], 1)
        qc.rx(x, 0)

    assert traced(write).program.num_slots == 1


@pytest.mark.parametrize("parameters", [[], ["x"]])
def test_a_gate_without_a_definition_is_named(parameters):
    def write(qc, x):
        qc.append(Gate("mystery", 1, [x] if parameters else []), [0])

    with pytest.raises(UnsupportedCircuitError, match='"mystery".*Give the gate a definition'):
        traced(write)


# --- functions that cannot be traced


def misuses(qc, x):
    qc.rx(x, 7)


def compares(qc, x):
    if x > 0:
        qc.x(0)


def converts(qc, x):
    qc.rx(float(x), 0)


def widens(qc, x):
    qc.add_register(QuantumRegister(1))


def has_another_symbol(qc, x):
    qc.rx(x + Parameter("free"), 0)


def has_a_complex_angle(qc, x):
    qc.rx(1j * x, 0)


def has_an_infinite_angle(qc, x):
    qc.rx(np.inf, 0)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (misuses, "Index 7 out of range"),
        (compares, "'>' not supported.*keep numbers that steer Python"),
        (converts, "is not numeric.*keep numbers that steer Python"),
        (widens, "added qubits: 3 instead of 2"),
        (has_another_symbol, r"free parameter\(s\) \['free'\]"),
        (has_a_complex_angle, "real"),
        (has_an_infinite_angle, "finite"),
    ],
)
def test_a_function_that_cannot_become_a_circuit_is_refused(write, message):
    with pytest.raises(TracingError, match=message):
        traced(write)


def test_wrong_shapes_are_named_with_all_arguments():
    def write(qc, x, w):
        qc.rx(w[5], 0)

    with pytest.raises(TracingError, match=r"'mine' with x: \(\), w: \(2,\).*IndexError: index 5"):
        traced(write, ("x", ()), ("w", (2,)))
    with pytest.raises(TracingError, match=r"x: \(3,\).*batch with jax.vmap or a layer"):
        traced(lambda qc, x: qc.rx(x, 0), ("x", (3,)))


def test_a_return_that_cannot_be_measured_says_which_kernel():
    with pytest.raises(ObservableError, match="empty list") as caught:
        traced(lambda qc, x: [])
    assert "While tracing kernel 'mine' with x: ()." in caught.value.__notes__


def test_an_error_of_the_function_itself_is_not_hidden():
    def write(qc, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        traced(write)
    assert not isinstance(caught.value, QMLError)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_the_shape_of_the_result_follows_the_return(shape):
    found = traced(lambda qc, x: qml.Z(0) if shape == () else [qml.Z(0)])
    assert found.shape == shape and found.program.num_outputs == 1
