"""What the fits of compare.py say, in chapters of the report."""

from collections.abc import Callable, Mapping
from typing import Any

import comparison_figures as figures
import numpy as np
from compare import (
    FIRST_SEED,
    FRAMES,
    HYBRID,
    POLISH,
    SEEDS,
    Records,
    averages,
    of,
    plus_minus,
    quantity_of,
)
from evidence import TUNED, UNTUNED, Care, Curve, cared_for, curves
from families import FAMILIES
from hypotheses import QUANTITIES, Hypothesis, Targets, hypotheses, paired
from page import Chapter, Picture, Table, drawn
from significance import Comparison, percent, reduction
from words import counted, listed, lower_by, sentence

NO_FITS = (
    "There are no fits to tell of. Make them by python examples/md/compare.py, and give its "
    "--output here as --comparison."
)
UNENTANGLED = "unentangled"
ROLES = {
    "hybrid": "hybrid",
    "equal": "classical, equal size",
    "quantum": "quantum alone",
    "strong": "classical, larger",
    "ablation": "ablation",
}
HEADER = (
    "model", "kind", "seeds", "weights", "energy RMSE (meV)", "force RMSE (meV/Å)", "accuracy (%)",
    "R² of forces", "accuracy, far (%)", "frequencies, MAE (1/cm)", "seconds of fitting",
)  # fmt: skip

Parts = list[str | Table | Picture]


def title(family: str | None) -> str:
    """How a family is called."""
    return FAMILIES[family].title if family else "none"


def error_rows(records: Records, frames: int) -> list[tuple[str, ...]]:
    """A row for every family: mean ± standard deviation over the seeds."""
    return [
        (about.title, ROLES[about.role], str(len(found)), str(found[0]["parameters"]),
         *averages(found))
        for family, about in FAMILIES.items()
        if (found := of(records, family, frames))
    ]  # fmt: skip


def least(records: Records, frames: int, value: Callable[[dict[str, Any]], float | None]) -> str:
    """The family whose mean is lowest."""
    means = {}
    for family in FAMILIES:
        values = [value(one) for one in of(records, family, frames)]
        if known := [one for one in values if one is not None]:
            means[family] = float(np.mean(known))
    return min(means, key=lambda family: means[family])


def departure(records: Records, frames: int) -> list[str]:
    """Says so where these are not the fits that the protocol is about."""
    wanted = set(range(FIRST_SEED, FIRST_SEED + SEEDS))
    asked = [name for name, about in FAMILIES.items() if about.role in ("hybrid", "equal")]
    found = [of(records, family, frames) for family in asked]
    seeds = all({one["seed"] for one in some} == wanted for some in found)
    polish = all(one.get("polish") == POLISH for some in found for one in some)
    if frames == FRAMES and seeds and polish:
        return []
    return [
        f"These are not the fits that the protocol is about, of {FRAMES} frames, the seeds "
        f"{FIRST_SEED} to {FIRST_SEED + SEEDS - 1}, {POLISH} steps, and all of "
        f"{listed(map(title, asked))}: what is said here is no answer to it."
    ]


