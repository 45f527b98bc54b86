"""What a kernel returns: Pauli sums, labels, SparsePauliOp, probabilities, or lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from qiskit.circuit import ParameterExpression
from qiskit.quantum_info import Pauli as QiskitPauli, SparsePauliOp

from qml.circuits.paulis import BITS, Pauli, PauliSum, qubit_index
from qml.circuits.program import Expectation, Probabilities, expectation
from qml.errors import ObservableError

_EXPECTED = (
    "A kernel returns qml.X/Y/Z(q) and their sums and products, Pauli labels, SparsePauliOp, "
    "qml.probs(...), or a list of these."
)


@dataclass(frozen=True)
class Measurement:
    """The outputs of a kernel and the shape in which they are returned: () or (M,)."""

    outputs: tuple[Expectation | Probabilities, ...]
    shape: tuple[int, ...]


def probs(*qubits: int | Sequence[int]) -> Probabilities:
    """The probabilities of the 2^k outcomes of `qubits` (all of them if none is named).

    Outcome j has qubit `qubits[i]` in state (j >> i) & 1: the first qubit is the least significant.

    >>> probs(0, 2)
    Probabilities(qubits=(0, 2))

    Raises:
        ObservableError: a qubit is named twice or is no integer.
    """
    listed = len(qubits) == 1 and isinstance(qubits[0], Iterable)
    named = tuple(qubit_index(q) for q in (qubits[0] if listed else qubits))  # type: ignore[union-attr]
    if qubits and not named:
        raise ObservableError("probs got an empty list of qubits; probs() takes all of them.")
    if len(set(named)) != len(named):
        raise ObservableError(f"probs takes each qubit once, found {named}.")
    return Probabilities(named)


def measurement(returned: object, num_qubits: int) -> Measurement:
    """The outputs behind a kernel's return value.

    Raises:
        ObservableError: it cannot be measured: nothing at all, another type, a label of another
            width, a complex coefficient, a qubit out of range.
    """
    if isinstance(returned, list | tuple):
        if not returned:
            kind = type(returned).__name__
            raise ObservableError(f"the kernel returned an empty {kind}. {_EXPECTED}")
        outputs = tuple(_output(item, num_qubits) for item in returned)
        return Measurement(outputs, (sum(output.size for output in outputs),))
    output = _output(returned, num_qubits)
    return Measurement((output,), () if isinstance(output, Expectation) else (output.size,))


def _output(item: object, num_qubits: int) -> Expectation | Probabilities:
    if isinstance(item, Probabilities):
        qubits = item.qubits or tuple(range(num_qubits))
        _check_range(max(qubits, default=0) + 1, num_qubits, f"probs{qubits}")
        return Probabilities(qubits)
    if isinstance(item, str):
        total = PauliSum({_from_label(item, num_qubits): 1.0})
    elif isinstance(item, QiskitPauli):
        total = _from_qiskit(SparsePauliOp(item), num_qubits)
    elif isinstance(item, SparsePauliOp):
        total = _from_qiskit(item, num_qubits)
    elif isinstance(item, PauliSum):
        total = item
    else:
        found = "None" if item is None else f"{type(item).__name__}: {item!r}"
        raise ObservableError(f"the kernel returned {found}. {_EXPECTED}")
    _check_range(total.num_qubits, num_qubits, repr(total))
    crooked = {p: c for p, c in total.terms.items() if complex(c).imag != 0}
    if crooked:
        raise ObservableError(
            f"a measured observable must be Hermitian, but {PauliSum(crooked)} has complex "
            "coefficients. Measure the real and the imaginary part as two observables."
        )
    if not all(np.isfinite(complex(c)) for c in total.terms.values()):
        raise ObservableError(f"the observable {total} has coefficients that are not finite.")
    return expectation(total)


def _from_label(label: str, num_qubits: int) -> Pauli:
    wrong = sorted(set(label) - set(BITS))
    if wrong or len(label) != num_qubits:
        problem = f"holds {wrong}" if wrong else f"has {len(label)} letters"
        raise ObservableError(
            f"the Pauli label {label!r} {problem}; the kernel has {num_qubits} qubit(s), so a "
            f"label has {num_qubits} letters of I, X, Y, Z, qubit 0 rightmost."
        )
    return Pauli.from_letters(label[::-1], range(num_qubits))


def _from_qiskit(operator: SparsePauliOp, num_qubits: int) -> PauliSum:
    if operator.num_qubits != num_qubits:
        raise ObservableError(
            f"the operator {operator} acts on {operator.num_qubits} qubit(s), the kernel has "
            f"{num_qubits}. Write it on all qubits, for example by SparsePauliOp.from_sparse_list."
        )
    total = PauliSum({})
    for label, coefficient in zip(operator.paulis.to_labels(), operator.coeffs, strict=True):
        if isinstance(coefficient, ParameterExpression):
            raise ObservableError(
                f"the coefficient {coefficient} of {label} is a parameter. Return the terms as "
                "separate observables and weight them outside the kernel, where JAX differentiates."
            )
        phase = {"-i": -1j, "-": -1, "i": 1j, "": 1}[label[: len(label) - num_qubits]]
        pauli = _from_label(label[len(label) - num_qubits :], num_qubits)
        total = total + PauliSum({pauli: complex(coefficient) * phase})
    return total


def _check_range(needed: int, num_qubits: int, what: str) -> None:
    if needed > num_qubits:
        raise ObservableError(
            f"{what} needs qubit {needed - 1}, but the kernel has {num_qubits} qubit(s), "
            f"0 to {num_qubits - 1}."
        )
