"""Pictures of the comparison of families: intervals, curves, definitions, tuning, shots."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from evidence import Care, Curve
from families import FAMILIES
from hypotheses import Targets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from palette import BLACK, BLUE, GREY, ORANGE, RED, WIDTH, marks
from shots import Estimated
from significance import Comparison

REDUCTIONS = -900, -400, -200, -100, -50, -25, 0, 20, 35, 50, 65, 80, 90
"""Percent; where the axis of reductions may have ticks."""
NAME = 24
"""Letters of a family's title in a line."""


def wrapped(family: str) -> str:
    """The title of a family in short lines."""
    return fill(FAMILIES[family].title, NAME)


def plainly(axis: Axes, which: str, ticks: Sequence[float]) -> None:
    """Ticks of a logarithmic axis at these values, written as they are."""
    of = {"x": axis.xaxis, "y": axis.yaxis}[which]
    of.set_major_locator(FixedLocator(list(ticks)))
    of.set_minor_locator(NullLocator())
    of.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from the last below `low` to the first above `high`."""
    exponents = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 2)
    found = [step * 10.0**exponent for exponent in exponents for step in (1, 2, 5)]
    first = max(value for value in found if value <= low)
    last = min(value for value in found if value >= high)
    return [value for value in found if first <= value <= last]


def _doubled(reduction: float) -> float:
    """How often the error doubles from the hybrid to the other: even steps both ways."""
    return float(-np.log2(1 - reduction))


def forest(
    outcomes: Mapping[str, Mapping[str, Comparison]], asked: Mapping[str, str], aim: float
) -> Figure:
    """Reductions of the error with their intervals.

    Args:
        outcomes: quantity -> family -> the hybrid against it.
        asked: quantity -> the family that the protocol asks about.
        aim: percent, what is aimed at.
    """
    most = max(map(len, outcomes.values()))
    figure = Figure(figsize=(WIDTH, 1.6 + 1.1 * most), layout="constrained")
    panels = figure.subplots(len(outcomes), 1, sharex=True, squeeze=False)[:, 0]
    ends = [_doubled(end) for of in outcomes.values() for one in of.values()
            for end in (one.low, one.high, 0.0, aim / 100)]  # fmt: skip
    reach = max(ends) - min(ends)
    left, right = min(ends) - 0.06 * reach, max(ends) + 0.06 * reach
    for panel, (quantity, of) in zip(panels, outcomes.items(), strict=True):
        for row, (family, one) in enumerate(of.items()):
            chosen = asked.get(quantity) == family
            colour, low, high = (BLACK if chosen else BLUE), _doubled(one.low), _doubled(one.high)
            panel.plot([low, high], [row, row], color=colour, lw=3 if chosen else 1.8)
            mark = "D" if chosen else "o"
            panel.plot(_doubled(one.reduction), row, mark, color=colour, ms=9 if chosen else 7)
        panel.axvline(0, color=GREY, lw=1)
        panel.axvline(_doubled(aim / 100), color=RED, lw=1.2, ls="--")
        names = [wrapped(family) for family in of]
        panel.set(title=quantity, ylim=(len(of) - 0.5, -0.5), xlim=(left, right))
        panel.set_yticks(range(len(of)), names)
    # From 0 outwards, so far apart that labels do not touch.
    ticks: list[int] = []
    for tick in sorted(REDUCTIONS, key=abs):
        at, apart = _doubled(tick / 100), 0.075 * (right - left)
        if left <= at <= right and all(abs(at - _doubled(t / 100)) >= apart for t in ticks):
            ticks.append(tick)
    panels[-1].set_xticks([_doubled(tick / 100) for tick in ticks], [f"{t:+d}" if t else "0"
                                                                     for t in ticks])  # fmt: skip
    panels[-1].set_xlabel("reduction of the error by the hybrid (%)")
    look = panels[-1]
    look.plot([], [], "D-", color=BLACK, lw=3, ms=9, label="asked by the protocol")
    look.plot([], [], "o-", color=BLUE, ms=7, label="others")
    look.plot([], [], "--", color=RED, lw=1.2, label="what is aimed at")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def learning(curves: Mapping[str, Curve]) -> Figure:
    """Errors against training frames, on test and on far frames: mean and range of the seeds."""
    figure = Figure(figsize=(WIDTH, 9.5), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    sizes = sorted({int(size) for curve in curves.values() for size in curve.frames})
    for panel, part in zip(panels, ("errors", "far"), strict=True):
        seen = []
        for k, (family, curve) in enumerate(curves.items()):
            errors = getattr(curve, part)
            mean, low, high = errors.mean(axis=1), errors.min(axis=1), errors.max(axis=1)
            beside = curve.frames * 1.012 ** (k - (len(curves) - 1) / 2)
            style = marks(family) | ({"lw": 3, "zorder": 3} if k == 0 else {})
            panel.errorbar(
                beside, mean, (mean - low, high - mean), capsize=3, elinewidth=1, **style
            )
            seen += [low.min(), high.max()]
        title = (
            "test trajectories" if part == "errors" else "far trajectories, hotter than training"
        )
        panel.set(xscale="log", yscale="log", ylabel="relative force RMSE (%)", title=title)
        ticks = decades(min(seen), max(seen))
        plainly(panel, "y", ticks)
        panel.set_ylim(ticks[0], ticks[-1])
        panel.grid(axis="y", color="0.88")
    plainly(panels[-1], "x", sizes)
    panels[-1].set_xlabel("training frames")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def definition(
    fits: Mapping[str, Sequence[tuple[float, float]]],
    far: Mapping[str, Sequence[tuple[float, float]]],
    aims: Targets,
) -> Figure:
    """R² against relative error: the curve that ties them, and every fit.

    Args:
        fits, far: family -> (relative force RMSE in percent, R²) of its fits, on test and far.
        aims: whose accuracy is marked, once as that and once as if it were R².
    """
    figure = Figure(figsize=(WIDTH, 6.2), layout="constrained")
    axes = figure.subplots()
    every = [pair for of in (*fits.values(), *far.values()) for pair in of]
    share = 1 - aims.accuracy / 100
    meant = {f"accuracy {aims.accuracy:g} %": 100 * share, f"R² {1 - share:g}": 100 * share**0.5}
    x = (
        [100 * np.sqrt(1 - r2) for _, r2 in every]
        + [error for error, _ in every]
        + [*meant.values()]
    )
    ticks = decades(min(x), max(x))
    low, high = (ticks[0] / 100) ** 2, (ticks[-1] / 100) ** 2
    line = np.geomspace(ticks[0], ticks[-1], 200)
    axes.plot(line, (line / 100) ** 2, color=GREY, lw=1.5, label="R² = 1 - (relative error)²")
    for family, pairs in fits.items():
        style = marks(family) | {"ls": "none", "ms": 6, "alpha": 0.85}
        axes.plot(*_missing(pairs), **style)
    for family, pairs in far.items():
        style = marks(family) | {"ls": "none", "ms": 6, "mfc": "none", "label": "_"}
        axes.plot(*_missing(pairs), **style)
    for (words, error), colour in zip(meant.items(), (BLUE, RED), strict=True):
        axes.plot([error, error], [(error / 100) ** 2, high], color=colour, lw=1.2, ls="--")
        axes.plot(error, (error / 100) ** 2, "*", color=colour, ms=16, zorder=4)
        axes.annotate(words, (error, (error / 100) ** 2), (12, 4), textcoords="offset points",
                      color=colour)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(ticks[0], ticks[-1]), ylabel="R² of forces")
    axes.set_xlabel("relative force RMSE (%) = 100 - accuracy")
    plainly(axes, "x", ticks)
    nines = [10.0**k for k in range(-12, 4) if low <= 10.0**k <= high]
    axes.set_ylim(low, high)
    axes.invert_yaxis()
    axes.yaxis.set_major_locator(FixedLocator(nines))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{1 - value:.10g}"))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _missing(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Relative errors, and what R² lacks to one."""
    return [error for error, _ in pairs], [1 - r2 for _, r2 in pairs]


