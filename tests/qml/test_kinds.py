"""Every key of every kind, through every door: what is accepted, and what is refused and how."""

import itertools
import os
from pathlib import Path
from typing import Literal, get_args, get_origin

import pydantic
import pytest

from qml.config import resolve
from qml.errors import ConfigError, UnknownNameError
from qml.kinds import KINDS, AerConfig, Noise, kinds
from qml.settings import looks_secret

# What the documentation promises: key -> (default, another valid value). Written out here on
# purpose: a key that is added, dropped or given another default must show up in this file.
REQUIRED = object()
COMMON = {"gradient": ("auto", "parameter_shift"), "seed": (0, 2**32 - 1)}
SAMPLING = {
    **COMMON,
    "shots": (None, 1),
    "allocation": ("uniform", "weighted"),
    "budget": (None, {"jobs": 1, "shots": 2**63 - 1}),
}
JOBS = {
    **SAMPLING,
    "optimization_level": (2, 3),
    "max_rows": (None, 1),
    "retries": (3, 0),
    "journal": (None, True),
}
PROMISED = {
    "reference": COMMON,
    "statevector": {
        **COMMON,
        "threads": (None, 1),
        "memory": (None, 0.5),
        "reproducible": (False, True),
    },
    "xla": {**COMMON, "gradient": ("auto", "adjoint"), "memory": (None, 0.5)},
    "aer": {
        **SAMPLING,
        "device": ("CPU", "GPU"),
        "fallback": (None, "CPU"),
        "method": (None, "matrix_product_state"),
        "precision": ("double", "single"),
        "noise": (None, "FakeManilaV2"),
        "threads": (None, 1),
        "custatevec": (False, True),
        "batched_shots": (False, True),
    },
    "runtime": {
        **JOBS,
        "name": (None, "ibm_fez"),
        "fake": (None, "FakeManilaV2"),
        "shots": (4096, 1),
        "resilience_level": (1, 0),
        "mode": ("job", "session"),
        "token_env": (None, "IBM_QUANTUM_TOKEN"),
        "account": (None, "work"),
        "channel": (None, "ibm_cloud"),
        "instance": (None, "crn:v1:bluemix"),
    },
    "estimator": {**JOBS, "factory": (REQUIRED, "package.module:make"), "options": ({}, {"x": 1})},
    "pennylane": {
        **SAMPLING,
        "device": (REQUIRED, "default.qubit"),
        "options": ({}, {"name": "a", "number": 1, "real": 0.5, "flag": True}),
    },
}
# What a table of a kind needs besides the key in question.
FAKE, REAL = {"fake": "FakeFez"}, {"name": "ibm_brisbane"}
NEEDED = {"runtime": FAKE, "estimator": {"factory": "a:b"}, "pennylane": {"device": "other.qubit"}}
COMPANIONS = {
    ("aer", "fallback"): {"device": "GPU"},
    ("aer", "custatevec"): {"device": "GPU"},
    ("aer", "batched_shots"): {"device": "GPU"},
    **{("runtime", key): REAL for key in ("name", "token_env", "account", "channel", "instance")},
}
TABLES = {
    "budget": ("aer", {"jobs": (None, 1), "shots": (None, 1)}),
    "noise": (
        "aer",
        {
            "depolarizing_1q": (None, 0.5),
            "depolarizing_2q": (None, 1.0),
            "readout": (None, 0.0),
            "file": (None, "/noise.json"),
        },
    ),
}
GRADIENTS = {
    "reference": ["auto", "parameter_shift", "spsa"],
    "statevector": ["auto", "adjoint", "parameter_shift", "spsa"],
    "xla": ["auto", "adjoint"],
    "aer": ["auto", "parameter_shift", "spsa"],
    "runtime": ["auto", "parameter_shift", "spsa"],
    "estimator": ["auto", "parameter_shift", "spsa"],
    "pennylane": ["auto", "adjoint", "parameter_shift", "spsa"],
}
CHOICES = {
    "allocation": ["uniform", "weighted"],
    "device": ["CPU", "GPU"],
    "fallback": ["CPU"],
    "method": ["statevector", "density_matrix", "matrix_product_state"],
    "precision": ["double", "single"],
    "mode": ["job", "batch", "session"],
}
RANGES = {
    "seed": (0, 2**32 - 1),
    "shots": (1, 2**31 - 1),
    "threads": (1, 2**31 - 1),
    "max_rows": (1, 2**31 - 1),
    "retries": (0, 100),
    "optimization_level": (0, 3),
    "resilience_level": (0, 2),
    "budget.jobs": (1, 2**31 - 1),
    "budget.shots": (1, 2**63 - 1),
}
# A value of another type, for each type of the valid ones.
WRONG = {
    bool: [1, "true", [True], {"of": 1}, 1.0],
    int: [True, "1000", 1.0, [1], {"of": 1}],
    float: [True, "0.5", [0.5], {"of": 1}],
    str: [True, 1000, 1.0, ["CPU"], {"of": 1}],
    dict: [True, 1000, "x", [1]],
}
KEYS = [(kind, key) for kind, keys in PROMISED.items() for key in keys]
NESTED = [(table, key) for table, (_, keys) in TABLES.items() for key in keys]
SECONDS = itertools.count(1)


