"""The error tree: one root, each error also a builtin; names are suggested by likeness."""

import builtins
import re

import pytest

import qml.errors
from qml.errors import QMLError, in_bytes, nearest

DRAWN = dict(re.findall(r"── (\w+) \((\w+)\)", qml.errors.__doc__ or ""))
# Below EngineError, and by it a builtin.
BRANCH = re.findall(r"│   [├└]── (\w+)", qml.errors.__doc__ or "")
DEFINED = {
    name: value
    for name, value in vars(qml.errors).items()
    if isinstance(value, type) and issubclass(value, BaseException) and value is not QMLError
}


def test_the_tree_drawn_in_the_docstring_is_the_tree_there_is():
    assert list(DRAWN) == list(DEFINED)
    assert "ConfigError" in DRAWN and "EngineError" in DRAWN
    assert BRANCH == ["JobError", "BudgetError"]


@pytest.mark.parametrize("name", DEFINED)
def test_every_error_is_ours_and_the_builtin_drawn_beside_it_and_is_caught_as_either(name):
    error, builtin = DEFINED[name], getattr(builtins, DRAWN[name])
    bases = (qml.errors.EngineError,) if name in BRANCH else (QMLError, builtin)
    assert error.__bases__ == bases
    assert error.__doc__
    for caught in (QMLError, builtin):
        with pytest.raises(caught, match=r"^what to do$"):
            raise error("what to do")


def test_no_error_shadows_a_builtin():
    assert not set(DEFINED) & set(vars(builtins))


@pytest.mark.parametrize(
    ("name", "valid", "clause"),
    [
        ("shot", ["shots", "seed"], "did you mean 'shots'? Valid: 'seed', 'shots'."),
        ("SHOTS", ["shots", "seed"], "did you mean 'shots'? Valid: 'seed', 'shots'."),
        ("gpu", ["GPU", "CPU"], "did you mean 'GPU'? Valid: 'CPU', 'GPU'."),
        ("fakemanilav2", ["FakeManilaV2"], "did you mean 'FakeManilaV2'? Valid: 'FakeManilaV2'."),
        ("zzz", ["shots", "seed"], "Valid: 'seed', 'shots'."),
        ("", ["shots"], "Valid: 'shots'."),
        ("shots", [], "Valid: none."),
        ("shot", iter(["shots"]), "did you mean 'shots'? Valid: 'shots'."),
    ],
)
def test_nearest_names_the_most_alike_first_and_then_all_in_order(name, valid, clause):
    assert nearest(name, valid) == clause


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (2**20, "1.0 MiB"),
        (3 * 2**30, "3.0 GiB"),
        (5 * 2**40, "5.0 TiB"),
        (2.0**105, "3.6e+16 PiB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_suits_them(count, text):
    assert in_bytes(count) == text
