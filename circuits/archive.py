"""A Program as text, and back: data alone, read without running anything, in any release of Qiskit.

Not Qiskit's own format, QPY: its reader calls whatever class or function of Qiskit's library a file
names, with the file's arguments, and a circuit read by it is unrolled anew, to other gates in
another release. A Program has been unrolled, and nothing in it is a name but that of a gate in our
table, of an argument, and of the functions in formulas, which are read as data too.

The text is JSON, compressed and in base64, all ASCII.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from qml.circuits.formulas import COMPLEX, evaluate
from qml.circuits.gates import FIXED
from qml.circuits.paulis import Pauli
from qml.circuits.program import (
    CONSTANT,
    AngleMap,
    Expectation,
    Fixed,
    Formula,
    Probabilities,
    Program,
    Rotation,
)
from qml.errors import ConfigError

FORMAT: Final = 1
LARGEST: Final = 1 << 28
"""Bytes of JSON in one text: a few bytes of compressed data may stand for a whole memory."""

MOST_QUBITS: Final = 1 << 14
MOST_ARGUMENTS: Final = 1 << 22

Shape = tuple[int, ...]


@lru_cache(maxsize=16)  # a callback may save a model after every epoch
def pack(program: Program, shape: Shape) -> str:
    """The Program and the shape of its kernel's result, () or (M,), as a text.

    Raises:
        ConfigError: it is too large for a text.
    """
    angles = program.angles
    content = {
        "format": FORMAT,
        "qubits": program.num_qubits,
        "arguments": [[name, list(sizes)] for name, sizes in program.arguments],
        "operations": [_operation(operation) for operation in program.operations],
        "outputs": [_output(output) for output in program.outputs],
        "shape": list(shape),
        "affine": [angles.slots.tolist(), angles.arguments.tolist(), angles.coefficients.tolist()],
        "offset": angles.offset.tolist(),
        "formulas": [[f.text, f.slots.tolist(), f.arguments.tolist()] for f in angles.formulas],
    }
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    if len(data) > LARGEST:
        raise ConfigError(
            f"a circuit takes {len(data)} bytes to be stored, more than the {LARGEST} that would "
            "be read again. Write large unitary gates as smaller ones."
        )
    return base64.b64encode(zlib.compress(data, 9)).decode()


def unpack(text: object) -> tuple[Program, Shape]:
    """The Program and the result's shape that `pack` wrote, each part checked.

    Raises:
        ConfigError: the text is not what `pack` writes: cut off, changed, of a later release.
    """
    try:
        return _program(_content(text))
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ConfigError(
            f"the stored circuit cannot be read: {error}. The file is damaged, was changed, or was "
            "written by a later release of this library."
        ) from error


def _operation(operation: Rotation | Fixed) -> list[Any]:
    if isinstance(operation, Rotation):
        entry = [operation.pauli.x, operation.pauli.z, operation.slot]
        return [*entry, operation.angle] if operation.slot == CONSTANT else entry
    if operation.name == "unitary":
        numbers = np.ascontiguousarray(operation.matrix).view(np.float64).ravel().tolist()
        return [operation.name, list(operation.qubits), numbers]
    return [operation.name, list(operation.qubits)]


def _output(output: Expectation | Probabilities) -> list[Any]:
    if isinstance(output, Probabilities):
        return ["probabilities", list(output.qubits)]
    strings = [[pauli.x, pauli.z] for pauli in output.paulis]
    return ["expectation", strings, list(output.coefficients)]


def _content(text: object) -> dict[str, Any]:
    """The JSON object in the text, not looked into."""
    if not isinstance(text, str):
        _wrong("it is no text")
    try:
        compressed = base64.b64decode(text.encode("ascii"), validate=True)
        unzip = zlib.decompressobj()
        data = unzip.decompress(compressed, LARGEST)
    except (binascii.Error, zlib.error, UnicodeEncodeError) as error:
        raise ValueError(f"it is not compressed data ({error})") from error
    if unzip.unconsumed_tail:
        _wrong(f"it holds more than {LARGEST} bytes")
    if not unzip.eof or unzip.unused_data:
        _wrong("it is cut off, or goes on after its end")
    content = json.loads(data, parse_constant=_wrong)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        _wrong(f"it is not of format {FORMAT}")
    return content


def _program(content: dict[str, Any]) -> tuple[Program, Shape]:
    missing = _KEYS - content.keys()
    if missing or content.keys() - _KEYS:
        _wrong("it has other keys")
    num_qubits = _index(content["qubits"], MOST_QUBITS + 1)
    if not num_qubits:
        _wrong("it has no qubits")
    arguments = tuple(_argument(entry) for entry in _list(content["arguments"]))
    names = [name for name, _ in arguments]
    num_arguments = sum(math.prod(shape) for _, shape in arguments)
    if len(set(names)) < len(names) or num_arguments > MOST_ARGUMENTS:
        _wrong("its arguments are too many, or two of one name")
    offset = _floats(content["offset"])
    num_slots = len(offset)
    slots, which, coefficients = _list(content["affine"], 3)
    formulas = _list(content["formulas"])
    angles = AngleMap(
        num_arguments,
        _indices(slots, num_slots),
        _indices(which, num_arguments, len(slots)),
        _floats(coefficients, len(slots)),
        offset,
        tuple(_formula(entry, num_slots, num_arguments) for entry in formulas),
    )
    operations = _list(content["operations"])
    outputs = _list(content["outputs"])
    program = Program(
        num_qubits,
        tuple(_read_operation(entry, num_qubits, num_slots) for entry in operations),
        tuple(_read_output(entry, num_qubits) for entry in outputs),
        angles,
        arguments,
    )
    shape = tuple(_list(content["shape"]))
    single = len(outputs) == 1 and isinstance(program.outputs[0], Expectation)
    if not outputs or shape != (program.num_outputs,) and not (shape == () and single):
        _wrong("its outputs do not have its shape")
    return program, shape


_KEYS: Final = frozenset(
    "format qubits arguments operations outputs shape affine offset formulas".split()
)


def _argument(entry: object) -> tuple[str, Shape]:
    name, sizes = _list(entry, 2)
    if not isinstance(name, str):
        _wrong("an argument has no name")
    return name, tuple(_index(size, MOST_ARGUMENTS + 1) for size in _list(sizes))


def _read_operation(entry: object, num_qubits: int, num_slots: int) -> Rotation | Fixed:
    match entry:
        case [int(x), int(z), int(slot)]:
            return Rotation(_pauli(x, z, num_qubits), _index(slot, num_slots))
        case [int(x), int(z), int(slot), angle] if slot == CONSTANT:
            return Rotation(_pauli(x, z, num_qubits), CONSTANT, float(_floats([angle])[0]))
        case ["unitary", qubits, numbers]:
            acted = _qubits(qubits, num_qubits)
            size = 1 << len(acted)
            if len(_list(numbers)) != 2 * size * size:
                _wrong("a unitary has another size than its qubits")
            matrix = _floats(numbers).view(np.complex128).reshape(size, size)
            if not np.allclose(matrix @ matrix.conj().T, np.eye(size), atol=1e-6):
                _wrong("a unitary is none")
            matrix.setflags(write=False)
            return Fixed("unitary", acted, matrix)
        case [str(name), qubits] if name in FIXED:
            acted = _qubits(qubits, num_qubits)
            if 1 << len(acted) != len(FIXED[name]):
                _wrong(f"{name!r} acts on {len(acted)} qubits")
            return Fixed(name, acted, FIXED[name])
    _wrong("an operation is no rotation and no gate")


def _read_output(entry: object, num_qubits: int) -> Expectation | Probabilities:
    match entry:
        case ["probabilities", [_, *_] as qubits]:
            return Probabilities(_qubits(qubits, num_qubits))
        case ["expectation", strings, coefficients]:
            pairs = [_list(pair, 2) for pair in _list(strings)]
            paulis = tuple(_pauli(x, z, num_qubits) for x, z in pairs)
            return Expectation(paulis, tuple(_floats(coefficients, len(paulis)).tolist()))
    _wrong("an output is no expectation value and no probabilities")


def _formula(entry: object, num_slots: int, num_arguments: int) -> Formula:
    text, slots, rows = _list(entry, 3)
    table = [_list(row) for row in _list(rows, len(_list(slots)))]
    count = len(table[0]) if table else 0
    which = [_indices(row, num_arguments, count) for row in table]
    if not isinstance(text, str):
        _wrong("a formula is no text")
    try:
        evaluate(text, [math.nan] * count, COMPLEX)  # nothing is out of a function's domain
    except ArithmeticError:
        _wrong("a formula divides by zero")
    return Formula(
        text, _indices(slots, num_slots), np.array(which, np.int32).reshape(len(table), count)
    )


def _pauli(x: object, z: object, num_qubits: int) -> Pauli:
    return Pauli(_index(x, 1 << num_qubits), _index(z, 1 << num_qubits))


def _qubits(value: object, num_qubits: int) -> tuple[int, ...]:
    qubits = tuple(_index(qubit, num_qubits) for qubit in _list(value))
    if len(set(qubits)) < len(qubits):
        _wrong("an operation or output has a qubit twice")
    return qubits


def _list(value: object, length: int | None = None) -> Sequence[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        _wrong("a list is none, or has another length")
    return value


def _index(value: object, end: int) -> int:
    """An integer of 0 to end - 1; in JSON, true and 1.0 are none."""
    if type(value) is not int or not 0 <= value < end:
        _wrong("an index or a size is out of range")
    return value


def _indices(value: object, end: int, length: int | None = None) -> NDArray[np.int32]:
    return np.array([_index(entry, end) for entry in _list(value, length)], np.int32)


def _floats(value: object, length: int | None = None) -> NDArray[np.float64]:
    numbers = _list(value, length)
    if not all(type(number) is float for number in numbers):
        _wrong("a number is none, or no float")
    array = np.array(numbers, np.float64)
    if not np.isfinite(array).all():
        _wrong("a number is not finite")
    return array


def _wrong(problem: str) -> NoReturn:
    raise ValueError(problem)