def table_of(kind, key, value=None) -> dict:
    """A valid table of a kind with a key that has its other valid value, or the given one."""
    needed = COMPANIONS.get((kind, key), NEEDED.get(kind, {}))
    value = PROMISED[kind][key][1] if value is None else value
    return {"kind": kind, **needed, key: value}


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def by_mapping(table):
    return resolve(table)


def by_file(table):
    lines = ["[backends.lab]", *(f"{key} = {toml(value)}" for key, value in table.items())]
    Path("qml.toml").write_text("\n".join(lines) + "\n")
    os.utime("qml.toml", (next(SECONDS),) * 2)  # two writes may fall into one tick of the clock
    return resolve("lab")


def by_constructor(table):
    return KINDS[table["kind"]](**table)


DOORS = [by_mapping, by_file, by_constructor]
READERS = [by_mapping, by_file]  # the doors that look `kind` up; a constructor is not told its kind
every_door = pytest.mark.parametrize("door", DOORS)
every_key = pytest.mark.parametrize(("kind", "key"), KEYS)
every_nested_key = pytest.mark.parametrize(("table", "key"), NESTED)


def refused(door, table, error=ConfigError) -> str:
    """The message of the refusal; pydantic is not in it, and the next valid call is right."""
    with pytest.raises(error) as caught:
        door(table)
    assert type(caught.value) is error
    before = caught.value.__context__
    while before is not None:
        assert not isinstance(before, pydantic.ValidationError)
        before = before.__context__
    assert door({"kind": "aer", "shots": 7}) == AerConfig(shots=7)
    message = str(caught.value)
    if door is by_file:
        assert str(Path("qml.toml").absolute()) in message and "[backends.lab]" in message
    return message


def misspelt(word: str) -> set[str]:
    """`word` with one letter dropped, doubled, replaced, or swapped with the next."""
    places = range(len(word))
    dropped = {word[:i] + word[i + 1 :] for i in places}
    doubled = {word[:i] + word[i] + word[i:] for i in places}
    replaced = {word[:i] + "x" + word[i + 1 :] for i in places}
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places[:-1]}
    return (dropped | doubled | replaced | swapped) - {word, ""}


# --- what there is


def test_the_kinds_and_their_keys_and_defaults_are_the_promised_ones():
    assert set(KINDS) == set(PROMISED) == set(GRADIENTS) == set(kinds())
    for kind, keys in PROMISED.items():
        fields = KINDS[kind].model_fields
        assert set(fields) == {"kind", *keys}
        assert fields["kind"].default == kind
        for key, (default, _) in keys.items():
            assert fields[key].is_required() == (default is REQUIRED)
            assert default is REQUIRED or fields[key].get_default(call_default_factory=True) == (
                default
            )
            assert fields[key].description
    for name, (kind, keys) in TABLES.items():
        fields = KINDS[kind].tables[name].model_fields
        assert {key: field.default for key, field in fields.items()} == {
            key: default for key, (default, _) in keys.items()
        }
        assert all(field.description for field in fields.values())


