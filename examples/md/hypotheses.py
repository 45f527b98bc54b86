"""What PROTOCOL.md asks, and what the fits answer.

The two hypotheses compare the hybrid with the best classical family of equal size, one by force
errors and one by frequencies. Their p values are corrected after Holm (Scand. J. Stat. 6, 65
(1979)). The figures that are aimed at are read out of the protocol, and are written nowhere else.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from compare import HYBRID, Records, comparisons, of, quantity_of
from configuration import FOLDER
from families import FAMILIES
from problems import MDError
from significance import Comparison

PROTOCOL = FOLDER / "PROTOCOL.md"
QUANTITIES = "force RMSE", "frequencies"
"""As compare.py calls them."""


@dataclass(frozen=True)
class Targets:
    """What the protocol aims at, in percent.

    Attributes:
        accuracy: of the hybrid.
        reduction: of its error against the best classical model of equal size.
    """

    accuracy: float
    reduction: float


def targets(protocol: Path = PROTOCOL) -> Targets:
    """The targets in the text of a protocol.

    Raises:
        MDError: it does not say them.
    """
    text = protocol.read_text("utf-8")
    accuracy = re.search(r"accuracy\s+of\s+([\d.]+)\s+%", text)
    less = re.search(r"by\s+([\d.]+)\s+%\s+or\s+more", text)
    if not (accuracy and less):
        raise MDError(
            f"{protocol} must say 'an accuracy of ... %' and 'by ... % or more': these are the "
            "targets that are reported"
        )
    return Targets(float(accuracy[1]), float(less[1]))


def holm(p_values: Sequence[float]) -> list[float]:
    """p values that may be compared with one level of significance, in the same order.

    The k-th smallest of n is multiplied by n - k + 1, and none is below a smaller one.

    >>> holm([0.04, 0.01])
    [0.04, 0.02]
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    factors = np.arange(len(p), 0, -1)
    rising = np.maximum.accumulate(np.minimum(factors * p[order], 1.0))
    corrected = np.empty_like(p)
    corrected[order] = rising
    found: list[float] = corrected.tolist()
    return found


def paired(records: Records, frames: int, family: str) -> dict[str, Comparison]:
    """Quantity -> the hybrid against a family, on the seeds that both have."""
    seeds = {name: {one["seed"] for one in of(records, name, frames)} for name in (HYBRID, family)}
    both = set.intersection(*seeds.values())
    kept = [one for one in records if one["family"] in seeds and one["seed"] in both]
    if len(both) < 2:
        return {}
    return {quantity: one for (quantity, _), one in comparisons(kept, frames).items()}


def best_equal(records: Records, frames: int, quantity: str) -> str | None:
    """The classical family of equal size whose mean error over the seeds is lowest."""
    means = {}
    for family, about in FAMILIES.items():
        if about.role == "equal":
            values = [quantity_of(one, quantity) for one in of(records, family, frames)]
            if known := [value for value in values if value is not None]:
                means[family] = np.mean(known)
    return min(means, key=lambda family: means[family]) if means else None


@dataclass(frozen=True)
class Hypothesis:
    """A question of the protocol with its answer.

    Attributes:
        quantity: whose errors are compared.
        family: the best classical one of equal size.
        outcome: the hybrid against it.
        corrected: Wilcoxon's p, after Holm.
    """

    quantity: str
    family: str
    outcome: Comparison
    corrected: float


def hypotheses(records: Records, frames: int) -> list[Hypothesis]:
    """Those of the protocol that the records can answer."""
    found = []
    for quantity in QUANTITIES:
        family = best_equal(records, frames, quantity)
        if family and (outcome := paired(records, frames, family).get(quantity)):
            found.append((quantity, family, outcome))
    corrected = holm([outcome.wilcoxon for *_, outcome in found])
    return [Hypothesis(*one, p) for one, p in zip(found, corrected, strict=True)]
