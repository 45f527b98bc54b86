"""Polynomials in a0, a1, ..., to see which formulas are affine once multiplied out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

Monomial = tuple[int, ...]
"""The symbols multiplied, in ascending order: () is 1, (0, 0, 2) is a0^2 a2."""

LARGEST: Final = 256
"""Terms and powers up to which a formula is multiplied out."""


@dataclass(frozen=True)
class Polynomial:
    """sum of terms[m] * m; operations that leave the polynomials raise ValueError."""

    terms: dict[Monomial, float]

    @classmethod
    def symbol(cls, which: int) -> Polynomial:
        return cls({(which,): 1.0})

    @classmethod
    def of(cls, value: Polynomial | float) -> Polynomial:
        return value if isinstance(value, Polynomial) else cls({(): float(value)})

    def __add__(self, other: Polynomial | float) -> Polynomial:
        total = defaultdict(float, self.terms)
        for monomial, coefficient in Polynomial.of(other).terms.items():
            total[monomial] += coefficient
        return _kept(total)

    def __mul__(self, other: Polynomial | float) -> Polynomial:
        total: defaultdict[Monomial, float] = defaultdict(float)
        for m, a in self.terms.items():
            for n, b in Polynomial.of(other).terms.items():
                total[tuple(sorted(m + n))] += a * b
        return _kept(total)

    def __truediv__(self, other: Polynomial | float) -> Polynomial:
        divisor = Polynomial.of(other).terms
        if set(divisor) != {()}:
            raise ValueError("no polynomial")
        return _kept({m: a / divisor[()] for m, a in self.terms.items()})

    def __pow__(self, power: Polynomial | float) -> Polynomial:
        if not isinstance(power, int) or not 0 <= power <= LARGEST:
            raise ValueError("no polynomial")
        result = Polynomial.of(1.0)
        for _ in range(power):
            result = result * self
        return result

    def __rpow__(self, base: float) -> Polynomial:
        raise ValueError("no polynomial")

    def __rtruediv__(self, other: float) -> Polynomial:
        return Polynomial.of(other) / self

    def __neg__(self) -> Polynomial:
        return _kept({m: -a for m, a in self.terms.items()})

    def __sub__(self, other: Polynomial | float) -> Polynomial:
        return self + -Polynomial.of(other)

    def __rsub__(self, other: float) -> Polynomial:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__


def _kept(terms: dict[Monomial, float]) -> Polynomial:
    kept = {m: a for m, a in terms.items() if a}
    if len(kept) > LARGEST:
        raise ValueError("too many terms")
    return Polynomial(kept)