def headline(records: Records, frames: int | None, aims: Targets) -> Chapter:
    """The errors of all families."""
    name = "All models"
    if frames is None:
        return Chapter(name, (NO_FITS,))
    parts: Parts = [*departure(records, frames)]
    if ours := of(records, HYBRID, frames):
        accuracy = [one["test"]["accuracy"] for one in ours]
        reached = sum(one >= aims.accuracy for one in accuracy)
        mean = float(np.mean(accuracy))
        parts.append(
            f"Fitted to {frames} frames, {title(HYBRID)} has an accuracy of "
            f"{plus_minus(accuracy, 2)} % on the test trajectories, and R² = "
            f"{plus_minus([one['test']['force_r2'] for one in ours], 6)}, over "
            f"{counted(len(ours), 'seed')}. The protocol asks for {aims.accuracy:g} %: the mean "
            f"{'reaches' if mean >= aims.accuracy else 'does not reach'} it, and so do "
            f"{reached} of {counted(len(ours), 'seed')}."
        )
    forces = least(records, frames, lambda one: one["test"]["force_rmse"])
    far = least(records, frames, lambda one: one["far"]["force_rmse"])
    parts.append(
        f"The lowest mean force error is that of {title(forces)}; on far frames, that of "
        f"{title(far)}."
    )
    every = [one for family in FAMILIES for one in of(records, family, frames)]
    if lost := [one["name"] for one in every if one["frequency_mae"] is None]:
        parts.append(
            f"Of {counted(len(lost), 'fit')} there are no frequencies, because no minimum is "
            f"near the reference's: {listed(lost)}."
        )
    parts.append(
        Table(
            "Mean ± standard deviation over the seeds. Accuracy is 100 - relative force RMSE (%). "
            "Far frames are hotter than all training frames.",
            HEADER,
            tuple(error_rows(records, frames)),
        )
    )
    return Chapter(name, tuple(parts))


def answer(one: Hypothesis, aims: Targets) -> str:
    """A hypothesis in words."""
    found = one.outcome
    aimed = found.reduction >= aims.reduction / 100
    return (
        f"{sentence(one.quantity)}: against {title(one.family)}, the best classical model of "
        f"equal size, the error of the hybrid is {lower_by(found.reduction)} "
        f"({100 * found.confidence:.0f} % interval of the reduction: {percent(found.low)} to "
        f"{percent(found.high)}), better on {found.better} of {counted(found.seeds, 'seed')}; "
        f"Wilcoxon p = {found.wilcoxon:.2g}, after Holm {one.corrected:.2g}. The reduction of "
        f"{aims.reduction:g} % that the protocol aims at is {'' if aimed else 'not '}reached."
    )


def against(records: Records, frames: int | None, aims: Targets) -> Chapter:
    """The hybrid against every other family, seed by seed."""
    name = "Hybrid against the others"
    outcomes: dict[str, dict[str, Comparison]] = {quantity: {} for quantity in QUANTITIES}
    if frames is not None:
        for family in FAMILIES:
            if family != HYBRID:
                for quantity, one in paired(records, frames, family).items():
                    outcomes[quantity][family] = one
    outcomes = {quantity: found for quantity, found in outcomes.items() if found}
    if not outcomes or frames is None:
        words = f"Comparisons need two seeds of {title(HYBRID)} and of another model at least. "
        return Chapter(name, (words + NO_FITS,))
    asked = hypotheses(records, frames)
    corrected = {(one.quantity, one.family): one.corrected for one in asked}
    rows = [
        (
            title(family), quantity, percent(one.reduction),
            f"{percent(one.low)} to {percent(one.high)}", f"{one.better} of {one.seeds}",
            f"{one.wilcoxon:.2g}",
            f"{corrected[quantity, family]:.2g}" if (quantity, family) in corrected else "-",
        )
        for quantity, found in outcomes.items()
        for family, one in found.items()
    ]  # fmt: skip
    figure = figures.forest(outcomes, {one.quantity: one.family for one in asked}, aims.reduction)
    wins = [
        f"{title(family)} ({quantity})"
        for quantity, found in outcomes.items()
        for family, one in found.items()
        if one.low > 0
    ]
    alt = "Reductions of the error by the hybrid with their intervals, a row for every other model"
    said = (*departure(records, frames), *(answer(one, aims) for one in asked))
    if not asked:
        said = (
            *said,
            "The protocol's questions need a classical model of equal size.",
        )
    return Chapter(
        name,
        (
            *said,
            "The whole interval is above zero against "
            + (f"{listed(wins)}." if wins else "none of the models."),
            drawn(
                "against", figure, f"{alt}; {' '.join(said)}",
                "Diamonds: what the protocol asks. Right of the grey line the hybrid is better; "
                "the dashed line is what is aimed at. Even steps are even factors.",
            ),
            Table(
                "Reductions of the mean error, with intervals by the bootstrap over seeds (BCa) "
                "and two-sided Wilcoxon tests. Holm's correction is for the questions of the "
                "protocol; the other p values are not corrected.",
                ("model", "error", "reduction", "interval", "better on", "p", "p after Holm"),
                tuple(rows),
            ),
        ),
    )  # fmt: skip


