"""Between the columns of slots and the lanes of factors: angles, tangents, gradients.

A group of steps has cos and sin of half of every factor's angle, V lanes of each.

The angle is reduced to |r| <= pi/4 by multiples of pi/2, with pi/2 as a sum of three parts (Cody
and Waite, Software Manual for the Elementary Functions, 1980); what the Taylor series of sine and
cosine leave out is below half a unit in the last place of float64. There is no call and no branch,
so LLVM makes it vector code.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numba import njit

from qml.simulators.statevector.compiler import OPTIONS
from qml.simulators.statevector.matrices import SLOT
from qml.simulators.statevector.rows import lanes

Array = Any

REDUCED: Final = 1e5
"""Beyond it multiples of pi/2 have too many bits for the parts, and the C library serves."""

_PART1, _PART2, _PART3 = 1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21
_PER_QUARTER: Final = 2 / math.pi
_ROUND: Final = 1.5 * 2.0**52
"""Added and taken away, it rounds a float64 to an integer."""
_C2, _C4, _C6, _C8, _C10, _C12, _C14, _C16 = (
    (-1) ** k / math.factorial(2 * k) for k in range(1, 9)
)
_S3, _S5, _S7, _S9, _S11, _S13, _S15 = ((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 8))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def cos_sin(
    angles: Array, rows: Array, factors: Array, origin: int, end: int, c: Array, s: Array
) -> None:
    """c, s of the factors from `origin` to before `end`, in lane v at the angles of row rows[v].

    Those of factors without a slot are not to be read.
    """
    V = lanes(c)
    x, cosine, sine = np.empty(V), np.empty(V), np.empty(V)
    if shared(rows):
        for block in range(origin, end, V):  # a factor to a lane, and then each to all lanes
            count = min(V, end - block)
            x[:] = 0
            for j in range(count):
                slot = factors[block + j, SLOT]
                if slot >= 0:
                    x[j] = 0.5 * angles[rows[0], slot]
            any_cos_sin(x, cosine, sine)
            for j in range(count):
                k = (block + j - origin) * V
                for v in range(V):
                    c[k + v], s[k + v] = cosine[j], sine[j]
        return
    for f in range(origin, end):
        slot, k = factors[f, SLOT], (f - origin) * V
        if slot < 0:
            continue
        for v in range(V):
            x[v] = 0.5 * angles[rows[v], slot]
        any_cos_sin(x, cosine, sine)
        for v in range(V):
            c[k + v], s[k + v] = cosine[v], sine[v]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def shared(rows: Array) -> bool:
    """Whether all lanes are at the angles of one row."""
    for v in range(1, len(rows)):
        if rows[v] != rows[0]:
            return False
    return True


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def any_cos_sin(x: Array, cosine: Array, sine: Array) -> None:
    """cos x and sin x."""
    reduced_cos_sin(x, cosine, sine)
    reducible = True
    for v in range(len(x)):
        reducible &= abs(x[v]) <= REDUCED  # not for NaN
    if not reducible:
        for v in range(len(x)):
            if not abs(x[v]) <= REDUCED:
                cosine[v], sine[v] = math.cos(x[v]), math.sin(x[v])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def spread(
    tangents: Array, rows: Array, factors: Array, origin: int, end: int, half: Array
) -> None:
    """Half the tangent of the factors, in lane v that of row rows[v]."""
    V = lanes(half)
    for f in range(origin, end):
        slot, k = factors[f, SLOT], (f - origin) * V
        if slot >= 0:
            for v in range(V):
                half[k + v] = half.dtype.type(0.5) * tangents[rows[v], slot]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def collect(g: Array, factors: Array, origin: int, end: int, whole: bool, out: Array) -> None:
    """Gradients of the factors to the columns of their slots, lane v to row v of out.

    If the lanes are one sample, `whole`, their sum is its gradient.
    """
    V = lanes(g)
    for f in range(origin, end):
        slot, k = factors[f, SLOT], (f - origin) * V
        if slot < 0:
            continue
        if whole:
            total = g[k]
            for v in range(1, V):
                total += g[k + v]
            out[0, slot] = total
        else:
            for v in range(len(out)):
                out[v, slot] = g[k + v]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def reduced_cos_sin(x: Array, cosine: Array, sine: Array) -> None:
    """cos x and sin x where |x| <= REDUCED, and anything elsewhere."""
    for v in range(len(x)):
        quarters = (x[v] * _PER_QUARTER + _ROUND) - _ROUND
        r = ((x[v] - quarters * _PART1) - quarters * _PART2) - quarters * _PART3
        # -2 to 2, where -2 and 2 are the same quadrant.
        quadrant = quarters - 4 * ((quarters * 0.25 + _ROUND) - _ROUND)
        q = r * r
        s = _S3 + q * (_S5 + q * (_S7 + q * (_S9 + q * (_S11 + q * (_S13 + q * _S15)))))
        s = r + r * (q * s)
        c = _C8 + q * (_C10 + q * (_C12 + q * (_C14 + q * _C16)))
        c = 1 + q * (_C2 + q * (_C4 + q * (_C6 + q * c)))
        odd = abs(quadrant) == 1
        cosine[v] = (s if odd else c) * (-1.0 if quadrant == 1 or abs(quadrant) == 2 else 1.0)
        sine[v] = (c if odd else s) * (-1.0 if quadrant == -1 or abs(quadrant) == 2 else 1.0)
