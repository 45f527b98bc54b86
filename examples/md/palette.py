"""Colours, marks and letters of the pictures, which a colour-blind reader can tell apart too.

Colours are those of Okabe and Ito (Color Universal Design, 2008); every family has a mark and a
line of its own beside its colour, so that a picture also works in grey.
"""

from typing import Any

from cycler import cycler
from families import FAMILIES

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, RED, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#767676"

STYLE: Any = {
    "font.size": 12,
    "axes.labelsize": 12,
    "legend.fontsize": 11,
    "axes.prop_cycle": cycler(color=[BLUE, ORANGE, BLACK, RED]),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}
"""What matplotlib is told."""

WIDTH = 7.5
"""Inches; letters of 12 points are then as large as the page's own."""

_MARKS = {
    "hybrid": (BLACK, "o", "-"),
    "circuit": (PURPLE, "s", ":"),
    "polynomial": (BLUE, "^", "--"),
    "network": (RED, "v", "--"),
    "delta": (ORANGE, "D", "--"),
    "large": (GREEN, "P", "-."),
    "kernel": (SKY, "X", "-."),
    "unentangled": (GREY, "<", ":"),
}


def colour(family: str) -> str:
    """The colour of a family."""
    return _MARKS[family][0]


def marks(family: str) -> dict[str, Any]:
    """Colour, mark and line of a family, as arguments of `plot`."""
    of = _MARKS[family]
    return {"color": of[0], "marker": of[1], "ls": of[2], "label": FAMILIES[family].title}
