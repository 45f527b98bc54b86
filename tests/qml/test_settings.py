"""Tables of a configuration: frozen, told apart by their content, read strictly."""

import copy
import itertools
import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import ClassVar

import numpy as np
import pydantic
import pytest
from pydantic import Field

from qml import settings
from qml.errors import ConfigError
from qml.kinds import AerConfig, Budget, EstimatorConfig, Noise, ReferenceConfig
from qml.settings import EngineConfig, FixedDict, Table, looks_secret, refuse_unknown_keys, shown

MARKER = "s3cr3t-marker-value"


class Inner(Table):
    depth: int = Field(default=1, ge=0, description="an integer from 0")


class Outer(Table):
    tables: ClassVar = {"inner": Inner}
    paths: ClassVar = frozenset({"file"})

    inner: Inner | None = Field(default=None, description="a table, or left out")
    mode: str = Field(default="slow", pattern="^(slow|fast)$", description="'slow' or 'fast'")
    file: str | None = Field(default=None, description="a path, or left out")
    bare: int = 0


def refused(model, **values) -> str:
    """The message of the refusal, in which pydantic has no part."""
    with pytest.raises(ConfigError) as caught:
        model(**values)
    assert type(caught.value) is ConfigError
    before = caught.value.__context__
    while before is not None:
        assert not isinstance(before, pydantic.ValidationError)
        before = before.__context__
    return str(caught.value)


# --- what a table is


def test_a_configuration_cannot_be_changed():
    fixed = Outer(inner={"depth": 2})
    for key in ("mode", "other", "inner"):
        with pytest.raises(ConfigError, match=rf"'{key}' was to be set.*model_copy"):
            setattr(fixed, key, 3)
    with pytest.raises(ConfigError, match="'depth' was to be set"):
        fixed.inner.depth = 3
    assert fixed == Outer(inner={"depth": 2}) and fixed.inner.depth == 2


CHANGES = [
    lambda d: d.__setitem__("a", 2),
    lambda d: d.__delitem__("a"),
    lambda d: d.__ior__({"a": 2}),
    lambda d: d.clear(),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.setdefault("b", 2),
    lambda d: d.update(a=2),
]


@pytest.mark.parametrize("change", CHANGES)
def test_nor_can_a_dictionary_in_it(change):
    fixed = EstimatorConfig(factory="a:b", options={"a": 1})
    with pytest.raises(ConfigError, match=r"cannot be changed.*model_copy"):
        change(fixed.options)
    assert fixed.options == {"a": 1} and type(fixed.options) is FixedDict


def test_equality_and_hash_follow_the_content_not_the_way_it_was_written():
    one = AerConfig(shots=1000, seed=0, budget=Budget(jobs=3))
    other = AerConfig(**{"budget": {"jobs": 3}, "seed": 0, "shots": 1000, "device": "CPU"})
    assert one is not other and one == other and hash(one) == hash(other)
    assert {one: "found"}[other] == "found"
    assert one != AerConfig(shots=1001, budget={"jobs": 3})
    assert one != AerConfig(shots=1000, budget={"jobs": 4})
    assert AerConfig() != ReferenceConfig()
    assert one != "aer" and (one == 3) is False


def test_numbers_booleans_and_strings_in_options_are_not_confused():
    digests = {
        EstimatorConfig(factory="a:b", options={"x": x}).digest for x in (1, 1.0, True, "1", "true")
    }
    assert len(digests) == 5


DUPLICATES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "model_copy": lambda c: c.model_copy(),
    "pickle": lambda c: pickle.loads(pickle.dumps(c)),
    "of plain data": lambda c: type(c)(**c.model_dump(mode="json")),
}


