"""The families of models that are compared on H3O+, and what is tuned of each.

Those of equal size have 101 to 107 weights. A family's settings, where the table of SPACES draws
them, are frozen in tuned.json before the comparison: see PROTOCOL.md.
"""

from dataclasses import dataclass
from typing import Any

from tuning import Between, OneOf, Space

SIZES = 101, 107
"""The least and the largest number of weights of a model of equal size."""


@dataclass(frozen=True)
class Family:
    """A kind of model.

    Attributes:
        title: how tables call it.
        role: hybrid, equal (a classical model of equal size), quantum, strong or ablation.
        model: the terms of its energy, before tuning.
        space: what is tuned.
    """

    title: str
    role: str
    model: dict[str, Any]
    space: Space


FITTED: Space = {
    "training.energy_weight": Between(0.02, 2.0, logarithmic=True),
    "training.decay": OneOf((0.0, 1e-10, 1e-9, 1e-8, 1e-7)),
}
"""Of every family that is fitted."""
TRAINED: Space = {
    **FITTED,
    "training.steps": OneOf((0, 300, 1000)),
    "training.rate": Between(2e-3, 5e-2, logarithmic=True),
}
"""Of every family whose weights the energy is not linear in."""


def _start(term: str, low: float, high: float) -> Space:
    return {f"model.{term}.spread": Between(low, high, logarithmic=True)}


def _widths(*choices: tuple[int, ...]) -> Space:
    return {"model.network.widths": OneOf(choices), **_start("network", 0.3, 3.0)}


def _layers(*choices: dict[str, Any]) -> Space:
    named = tuple({f"model.circuit.{k}": v for k, v in choice.items()} for choice in choices)
    return {"structure": OneOf(named), **_start("circuit", 0.03, 1.0)}


FAMILIES = {
    "hybrid": Family(
        "polynomial + circuit",
        "hybrid",
        {"polynomial": {"degree": 4}, "circuit": {"layers": 5}},
        TRAINED | _layers({"layers": 5}, {"layers": 3, "mixing": True}),
    ),
    "circuit": Family(
        "circuit",
        "quantum",
        {"circuit": {"layers": 10}},
        TRAINED | _layers({"layers": 10}, {"layers": 6, "mixing": True}),
    ),
    "polynomial": Family("polynomial", "equal", {"polynomial": {"degree": 5}}, FITTED),
    "network": Family(
        "network", "equal", {"network": {"widths": [8, 5]}}, TRAINED | _widths((13,), (8, 5))
    ),
    "delta": Family(
        "polynomial + network",
        "equal",
        {"polynomial": {"degree": 4}, "network": {"widths": [7]}},
        TRAINED | _widths((7,), (4, 4)),
    ),
    "large": Family(
        "network, five times larger",
        "strong",
        {"network": {"widths": [18, 20]}},
        TRAINED | _widths((66,), (18, 20)),
    ),
    "kernel": Family(
        "kernel on inverse distances",
        "strong",
        {"kernel": {}},
        {
            "model.kernel.width": Between(0.1, 10.0, logarithmic=True),
            "model.kernel.ridge": Between(1e-12, 1e-4, logarithmic=True),
            "model.kernel.form": OneOf(("gaussian", "matern")),
        },
    ),
    "unentangled": Family(
        "polynomial + circuit without entanglers",
        "ablation",
        {"polynomial": {"degree": 4}, "circuit": {"layers": 9, "entanglers": False}},
        TRAINED
        | _layers(
            {"layers": 9, "entanglers": False}, {"layers": 4, "mixing": True, "entanglers": False}
        ),
    ),
}