@every_door
@every_key
def test_every_key_is_accepted_changes_the_identity_and_nothing_else(kind, key, door):
    table = table_of(kind, key)
    plain = KINDS[kind](**COMPANIONS.get((kind, key), NEEDED.get(kind, {})))
    changed = door(table)
    assert changed.model_dump() == {**plain.model_dump(), key: table[key]}
    assert changed != plain and changed.digest != plain.digest


@pytest.mark.parametrize("name", TABLES)
def test_every_key_of_a_table_in_a_table_is_accepted_and_changes_the_identity(name, tmp_path):
    (tmp_path / "noise.json").write_text("{}")
    kind, keys = TABLES[name]
    found = set()
    for key, (_, value) in keys.items():
        value = str(tmp_path / "noise.json") if key == "file" else value
        configs = {door({"kind": kind, name: {key: value}}) for door in DOORS}
        (config,) = configs
        assert getattr(config, name).model_dump(exclude_none=True) == {key: value}
        found |= configs
    assert len(found) == len(keys)


# --- what is refused


@every_door
@every_key
def test_a_key_misspelt_by_one_letter_or_in_the_wrong_case_is_refused_with_the_right_one(
    kind, key, door
):
    rest = NEEDED.get(kind, {})
    for wrong in sorted(misspelt(key) | {key.upper(), key.capitalize()}):
        if wrong in PROMISED[kind]:
            continue
        message = refused(door, {"kind": kind, **rest, wrong: PROMISED[kind][key][1]})
        if looks_secret(wrong):  # as "token_ev"
            assert "takes the name of that variable, as token_env = 'NAME'" in message
        else:
            assert f"no key {wrong!r}: did you mean {key!r}?" in message


@pytest.mark.parametrize("door", READERS)
def test_so_is_the_key_kind(door):
    for wrong in sorted(misspelt("kind") | {"KIND", "Kind"}):
        message = refused(door, {wrong: "aer", "shots": 3})
        assert f"no key {wrong!r}: did you mean 'kind'?" in message


@every_door
@every_nested_key
def test_so_is_a_key_of_a_table_in_a_table(table, key, door):
    kind, keys = TABLES[table]
    for wrong in sorted(misspelt(key) | {key.upper(), key.capitalize()} - set(keys)):
        message = refused(door, {"kind": kind, table: {wrong: 1}})
        assert f"{table!r}: there is no key {wrong!r}: did you mean" in message
        # depolarizing_1q and _2q are one letter apart
        assert f"did you mean '{key[:-2]}" in message


@every_door
@every_key
def test_a_value_of_the_wrong_type_is_refused(kind, key, door):
    right = PROMISED[kind][key][1]
    for wrong in WRONG[type(right)]:
        message = refused(door, table_of(kind, key, wrong))
        if (key, wrong) == ("noise", {"of": 1}):
            assert "'noise': there is no key 'of'" in message
        else:
            assert f"{key!r} must be" in message and type(wrong).__name__ in message


@pytest.mark.parametrize("door", READERS)
def test_a_kind_that_is_no_string_is_refused(door):
    for wrong in (True, [1], {"of": 1}, 1000, 1.0):
        assert "'kind' must be a string" in refused(door, {"kind": wrong})


@every_door
@every_nested_key
def test_so_is_one_in_a_table_in_a_table(table, key, door):
    kind, keys = TABLES[table]
    for wrong in WRONG[type(keys[key][1])]:
        message = refused(door, {"kind": kind, table: {key: wrong}})
        assert f"{table!r}: {key!r} must be" in message and type(wrong).__name__ in message


@every_door
@pytest.mark.parametrize("kind", ["estimator", "pennylane"])
def test_options_hold_strings_numbers_and_booleans(kind, door):
    for wrong in ([1], {"deep": 1}):
        message = refused(door, table_of(kind, "options", {"x": wrong}))
        assert "'options' must be a table of strings, numbers and booleans" in message


@every_key
def test_none_is_refused_where_a_key_has_no_such_meaning(kind, key):
    table = {**NEEDED.get(kind, {}), "kind": kind, key: None}
    if PROMISED[kind][key][0] is None and (kind, key) != ("runtime", "fake"):
        assert getattr(KINDS[kind](**table), key) is None
    elif key != "fake":
        assert f"{key!r} must be" in refused(by_mapping, table)