@pytest.mark.parametrize("duplicate", DUPLICATES.values(), ids=DUPLICATES)
@pytest.mark.parametrize(
    "original",
    [
        AerConfig(shots=10, noise="FakeManilaV2"),
        AerConfig(noise={"readout": 0.1}, budget={"jobs": 3}),
        EstimatorConfig(factory="a:b", options={"x": 1.5, "y": True}, seed=4),
    ],
)
def test_copies_and_pickles_are_equal_and_as_fixed(duplicate, original):
    other = duplicate(original)
    assert other == original and hash(other) == hash(original)
    assert other.model_dump() == original.model_dump()
    with pytest.raises(ConfigError, match="cannot be changed"):
        other.seed = 3
    if isinstance(original, EstimatorConfig):
        with pytest.raises(ConfigError, match="cannot be changed"):
            other.options["x"] = 2


def test_a_changed_copy_is_checked_and_has_its_own_digest():
    exact = AerConfig(seed=5, budget={"jobs": 2})
    sampled = exact.model_copy(update={"shots": 10})
    assert sampled == AerConfig(seed=5, shots=10, budget={"jobs": 2}) != exact
    with pytest.raises(ConfigError, match="'shots' must be"):
        exact.model_copy(update={"shots": 0})
    with pytest.raises(ConfigError, match="no key 'shot'"):
        exact.model_copy(update={"shot": 1})


def test_the_digest_is_computed_once(monkeypatch):
    computed = []
    sha256 = settings.hashlib.sha256
    monkeypatch.setattr(settings.hashlib, "sha256", lambda c: computed.append(c) or sha256(c))
    one, other = AerConfig(), AerConfig(shots=3)
    assert len(computed) == 2
    for _ in range(3):
        assert one != other and hash(one) != hash(other) and one.digest != other.digest
    assert len(computed) == 2