def learning(records: Records) -> Chapter:
    """Errors against training frames."""
    name = "Learning curve"
    if not (found := curves(records)):
        return Chapter(
            name,
            ("There are no fits to several numbers of frames. Make them by python "
             "examples/md/compare.py --curve.",),
        )  # fmt: skip
    said = []
    if curve := found.get(HYBRID):
        power = np.polyfit(np.log(curve.frames), np.log(curve.errors.mean(axis=1)), 1)[0]
        said.append(
            f"From {curve.frames[0]} to {curve.frames[-1]} frames the relative force error of "
            f"{title(HYBRID)} goes from {curve.errors[0].mean():.2f} to "
            f"{curve.errors[-1].mean():.2f} %, about as frames to the power {power:.2f}."
        )
    sizes = sorted({int(size) for curve in found.values() for size in curve.frames})
    best = []
    for size in sizes:
        means = {
            family: curve.errors[list(curve.frames).index(size)].mean()
            for family, curve in found.items()
            if size in curve.frames
        }
        best.append(f"{size} frames, {title(min(means, key=lambda family: means[family]))}")
    said.append(f"The lowest mean errors: {'; '.join(best)}.")
    picture = drawn(
        "learning", figures.learning(found),
        "Relative force errors of all models against the number of training frames, both axes "
        f"logarithmic; {said[-1]}",
        "Means, and ranges of the seeds. Points stand a little beside each other.",
    )  # fmt: skip
    tables = (
        _by_size(found, sizes, "errors", "test trajectories"),
        _by_size(found, sizes, "far", "far frames"),
    )
    return Chapter(name, (*said, picture, *tables))


def _by_size(found: Mapping[str, Curve], sizes: list[int], part: str, where: str) -> Table:
    """A row for every family, a column for every number of training frames."""
    rows = []
    for family, curve in found.items():
        errors = dict(zip(curve.frames.tolist(), getattr(curve, part), strict=True))
        cells = [
            f"{errors[size].mean():.2f} ({errors[size].min():.2f} to {errors[size].max():.2f})"
            if size in errors
            else "-"
            for size in sizes
        ]
        rows.append((title(family), str(curve.errors.shape[1]), *cells))
    caption = (
        f"Relative force RMSE (%) on {where}: mean and range, over the seeds that every number of "
        "frames has."
    )
    header = ("model", "seeds", *(f"{size} frames" for size in sizes))
    return Table(caption, header, tuple(rows))


def definition(records: Records, aims: Targets) -> Chapter:
    """What a percentage of accuracy may mean."""
    share = 1 - aims.accuracy / 100
    said = (
        f"“{aims.accuracy:g} %” may mean an accuracy, that is a relative force error of "
        f"{100 * share:.1f} % and R² = {1 - share**2:.5f}; or it may mean R² = {1 - share:g}, that "
        f"is a relative force error of {100 * share**0.5:.1f} % and an accuracy of "
        f"{100 - 100 * share**0.5:.1f} %. Here it means the former, the stricter one."
    )
    if not records:
        return Chapter("Accuracy and its definition", (said, NO_FITS))
    both = [
        {
            family: pairs
            for family in FAMILIES
            if (pairs := [(one[part]["relative"], one[part]["force_r2"]) for one in records
                          if one["family"] == family])
        }
        for part in ("test", "far")
    ]  # fmt: skip
    pairs = [pair for of_part in both for of_family in of_part.values() for pair in of_family]
    off = max(abs(r2 - (1 - (error / 100) ** 2)) for error, r2 in pairs)
    strict = sum(one["test"]["accuracy"] >= aims.accuracy for one in records)
    lenient = sum(one["test"]["force_r2"] >= aims.accuracy / 100 for one in records)
    told = (
        f"Of all {counted(len(records), 'fit')}, {strict} reach {aims.accuracy:g} % by accuracy "
        f"on the test trajectories, and {lenient} by R². The formula is met by all of them to "
        f"{off:.1g} in R²."
    )
    picture = drawn(
        "definition", figures.definition(both[0], both[1], aims),
        f"R² of forces against the relative force error, with all fits on one curve. {told}",
        "Every fit: filled on the test trajectories, open on far frames. Stars: the two meanings.",
    )  # fmt: skip
    return Chapter("Accuracy and its definition", (said, told, picture))


