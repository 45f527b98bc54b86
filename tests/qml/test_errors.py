"""The error tree: one root, each error also a builtin; names are suggested by likeness."""

import builtins
import random
import re
import string

import pytest
from hypothesis import given, strategies as st

import qml.errors
from qml.errors import QMLError, carried, in_bytes, looks_like_token, named, nearest

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


@pytest.mark.parametrize("kind", [QMLError, *DEFINED.values()])
def test_an_error_of_ours_is_found_in_the_text_of_another(kind):
    traceback = "INTERNAL: callback:\nTraceback (most recent call last):\n  File x, line 3, in y\n"
    for prefix in ("", "qml.errors."):
        for rest in ("", "\nKeyError: 'of another'"):
            error = RuntimeError(f"{traceback}{prefix}{kind.__name__}: what\nto do{rest}")
            found = carried(error)
            assert type(found) is kind and str(found) == "what\nto do"
    ours = kind("what to do")
    assert carried(ours) is ours


@pytest.mark.parametrize("text", ["", "no room", "KeyError: x", "a BudgetError: within a line"])
def test_in_other_texts_there_is_none(text):
    assert carried(ValueError(text)) is None


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


@given(st.integers(0, 2**32 - 1))
def test_what_is_drawn_at_random_looks_like_a_token_and_is_cut_short(seed):
    draw = random.Random(seed)
    signs = string.ascii_letters + string.digits + "-_"
    for alphabet, length in ((signs, 44), (signs, 32), ("0123456789abcdef", 128), (CAPITALS, 40)):
        token = "".join(draw.choices(alphabet, k=length))
        assert looks_like_token(token)
        assert named(token) == f"'{token[:4]}…' ({length} characters)"
    for prefix in ("Bearer:", "apikey="):
        assert looks_like_token(prefix + "".join(draw.choices(signs, k=44)))


CAPITALS = string.ascii_uppercase + string.digits
NAMES = [
    *("ibm_fez", "ibm_brisbane", "FakeManilaV2", "FakeSherbrooke", "matrix_product_state", ""),
    *("IBM_QUANTUM_TOKEN", "QISKIT_IBM_TOKEN", "THE_TOKEN_OF_OUR_PROJECT_IN_2026", "default.qubit"),
    *("qiskit.primitives:StatevectorEstimator", "package.module2:make_estimator_v2", "shots"),
    *("laboratory_of_nobody:make_an_estimator", "two words of a sentence that is long, 2026"),
    *(
        "ibm_quantum_platform",
        "my-own-backend-for-the-second-trial",
        "depolarizing_1q",
        "lab-gpu-2",
    ),
    *("/home/somebody/projects/qml/noise_models/manila.json", "crn:v1:bluemix:public"),
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_things_look_like_no_token_and_are_shown(name):
    assert not looks_like_token(name)
    assert named(name) == repr(name)


def test_what_is_no_text_or_has_no_end_is_shown_in_short():
    assert named(3) == "3" and named(None) == "None"
    assert len(named("a b " * 10**6)) < 40


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