def test_the_digest_is_the_same_in_another_process():
    script = (
        "from qml.kinds import AerConfig, EstimatorConfig\n"
        "print(AerConfig(shots=9, noise={'readout': 0.1}, budget={'jobs': 2}).digest)\n"
        "print(EstimatorConfig(options={'b': 1, 'a': 2}, factory='a:b').digest)"
    )
    root = str(Path(settings.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "7"}
    printed = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == [
        AerConfig(shots=9, noise={"readout": 0.1}, budget={"jobs": 2}).digest,
        EstimatorConfig(factory="a:b", options={"a": 2, "b": 1}).digest,
    ]


def test_a_budget_and_a_seed_are_part_of_the_identity():
    configs = [AerConfig(seed=1), AerConfig(), AerConfig(budget={"jobs": 1}), AerConfig(budget={})]
    assert len({config.digest for config in configs}) == 4


@pytest.mark.parametrize(
    ("keys", "spends", "draws"),
    [
        ({}, False, False),
        ({"shots": 1}, True, True),
        ({"gradient": "spsa"}, False, True),
        ({"gradient": "spsa", "shots": 5}, True, True),
        ({"gradient": "parameter_shift"}, False, False),
    ],
)
def test_shots_and_the_drawn_gradient_draw_and_shots_cost(keys, spends, draws):
    config = AerConfig(**keys)
    assert (config.spends_shots, config.draws) == (spends, draws)


def test_a_model_without_shots_spends_none():
    assert not ReferenceConfig().draws and not ReferenceConfig().spends_shots
    assert ReferenceConfig(gradient="spsa").draws


# --- what is read and how


def test_the_base_model_needs_a_kind():
    assert EngineConfig(kind="mine").seed == 0
    assert refused(EngineConfig) == "the key 'kind' is missing."


def test_a_table_in_a_table_is_read_like_the_outer_one():
    assert Outer(inner={"depth": 2}).inner == Inner(depth=2) == Outer(inner=Inner(depth=2)).inner
    assert "'inner': there is no key 'dept': did you mean 'depth'?" in refused(
        Outer, inner={"dept": 2}
    )
    assert refused(Outer, inner={"depth": -1}) == (
        "'inner': 'depth' must be an integer from 0, got -1 (int)."
    )
    assert "'inner': there is no key 3" in refused(Outer, inner={3: 1})
    assert refused(Outer, inner=3) == "'inner' must be a table, or left out, got 3 (int)."
    assert refused(Outer, inner=EngineConfig(kind="mine")) == (
        "'inner' must be a table, or left out, got a value of type EngineConfig."
    )


def test_a_field_that_nobody_described_is_refused_by_name():
    assert refused(Outer, bare="x") == "'bare' must be what its model allows, got 'x' (str)."


def test_several_wrong_values_are_named_together():
    assert refused(Outer, mode="quick", bare="x", inner=3).count(" must be ") == 3


@pytest.mark.parametrize("make", [np.int8, np.int64, np.uint32])
def test_an_integer_of_numpy_is_an_integer(make):
    assert AerConfig(shots=make(10)) == AerConfig(shots=10)
    assert type(AerConfig(shots=make(10)).shots) is int
    assert type(AerConfig(budget={"jobs": make(10)}).budget.jobs) is int


@pytest.mark.parametrize(
    "wrong", [np.float64(10), np.bool_(True), np.array(10), np.array([10]), np.array([1.5, 2])]
)
def test_what_else_numpy_has_is_not(wrong):
    assert "'shots' must be an integer" in refused(AerConfig, shots=wrong)


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf"), float("nan")])
def test_numbers_are_finite(wrong):
    assert "'readout' must be a probability" in refused(Noise, readout=wrong)
    assert "'options' must be" in refused(EstimatorConfig, factory="a:b", options={"x": wrong})


def test_a_path_is_made_absolute_from_the_working_directory(tmp_path, monkeypatch):
    assert Outer(file="a/../b.json").file == str(tmp_path / "b.json")
    assert Outer(file=str(tmp_path / "b.json")) == Outer(file="b.json")
    assert Outer(file="").file == ""  # no path; the model may refuse it
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "from which 'b.json' is taken, no longer exists" in refused(Outer, file="b.json")
    assert Outer(file="/b.json").file == "/b.json"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "'abc' (str)"),
        (True, "True (bool)"),
        (None, "None (NoneType)"),
        (1.5, "1.5 (float)"),
        (2**64, "a value of type int"),
        ([MARKER], "a value of type list"),
        ({"token": MARKER}, "a value of type dict"),
        (MARKER.encode(), "a value of type bytes"),
    ],
)
def test_a_message_shows_a_plain_value_and_of_others_their_type(value, text):
    assert shown(value) == text


def test_a_long_string_is_cut():
    assert len(shown("x" * 10**6)) < 50


# --- secrets

SECRET_KEYS = [
    *("token", "API_KEY", "apikey", "api-key", "password", "my-Passwd", "secret", "access_key"),
    *("client_secret", "pwd", "passphrase", "PRIVATE_KEY", "credentials", "Authorization"),
    *("bearer", "iqm_token", "accessToken"),
]


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_secret_is_refused_by_its_key_before_all_else_and_never_shown(key):
    for keys in ({key: MARKER}, {"shots": "wrong", "mode": 3, key: MARKER}):
        for values in (keys, {"inner": keys}):
            with pytest.raises(ConfigError, match=f"{key!r} looks like a secret.*token_env") as e:
                Outer(**values)
            assert MARKER not in "".join(traceback.format_exception(e.value)) + repr(e.value)


@pytest.mark.parametrize("key", ["token_env", "TOKEN_ENV", "secretEnv", "shots", "kind", "token"])
def test_the_name_of_a_variable_is_no_secret(key):
    assert looks_secret(key) == (key == "token")


def test_an_unknown_key_beside_a_secret_is_not_what_is_told():
    for keys in itertools.permutations(["a", "token", "b"]):
        with pytest.raises(ConfigError, match=r"^here: the key 'token' looks like a secret"):
            refuse_unknown_keys(keys, ["kind"], "here")
    refuse_unknown_keys(["kind"], ["kind"], "here")
    refuse_unknown_keys(["token"], ["token"], "here")  # a model may have such a key
