"""Fixed unitaries on several qubits, in any frame: plain loops, one lane at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.matrices import FIRST, LAST, PHASE
from qml.simulators.statevector.rows import lanes, parity

Array = Any


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def apply_dense(step: Array, masks: Array, matrices: Array, inverse: bool, psi: Array) -> None:
    """psi <- M psi (or M+ psi) for a DENSE step of D = 2^k logical basis states.

    FIRST and LAST are columns of `masks` (5, N), one per basis state b: the partner mask x_b, the
    sign mask z_b and the power of i that take logical 0 to b; then, for the first k of them, the
    mask and sign r_q of Z'_q as (r_q << 1) | negative. PHASE says where the D * D complex entries
    begin. Masks are of amplitude indices: the lanes hold their lowest masks[4, 0] bits, or samples
    if that is 0.
    """
    V = lanes(psi)
    first, size = step[FIRST], step[LAST] - step[FIRST]
    lane_bits = masks[4, 0]
    amplitudes = (len(psi) // (2 * V)) << lane_bits
    samples = 1 if lane_bits else V
    index = np.empty(size, np.int64)
    factor = np.empty(size, np.complex128)
    old = np.empty(size, np.complex128)
    for i in range(amplitudes):
        odd = 0
        q = 0
        while (1 << q) < size:
            packed = masks[3, first + q]
            odd |= parity(i & (packed >> 1)) ^ (packed & 1)
            q += 1
        if odd:
            continue
        for b in range(size):
            j = i ^ masks[0, first + b]
            index[b] = (j >> lane_bits) * 2 * V + (j & ((1 << lane_bits) - 1))
            power = masks[2, first + b] + 2 * parity(i & masks[1, first + b])
            factor[b] = (1 + 0j, 1j, -1 + 0j, -1j)[power & 3]
        for v in range(samples):
            for b in range(size):
                k = index[b] + v
                old[b] = np.conj(factor[b]) * complex(psi[k], psi[k + V])
            for b in range(size):
                total = 0j
                for a in range(size):
                    if inverse:
                        entry = matrices[step[PHASE] + a * size + b]
                        total += complex(entry[0], -entry[1]) * old[a]
                    else:
                        entry = matrices[step[PHASE] + b * size + a]
                        total += complex(entry[0], entry[1]) * old[a]
                total *= factor[b]
                psi[index[b] + v] = total.real
                psi[index[b] + V + v] = total.imag