@every_door
@pytest.mark.parametrize("kind", NEEDED)
def test_a_kind_that_needs_a_key_says_so(kind, door):
    message = refused(door, {"kind": kind})
    assert all(key in message for key in NEEDED[kind])


@every_door
@pytest.mark.parametrize(
    ("kind", "key"), [(k, key) for k, key in KEYS if key in CHOICES and k != "pennylane"]
)
def test_a_choice_in_the_wrong_case_or_misspelt_is_refused_with_the_nearest(kind, key, door):
    for right in CHOICES[key]:
        for wrong in (right.swapcase(), right.capitalize(), right + "x", right[:-1]):
            if wrong in CHOICES[key]:
                continue
            message = refused(door, table_of(kind, key, wrong))
            assert f"{key!r} must be" in message and f"got {wrong!r}" in message
            assert f"did you mean {right!r}?" in message
            assert all(repr(choice) in message for choice in CHOICES[key])


def enumerated(kind):
    """(key, its choices) of every key of a kind that allows some texts only."""
    for key, field in KINDS[kind].model_fields.items():
        literals = [field.annotation, *get_args(field.annotation)]
        texts = [t for one in literals if get_origin(one) is Literal for t in get_args(one)]
        if key != "kind" and any(isinstance(text, str) for text in texts):
            yield key, texts


OPTIONS = [(kind, *option) for kind in KINDS for option in enumerated(kind)]


def test_the_enumerated_keys_of_all_kinds_are_found():
    expected = {(kind, "gradient") for kind in KINDS}
    expected |= {(k, key) for k, key in KEYS if key in CHOICES} - {("pennylane", "device")}
    assert {(kind, key) for kind, key, _ in OPTIONS} == expected


@every_door
@pytest.mark.parametrize(("kind", "key", "texts"), OPTIONS)
def test_every_enumerated_key_names_the_nearest_choice_however_it_is_misspelt(
    kind, key, texts, door
):
    foreign = {text for _, other, all_ in OPTIONS if other == key for text in all_} - {*texts}
    for right in texts:
        # "PCU" is as near to "GPU" as to "CPU".
        alike = [text for text in texts if text[1:] == right[1:]]
        for wrong in (misspelt(right) | {right.title(), f"{right}s"}) - {*texts}:
            message = refused(door, table_of(kind, key, wrong))
            assert any(f"did you mean {text!r}?" in message for text in alike), message
    # Also what is far from all, as a choice of another kind, misspelt or not.
    for wrong in sorted({"adjiont", "psr", "x", "not-at-all", *foreign} - {*texts}):
        message = refused(door, table_of(kind, key, wrong))
        assert any(f"did you mean {text!r}?" in message for text in texts), message
        assert all(repr(text) in message.split("Valid: ")[1] for text in texts)


@every_door
@pytest.mark.parametrize("kind", GRADIENTS)
def test_a_gradient_that_a_kind_does_not_have_is_refused_with_the_list_of_what_works(kind, door):
    works = GRADIENTS[kind]
    asked = {"auto", "adjoint", "parameter_shift", "spsa", "backprop", "", "Auto", "adjiont"}
    for gradient in sorted(asked):
        table = table_of(kind, "gradient", gradient)
        if gradient in works:
            assert door(table).gradient == gradient
            continue
        message = refused(door, table)
        assert f"'gradient' must be {works[0]!r}" in message and f"got {gradient!r}" in message
        listed = message.split("Valid: ")[1].rstrip(".").split(", ")
        assert sorted(listed) == sorted(map(repr, works))


@pytest.mark.parametrize("kind", GRADIENTS)
def test_a_copy_with_another_gradient_is_refused_alike(kind):
    config = KINDS[kind](**NEEDED.get(kind, {}))
    for gradient in ("auto", "adjoint", "parameter_shift", "spsa"):
        if gradient in GRADIENTS[kind]:
            assert config.model_copy(update={"gradient": gradient}).gradient == gradient
        else:
            with pytest.raises(ConfigError, match=f"'gradient' must be .*got {gradient!r}"):
                config.model_copy(update={"gradient": gradient})