def tuning(records: Records) -> Chapter:
    """What it does to a comparison if the baselines are not cared for."""
    name = "Tuned against untuned"
    if not (found := cared_for(records)):
        return Chapter(
            name,
            ("There are no fits with untuned settings. Make them by python "
             "examples/md/compare.py --curve.",),
        )  # fmt: skip
    said = [
        "Errors with untuned settings are, as multiples of those with tuned ones, "
        f"{listed(_times(found))}."
    ]
    equal = [family for family in found if FAMILIES[family].role == "equal"]
    if HYBRID in found and equal:
        ours = found[HYBRID].tuned
        fair, unfair = (
            min(equal, key=lambda family: np.mean(getattr(found[family], label)))
            for label in (TUNED, UNTUNED)
        )
        said.append(
            f"The tuned hybrid against the best of the tuned classical models of equal size here, "
            f"{title(fair)}: its error is {lower_by(reduction(ours, found[fair].tuned))}. The "
            f"same hybrid against the best of them without tuning, {title(unfair)}: "
            f"{lower_by(reduction(ours, found[unfair].untuned))}. The difference says nothing "
            "about the hybrid."
        )
    picture = drawn(
        "tuning", figures.bars(found),
        f"Relative force errors with tuned and untuned settings. {said[0]}",
        "Means; strokes are seeds. Untuned: Adam at one usual rate, without least squares.",
    )  # fmt: skip
    return Chapter(name, (*said, picture))


def _times(found: Mapping[str, Care]) -> list[str]:
    return [
        f"{np.mean(care.untuned) / np.mean(care.tuned):.1f} ({title(family)})"
        for family, care in found.items()
    ]


def entanglers(records: Records, frames: int | None) -> Parts:
    """The hybrid against the same without entanglers."""
    outcomes = {} if frames is None else paired(records, frames, UNENTANGLED)
    if frames is None or not outcomes:
        words = f"There are no two seeds of both {title(HYBRID)} and {title(UNENTANGLED)}. "
        return [words + NO_FITS]
    ours, theirs = (of(records, family, frames) for family in (HYBRID, UNENTANGLED))
    said = [
        f"{sentence(quantity)}: with entanglers the error is {lower_by(one.reduction)} "
        f"({percent(one.low)} to {percent(one.high)}), better on {one.better} of "
        f"{counted(one.seeds, 'seed')}, Wilcoxon p = {one.wilcoxon:.2g}, not corrected."
        for quantity, one in outcomes.items()
    ]
    rows = []
    for quantity, unit in zip(QUANTITIES, ("meV/Å", "1/cm"), strict=True):
        values = [[quantity_of(one, quantity) for one in some] for some in (ours, theirs)]
        known = [[value for value in some if value is not None] for some in values]
        rows.append((f"{quantity} ({unit})", *(plus_minus(some, 1) for some in known)))
    weights = (str(some[0]["parameters"]) for some in (ours, theirs))
    rows.append(("weights", *weights))
    header = ("", "with entanglers", "without")
    return [*said, Table("Mean ± standard deviation over the seeds.", header, tuple(rows))]
