"""Whether one model is better than another over paired seeds: tests, intervals and tables.

Errors come in pairs, one of each model per seed: the same data and the same draws for both. The
relative reduction of the error is

    1 - mean(candidate) / mean(baseline)

the ratio of means and not the mean of ratios: a seed weighs by its error, in the units that are
reported, so that one on which the baseline happens to be good does not outweigh the others. It is
positive where the candidate has the smaller error. Tests are two-sided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from problems import MDError
from scipy import stats

RESAMPLES = 9999


@dataclass(frozen=True)
class Comparison:
    """A candidate against a baseline over n paired seeds; errors in their own units.

    Attributes:
        candidate, baseline: (mean, standard deviation with n - 1) of their errors.
        reduction: the relative reduction of the error; 0.1 is a tenth less, negative is more.
        low, high: its confidence interval, by the bootstrap over pairs (BCa: Efron, J. Am. Stat.
            Assoc. 82, 171 (1987)).
        confidence: of that interval.
        wilcoxon: p value of the signed-rank test of the differences.
        t: p value of the paired t test of the differences.
        better, worse, equal: seeds on which the candidate's error is smaller, larger, the same.
    """

    candidate: tuple[float, float]
    baseline: tuple[float, float]
    reduction: float
    low: float
    high: float
    confidence: float
    wilcoxon: float
    t: float
    better: int
    worse: int
    equal: int

    @property
    def seeds(self) -> int:
        """n."""
        return self.better + self.worse + self.equal

    def sentence(self) -> str:
        """All of it in one line."""
        return (
            f"{percent(self.reduction)} [{percent(self.low)}, {percent(self.high)}], better on "
            f"{self.better} of {self.seeds} seeds, Wilcoxon p = {self.wilcoxon:.2g}, "
            f"t p = {self.t:.2g}"
        )


def compare(
    candidate: Sequence[float] | np.ndarray,
    baseline: Sequence[float] | np.ndarray,
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Comparison:
    """The comparison of paired errors (n,) and (n,), n at least 2.

    Args:
        seed: of the bootstrap.

    Raises:
        MDError: the errors are no pairs, too few, negative or not finite, or the baseline has none.
    """
    ours, theirs = np.asarray(candidate, float), np.asarray(baseline, float)
    if ours.ndim != 1 or ours.shape != theirs.shape or len(ours) < 2:
        raise MDError(
            f"errors must be two or more pairs, one per seed, got shapes {ours.shape} and "
            f"{theirs.shape}"
        )
    both = np.stack([ours, theirs])
    if not (np.isfinite(both).all() and (both >= 0).all() and theirs.all()):
        raise MDError(
            f"errors must be finite, not negative, and above 0 for the baseline, got "
            f"{ours.tolist()} and {theirs.tolist()}"
        )
    difference = ours - theirs
    low, high = _interval(ours, theirs, seed, confidence, resamples)
    return Comparison(
        candidate=mean_and_deviation(ours),
        baseline=mean_and_deviation(theirs),
        reduction=float(reduction(ours, theirs)),
        low=low,
        high=high,
        confidence=confidence,
        wilcoxon=float(stats.wilcoxon(ours, theirs).pvalue) if difference.any() else 1.0,
        t=_t_test(difference),
        better=int((difference < 0).sum()),
        worse=int((difference > 0).sum()),
        equal=int((difference == 0).sum()),
    )


def reduction(candidate: np.ndarray, baseline: np.ndarray, axis: int = -1) -> Any:
    """1 - mean(candidate) / mean(baseline) along an axis.

    >>> float(reduction(np.array([1.0, 2.0]), np.array([2.0, 4.0])))
    0.5
    """
    return 1 - np.mean(candidate, axis=axis) / np.mean(baseline, axis=axis)


def mean_and_deviation(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation, with n - 1; the latter is nan for one value."""
    array = np.asarray(values, float)
    return float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else np.nan


def _t_test(difference: np.ndarray) -> float:
    """The p value; where all differences are the same, its limit."""
    if np.ptp(difference) <= 1e-14 * np.abs(difference).max():
        return 0.0 if difference[0] else 1.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def _interval(
    ours: np.ndarray, theirs: np.ndarray, seed: int, confidence: float, resamples: int
) -> tuple[float, float]:
    """The BCa interval of the reduction; a point where it is the same whatever is left out."""
    left = [float(reduction(np.delete(ours, k), np.delete(theirs, k))) for k in range(len(ours))]
    if np.ptp(left) <= 1e-14:
        return (float(reduction(ours, theirs)),) * 2
    found = stats.bootstrap(
        (ours, theirs),
        reduction,
        paired=True,
        vectorized=True,
        method="BCa",
        confidence_level=confidence,
        n_resamples=resamples,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def percent(fraction: float) -> str:
    """A fraction as a signed percentage.

    >>> percent(-0.2183)
    '-21.8 %'
    """
    return f"{100 * fraction:+.1f} %"


def plus_minus(values: Sequence[float] | np.ndarray, digits: int = 1) -> str:
    """Mean ± standard deviation; the mean alone for one value.

    >>> plus_minus([1.0, 2.0, 3.0])
    '2.0 ± 1.0'
    """
    mean, deviation = mean_and_deviation(values)
    text = f"{mean:.{digits}f}"
    return text if np.isnan(deviation) else f"{text} ± {deviation:.{digits}f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns, the first to the left, the others right; a rule below the head.

    Raises:
        MDError: a row has another number of columns than the header.

    >>> print(table(("model", "error"), (("a", "1.0"), ("long name", "12.0"))))
    model      error
    ----------------
    a            1.0
    long name   12.0
    """
    for row in rows:
        if len(row) != len(header):
            raise MDError(f"a row must have the {len(header)} columns {header}, got {row}")
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