@every_door
def test_derivatives_of_exact_states_are_not_had_from_shots(door):
    table = {"kind": "pennylane", "device": "default.qubit", "gradient": "adjoint", "shots": 10}
    message = refused(door, table)
    assert "'shots' is 10" in message
    assert all(repr(works) in message for works in ("auto", "parameter_shift", "spsa"))
    assert door({**table, "gradient": "auto"}).shots == 10
    assert door({key: value for key, value in table.items() if key != "shots"}).shots is None


@pytest.mark.parametrize("door", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_in_the_wrong_case_or_misspelt_is_refused_with_the_nearest(kind, door):
    for wrong in sorted(misspelt(kind) | {kind.upper(), kind.capitalize()}):
        for keys in ({}, {"of_that_kind": 1}):
            message = refused(door, {"kind": wrong, **keys}, UnknownNameError)
            assert f"no kind {wrong!r}: did you mean {kind!r}?" in message
            assert all(repr(known) in message for known in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_refuses_another_kind(kind):
    with pytest.raises(ConfigError, match=f"'kind' must be '{kind}', got 'other'"):
        KINDS[kind](**NEEDED.get(kind, {}), kind="other")


@pytest.mark.parametrize("door", READERS)
@pytest.mark.parametrize("table", [{}, {"shots": 1000}, {"token_env": "A"}])
def test_a_table_without_a_kind_is_refused_with_the_kinds(table, door):
    message = refused(door, table)
    assert "'kind' is missing" in message
    assert f"Valid: {', '.join(map(repr, sorted(KINDS)))}." in message


@every_door
@pytest.mark.parametrize("shots", [0, -1, True, False, "1000", 1000.0, 2**31])
def test_shots_are_a_positive_integer_or_left_out_for_exact(shots, door):
    message = refused(door, {"kind": "aer", "shots": shots})
    assert "left out for exact expectation values" in message and repr(shots) in message


@pytest.mark.parametrize("place", RANGES)
def test_integers_are_taken_from_end_to_end_of_their_range_and_not_beyond(place):
    least, most = RANGES[place]
    *tables, key = place.split(".")
    for kind in PROMISED:
        if (tables or [key])[0] not in PROMISED[kind]:
            continue

        def made(value, kind=kind):
            value = {key: value} if tables else value
            return KINDS[kind](**table_of(kind, (tables or [key])[0], value))

        for value in (least, most):
            config = made(value)
            assert getattr(getattr(config, tables[0]) if tables else config, key) == value
        for value in (least - 1, most + 1, -1, 10**30, 10**5000):
            with pytest.raises(ConfigError, match=rf"{key!r} must be (an integer from )?{least}"):
                made(value)


@pytest.mark.parametrize("key", ["depolarizing_1q", "depolarizing_2q", "readout"])
def test_a_probability_is_from_0_to_1(key):
    for value in (0, 0.0, 1, 1.0, 0.25):
        assert getattr(Noise(**{key: value}), key) == value
    for wrong in (-0.1, 1.1, 2, -1):
        with pytest.raises(ConfigError, match=f"{key!r} must be a probability"):
            Noise(**{key: wrong})


@pytest.mark.parametrize("kind", ["statevector", "xla"])
def test_memory_is_a_positive_number_of_gib(kind):
    assert KINDS[kind](memory=1).memory == 1.0
    for wrong in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match="'memory' must be a number of GiB above 0"):
            KINDS[kind](memory=wrong)


@pytest.mark.parametrize(
    "key", ["name", "fake", "account", "channel", "instance", "factory", "device", "noise"]
)
def test_an_empty_name_is_refused(key):
    for kind, keys in PROMISED.items():
        if key in keys and key not in CHOICES | ({"device": 1} if kind == "aer" else {}):
            assert f"{key!r} must be" in refused(by_mapping, table_of(kind, key, "") | {key: ""})


@pytest.mark.parametrize(
    "factory", ["make", "a.b", ":make", "a:", "a:b:c", "a b:c", "a:b()", "a:b.c", "1:b", "a/b:c"]
)
def test_a_factory_is_a_module_and_a_function(factory):
    with pytest.raises(ConfigError, match=r"'factory' must be 'module:function', got '"):
        KINDS["estimator"](factory=factory)