def bars(cared: Mapping[str, Care]) -> Figure:
    """Errors of every family with tuned and with untuned settings: means, and every seed."""
    figure = Figure(figsize=(WIDTH, 1.6 + 0.95 * len(cared)), layout="constrained")
    axes = figure.subplots()
    longest = max(max(care.untuned.mean(), care.tuned.mean()) for care in cared.values())
    looks = (("untuned", -0.2, ORANGE, "//"), ("tuned", 0.2, BLUE, ""))
    for name, shift, colour, hatch in looks:
        rows = np.arange(len(cared)) + shift
        means = [float(np.mean(getattr(care, name))) for care in cared.values()]
        axes.barh(rows, means, 0.38, color=colour, hatch=hatch, edgecolor="white", label=name)
        for row, mean, care in zip(rows, means, cared.values(), strict=True):
            seeds = getattr(care, name)
            axes.plot(seeds, np.full(len(seeds), row), "|", color=BLACK, ms=9)
            end = max(mean, float(np.max(seeds)))
            axes.annotate(f"{mean:.2f}", (end, row), (6, 0), textcoords="offset points",
                          va="center")  # fmt: skip
            longest = max(longest, end)
    axes.set_yticks(range(len(cared)), [wrapped(family) for family in cared])
    axes.set(ylim=(len(cared) - 0.5, -0.5), xlim=(0, 1.15 * longest))
    axes.set_xlabel("relative force RMSE on the test trajectories (%)")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def shots(found: Estimated, levels: Mapping[str, float]) -> Figure:
    """Errors of forces against shots, with the line of slope -1/2, and what they compare with.

    Args:
        levels: words -> meV/Å, each a line across.
    """
    figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
    axes = figure.subplots()
    last = found.shots[-1]
    for error in (found.errors.min(), *levels.values()):
        last = max(last, 3 * found.needed(error)) if error > 0 else last
    line = np.geomspace(found.shots[0] / 1.5, last, 50)
    axes.plot(line, found.scale / np.sqrt(line), color=GREY, lw=1.5, label="1/√shots")
    axes.plot(found.shots, found.errors, "o", color=BLACK, ms=8, label="error by shots")
    for (words, level), (colour, style) in zip(
        levels.items(), ((BLUE, "--"), (RED, "-."), (ORANGE, ":")), strict=False
    ):
        axes.axhline(level, color=colour, ls=style, label=words)
    axes.set(xscale="log", yscale="log", xlabel="shots of each expectation value")
    axes.set(ylabel="force error (meV/Å)", xlim=(line[0], line[-1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    figure.legend(loc="outside lower center", ncols=2)
    return figure
