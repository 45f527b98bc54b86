"""Comparisons over paired seeds: definitions, tests and intervals, and tables."""

from math import sqrt

import numpy as np
import pytest
from problems import MDError
from scipy import special
from significance import compare, mean_and_deviation, plus_minus, table

OURS = np.array([4.1, 3.9, 5.2, 4.4, 3.2, 4.9, 4.0, 6.1, 3.7, 4.6])
THEIRS = np.array([4.6, 4.8, 5.0, 5.1, 4.1, 5.0, 4.9, 6.0, 4.9, 5.6])


def test_the_reduction_is_one_less_the_ratio_of_means():
    found = compare(OURS, THEIRS, seed=0)
    assert found.reduction == pytest.approx(1 - sum(OURS) / sum(THEIRS))
    assert compare(2 * THEIRS, THEIRS, seed=0).reduction == pytest.approx(-1)


def test_a_seed_on_which_the_baseline_is_good_does_not_outweigh_the_others():
    ours, theirs = np.array([2.0, 9.0, 9.0]), np.array([0.1, 10.0, 10.0])
    assert 1 - np.mean(ours / theirs) < -5  # what the mean of ratios would say
    assert compare(ours, theirs, seed=0).reduction == pytest.approx(1 - 20 / 20.1)


def test_means_and_deviations_are_those_of_a_sample():
    found = compare(OURS, THEIRS, seed=0)
    for values, (mean, deviation) in ((OURS, found.candidate), (THEIRS, found.baseline)):
        assert mean == pytest.approx(sum(values) / 10)
        assert deviation == pytest.approx(sqrt(sum((values - mean) ** 2) / 9))


def test_seeds_are_counted_by_who_is_better_on_them():
    found = compare([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 2.5, 6.0], seed=0)
    assert (found.better, found.worse, found.equal, found.seeds) == (2, 1, 1, 4)


# Tests


def test_the_p_value_of_the_t_test_is_that_of_its_formula():
    difference = OURS - THEIRS
    t = difference.mean() / (difference.std(ddof=1) / sqrt(10))
    expected = special.betainc(9 / 2, 1 / 2, 9 / (9 + t**2))  # both tails of Student's t
    assert compare(OURS, THEIRS, seed=0).t == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("ours", [OURS, np.array([1.0, 3.5, 2.0, 8.0, 4.4, 0.3, 9.9, 6.0])])
def test_the_p_value_of_the_signed_ranks_counts_all_sign_patterns(ours: np.ndarray):
    theirs = THEIRS[: len(ours)] + 1e-3 * np.arange(len(ours))  # without ties
    difference = ours - theirs
    assert np.diff(np.sort(abs(difference))).min() > 1e-6
    rank = np.argsort(np.argsort(abs(difference))) + 1
    signs = (np.arange(2 ** len(ours))[:, None] >> np.arange(len(ours))) & 1
    sums, total = signs @ rank, rank.sum()
    least = min(rank[difference > 0].sum(), rank[difference < 0].sum())
    expected = np.mean((sums <= least) | (sums >= total - least))
    assert compare(ours, theirs, seed=0).wilcoxon == pytest.approx(expected, rel=1e-10)


def test_ten_seeds_all_better_have_the_least_p_value_that_ten_seeds_can_have():
    found = compare(THEIRS - np.linspace(0.1, 0.9, 10), THEIRS, seed=0)
    assert found.wilcoxon == pytest.approx(2 / 2**10) and found.better == 10


def test_exchanging_the_two_leaves_the_p_values():
    one, other = compare(OURS, THEIRS, seed=0), compare(THEIRS, OURS, seed=0)
    assert (one.wilcoxon, one.t) == pytest.approx((other.wilcoxon, other.t))
    assert (one.better, one.worse) == (other.worse, other.better)


# Intervals


def bca(ours: np.ndarray, theirs: np.ndarray, seed: int) -> tuple[float, float]:
    """The bias-corrected and accelerated interval of 95 %, as Efron writes it."""
    n, rng = len(ours), np.random.default_rng(seed)
    drawn = rng.integers(n, size=(40_000, n))
    values = 1 - ours[drawn].sum(axis=1) / theirs[drawn].sum(axis=1)
    here = 1 - ours.sum() / theirs.sum()
    bias = special.ndtri(np.mean(values < here))
    left = np.array([1 - np.delete(ours, k).sum() / np.delete(theirs, k).sum() for k in range(n)])
    about = left.mean() - left
    acceleration = np.sum(about**3) / (6 * np.sum(about**2) ** 1.5)
    levels = [
        special.ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))
        for z in special.ndtri([0.025, 0.975])
    ]
    low, high = np.quantile(values, levels)
    return float(low), float(high)


