"""Too few qubits, or too little memory: said once, and by all engines alike."""

from __future__ import annotations

import re
from typing import Final

from qml.errors import EngineError, in_bytes

_AERS: Final = re.compile(
    r"insufficient memory.*? using the (\w+) simulator\. "
    r"Required memory: (\d+)M, max memory: (\d+)M",
    re.IGNORECASE | re.DOTALL,
)
_MOST: Final = 2**64 - 1
"""Aer counts no further."""


def refuse_wide(num_qubits: int, available: int, machine: str) -> None:
    """Returns if a machine has enough qubits for a circuit.

    Raises:
        EngineError: it has not.
    """
    if num_qubits > available:
        raise EngineError(
            f"the circuit has {num_qubits} qubits, {machine} has {available}. Choose a larger "
            "machine."
        )


def shortage(text: str) -> tuple[str, str] | None:
    """From what Aer says: (the method, what it needs and what there is); None if it is no shortage.

    >>> found = "ERROR: Insufficient memory to run circuit c using the statevector simulator. "
    >>> shortage(found + "Required memory: 1048576M, max memory: 24576M")
    ('statevector', 'the statevector of a circuit needs 1.0 TiB, and 24.0 GiB are there')
    """
    found = _AERS.search(text)
    if found is None:
        return None
    method, needed, there = found[1], int(found[2]), int(found[3])
    counted = in_bytes(needed * 2**20) if needed < _MOST else "more than can be counted"
    what = f"the {method.replace('_', ' ')} of a circuit needs {counted}"
    return method, f"{what}, and {in_bytes(there * 2**20)} are there"