def test_the_interval_is_the_bca_interval():
    found = compare(OURS, THEIRS, seed=0)
    width = found.high - found.low
    assert (found.low, found.high) == pytest.approx(bca(OURS, THEIRS, 5), abs=0.03 * width)
    assert found.low < found.reduction < found.high


def test_the_interval_is_decided_by_its_seed():
    one, again, other = (compare(OURS, THEIRS, seed=s) for s in (3, 3, 4))
    assert one == again
    assert (one.low, one.high) != (other.low, other.high)


def test_less_confidence_has_a_shorter_interval():
    wide, narrow = (compare(OURS, THEIRS, seed=0, confidence=c) for c in (0.95, 0.5))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_units_do_not_matter():
    one = compare(OURS, THEIRS, seed=0)
    other = compare(1024 * OURS, 1024 * THEIRS, seed=0)  # without rounding, which may break ties
    fields = "reduction", "low", "high", "wilcoxon", "t"
    for field in fields:
        assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-9)


@pytest.mark.slow
def test_about_nineteen_of_twenty_intervals_hold_the_true_reduction():
    rng, held, truth, repeats = np.random.default_rng(0), 0, 1 - 4 / 5, 300
    for repeat in range(repeats):
        shared = rng.gamma(20, 1 / 20, 20)
        ours, theirs = (mean * shared * rng.gamma(30, 1 / 30, 20) for mean in (4, 5))
        found = compare(ours, theirs, seed=repeat, resamples=999)
        held += found.low <= truth <= found.high
    # Of 300 with 95 %: 285 ± 3.8; small samples hold a little less often.
    assert 0.89 < held / repeats < 0.98


# Limits


def test_the_same_errors_are_no_difference():
    found = compare(OURS, OURS, seed=0)
    assert (found.reduction, found.low, found.high) == (0, 0, 0)
    assert (found.wilcoxon, found.t, found.equal) == (1, 1, 10)


def test_errors_in_one_proportion_have_an_interval_of_no_width():
    found = compare(0.75 * THEIRS, THEIRS, seed=0)
    assert (found.reduction, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))


def test_errors_at_one_distance_are_as_certain_as_a_t_test_gets():
    found = compare(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]), seed=0)
    assert found.t == 0 and found.wilcoxon == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([1.0, 2.0], [2.0, 4.1]),
        ([1.0, 5.0, 3.0], [2.0, 5.0, 2.5]),
        ([2.0, 1.0] * 3, [1.0, 2.0] * 3),
    ],
)
def test_few_seeds_and_ties_have_an_interval_around_the_reduction(ours: list, theirs: list):
    found = compare(ours, theirs, seed=0)
    assert found.low <= found.reduction <= found.high
    assert 0 < found.wilcoxon <= 1 and 0 < found.t <= 1


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        ([1.0], [2.0], r"two or more pairs, one per seed, got shapes \(1,\) and \(1,\)"),
        ([1.0, 2.0], [2.0], "two or more pairs"),
        ([[1.0, 2.0]], [[2.0, 3.0]], "two or more pairs"),
        ([1.0, np.nan], [2.0, 3.0], "must be finite, not negative"),
        ([1.0, -1.0], [2.0, 3.0], "must be finite, not negative"),
        ([1.0, 2.0], [0.0, 3.0], "above 0 for the baseline, got"),
    ],
)
def test_what_are_no_pairs_of_errors_is_refused(ours: list, theirs: list, sentence: str):
    with pytest.raises(MDError, match=sentence):
        compare(ours, theirs, seed=0)


# Text


def test_the_sentence_says_the_numbers():
    found = compare(OURS, THEIRS, seed=0)
    text = found.sentence()
    assert text.startswith(f"{100 * found.reduction:+.1f} % [{100 * found.low:+.1f} %, ")
    assert "better on 8 of 10 seeds, Wilcoxon p = 0.0" in text


def test_one_value_has_a_mean_and_no_deviation():
    mean, deviation = mean_and_deviation([2.5])
    assert mean == 2.5 and np.isnan(deviation)
    assert plus_minus([2.5]) == "2.5"
    assert plus_minus([1.0, 2.0], digits=2) == f"1.50 ± {sqrt(0.5):.2f}"


def test_a_table_has_columns_of_one_width():
    text = table(("model", "E", "F"), [("hybrid", "1.2 ± 0.1", "30"), ("x", "2", "4")])
    assert text.splitlines() == [
        "model           E   F",
        "---------------------",
        "hybrid  1.2 ± 0.1  30",
        "x               2   4",
    ]
    assert table(("a", "b"), []).splitlines() == ["a  b", "----"]


def test_a_row_with_too_few_columns_is_refused():
    with pytest.raises(MDError, match="must have the 2 columns"):
        table(("a", "b"), [("1",)])
