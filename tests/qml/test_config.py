"""Configuration: what is accepted, what is refused and how, and which choice wins."""

import copy
import itertools
import os
import pickle
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path

import numpy as np
import pydantic
import pytest

from qml import config
from qml.config import AMBIENT, backends, discover, load, resolve
from qml.errors import ConfigError, QMLError, UnknownNameError
from qml.kinds import KINDS, AerConfig, ReferenceConfig, StatevectorConfig
from qml.settings import EngineConfig

# What the documentation promises: key -> (default, another valid value). Written out here on
# purpose: a key that is added, dropped or given another default must show up in this file.
COMMON = {"gradient": ("auto", "parameter_shift"), "seed": (0, 2**32 - 1)}
PROMISED = {
    "reference": COMMON,
    "aer": {
        **COMMON,
        "device": ("CPU", "GPU"),
        "fallback": (None, "CPU"),
        "method": (None, "matrix_product_state"),
        "shots": (None, 1),
        "precision": ("double", "single"),
        "noise": (None, "FakeManilaV2"),
        "threads": (None, 1),
    },
    "statevector": {**COMMON, "threads": (None, 1), "memory": (None, 0.5)},
    "xla": {**COMMON, "gradient": ("auto", "adjoint"), "memory": (None, 0.5)},
}
COMPANIONS = {"fallback": {"device": "GPU"}}  # keys without which another is refused
INTEGERS = {"seed", "shots", "threads"}
FLOATS = {"memory"}
KEYS = [(kind, key) for kind, keys in PROMISED.items() for key in ("kind", *keys)]
SECONDS = itertools.count(1)
MARKER = "s3cr3t-marker-value"


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def write(table: dict[str, object], name: str = "lab", path: str = "qml.toml") -> Path:
    lines = [f"[backends.{name}]", *(f"{key} = {toml(value)}" for key, value in table.items())]
    Path(path).write_text("\n".join(lines) + "\n")
    os.utime(path, (next(SECONDS),) * 2)  # two writes may fall into one tick of the file system
    return Path(path).absolute()


def by_mapping(table):
    return resolve(table)


def by_file(table):
    write(table)
    return resolve("lab")


def by_constructor(table):
    return KINDS[table["kind"]](**table)


DOORS = [by_mapping, by_file, by_constructor]
READERS = [by_mapping, by_file]  # the doors that look `kind` up; a constructor is not told its kind
CASES = [(*key, door) for key in KEYS for door in (READERS if key[1] == "kind" else DOORS)]


def refused(door, table, error=ConfigError) -> str:
    """The message of the refusal; pydantic is not in it, and the next valid call is right."""
    with pytest.raises(error) as caught:
        door(table)
    assert not isinstance(caught.value, pydantic.ValidationError)
    assert type(caught.value) is error
    assert caught.value.__context__ is None or caught.value.__suppress_context__
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
    return (dropped | doubled | replaced | swapped) - {word}


# --- the models


def test_the_kinds_and_their_keys_and_defaults_are_the_promised_ones():
    assert set(KINDS) == set(PROMISED)
    for kind, keys in PROMISED.items():
        defaults = {key: default for key, (default, _) in keys.items()}
        assert KINDS[kind]().model_dump() == {"kind": kind, **defaults}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("kind", "key"), [item for item in KEYS if item[1] != "kind"])
def test_every_key_is_accepted_changes_the_identity_and_nothing_else(kind, key, door):
    value = PROMISED[kind][key][1]
    companions = COMPANIONS.get(key, {})
    plain, changed = KINDS[kind](**companions), door({"kind": kind, key: value, **companions})
    assert changed.model_dump() == {**plain.model_dump(), key: value}
    assert changed != plain and changed.digest != plain.digest


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_cannot_be_changed(kind):
    fixed = KINDS[kind]()
    for key in ("seed", "other"):
        with pytest.raises(ConfigError, match=rf"'{key}' was to be set.*model_copy"):
            setattr(fixed, key, 3)
    assert fixed == KINDS[kind]() and fixed.seed == 0


def test_equality_and_hash_follow_the_content_not_the_way_it_was_written():
    one = AerConfig(shots=1000, seed=0)
    other = resolve({"seed": 0, "shots": 1000, "kind": "aer", "device": "CPU"})
    assert one is not other and one == other and hash(one) == hash(other)
    assert {one: "found"}[other] == "found"
    assert one != AerConfig(shots=1001)
    assert AerConfig() != ReferenceConfig()
    assert one != "aer" and (one == 3) is False


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda c: c.model_copy()])
def test_copies_and_pickles_are_equal(duplicate):
    original = AerConfig(shots=10, noise="FakeManilaV2")
    for other in (duplicate(original), pickle.loads(pickle.dumps(original))):
        assert other == original and hash(other) == hash(original)


def test_a_changed_copy_is_checked_and_has_its_own_digest():
    exact = AerConfig(seed=5)
    sampled = exact.model_copy(update={"shots": 10})
    assert sampled == AerConfig(seed=5, shots=10) != exact
    with pytest.raises(ConfigError, match="'shots' must be"):
        exact.model_copy(update={"shots": 0})


def test_the_digest_is_computed_once(monkeypatch):
    computed = []
    sha256 = config.hashlib.sha256
    monkeypatch.setattr(config.hashlib, "sha256", lambda c: computed.append(c) or sha256(c))
    one, other = AerConfig(), AerConfig(shots=3)
    assert len(computed) == 2
    for _ in range(3):
        assert one != other and hash(one) != hash(other) and one.digest != other.digest
    assert len(computed) == 2


def test_the_digest_is_the_same_in_another_process():
    script = "from qml.config import AerConfig; print(AerConfig(shots=9, noise='FakeX').digest)"
    root = str(Path(config.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "7"}
    printed = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == AerConfig(shots=9, noise="FakeX").digest


@pytest.mark.parametrize(
    ("keys", "method"),
    [
        ({}, "statevector"),
        ({"noise": "FakeManilaV2"}, "density_matrix"),
        ({"noise": "FakeManilaV2", "shots": 10}, "density_matrix"),
        ({"noise": "FakeManilaV2", "shots": 10, "method": "statevector"}, "statevector"),
        ({"noise": "FakeManilaV2", "method": "density_matrix"}, "density_matrix"),
        ({"method": "matrix_product_state"}, "matrix_product_state"),
    ],
)
def test_the_method_left_out_is_density_matrix_with_noise_and_statevector_without(keys, method):
    assert AerConfig(**keys).effective_method == method


# --- what is refused


@pytest.mark.parametrize(("kind", "key", "door"), CASES)
def test_a_key_misspelt_by_one_letter_is_refused_with_the_right_one(kind, key, door):
    for wrong in sorted(misspelt(key)):
        table = {wrong: kind} if key == "kind" else {"kind": kind, wrong: PROMISED[kind][key][1]}
        message = refused(door, table)
        assert f"no key {wrong!r}: did you mean {key!r}?" in message


@pytest.mark.parametrize(("kind", "key", "door"), CASES)
def test_a_key_in_the_wrong_case_is_refused_with_the_right_one(kind, key, door):
    for wrong in (key.upper(), key.capitalize()):
        table = {wrong: kind} if key == "kind" else {"kind": kind, wrong: PROMISED[kind][key][1]}
        assert f"no key {wrong!r}: did you mean {key!r}?" in refused(door, table)


@pytest.mark.parametrize(("kind", "key", "door"), CASES)
def test_a_value_of_the_wrong_type_is_refused(kind, key, door):
    number = "1000" if key in INTEGERS | FLOATS else 1000
    for wrong in (True, [1], {"of": 1}, number, *(() if key in FLOATS else (1.0,))):
        message = refused(door, {"kind": kind, key: wrong})
        assert f"{key!r} must be" in message and type(wrong).__name__ in message


@pytest.mark.parametrize(
    ("kind", "key"),
    [(k, key) for k, key in KEYS if key == "kind" or PROMISED[k][key][0] is not None],
)
def test_none_is_refused_where_a_key_has_no_such_meaning(kind, key):
    assert f"{key!r} must be" in refused(by_mapping, {"kind": kind, key: None})


CHOICES = {
    "gradient": ["auto", "parameter_shift"],
    "device": ["CPU", "GPU"],
    "fallback": ["CPU"],
    "method": ["statevector", "density_matrix", "matrix_product_state"],
    "precision": ["double", "single"],
    "gradient of statevector": ["auto", "adjoint", "parameter_shift"],
    "gradient of xla": ["auto", "adjoint"],
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("kind", "key"), [(k, key) for k, key in KEYS if key in CHOICES])
def test_a_choice_in_the_wrong_case_or_misspelt_is_refused_with_the_nearest(kind, key, door):
    choices = CHOICES.get(f"{key} of {kind}", CHOICES[key])
    for right in choices:
        for wrong in (right.swapcase(), right.capitalize(), right + "x", right[:-1]):
            message = refused(door, {"kind": kind, key: wrong})
            assert f"{key!r} must be" in message and f"got {wrong!r}" in message
            assert f"did you mean {right!r}?" in message
            assert all(repr(choice) in message for choice in choices)


@pytest.mark.parametrize("door", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_in_the_wrong_case_or_misspelt_is_refused_with_the_nearest(kind, door):
    for wrong in sorted(misspelt(kind) | {kind.upper(), kind.capitalize()}):
        message = refused(door, {"kind": wrong}, UnknownNameError)
        assert f"no kind {wrong!r}: did you mean {kind!r}?" in message
        assert all(repr(known) in message for known in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_refuses_another_kind(kind):
    with pytest.raises(ConfigError, match=f"'kind' must be '{kind}', got 'other'"):
        KINDS[kind](kind="other")


def test_the_base_model_needs_a_kind():
    assert EngineConfig(kind="mine").seed == 0
    with pytest.raises(ConfigError, match="'kind' is missing"):
        EngineConfig()


@pytest.mark.parametrize("door", READERS)
@pytest.mark.parametrize("table", [{}, {"shots": 1000}])
def test_a_table_without_a_kind_is_refused_with_the_kinds(table, door):
    message = refused(door, table)
    assert "'kind' is missing" in message
    assert "Valid: 'aer', 'reference', 'statevector', 'xla'" in message


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("shots", [0, -1, True, False, "1000", 1000.0, 2**31])
def test_shots_are_a_positive_integer_or_left_out_for_exact(shots, door):
    message = refused(door, {"kind": "aer", "shots": shots})
    assert "left out for exact expectation values" in message and repr(shots) in message


@pytest.mark.parametrize("key", sorted(INTEGERS))
def test_integers_out_of_range_are_refused_however_long_they_are(key):
    for wrong in (-1, 2**32, 10**30, 10**5000):
        assert f"{key!r} must be an integer from" in refused(
            by_mapping, {"kind": "aer", key: wrong}
        )


def test_several_wrong_values_are_named_together():
    message = refused(by_mapping, {"kind": "aer", "shots": 0, "seed": -1, "device": "gpu"})
    assert all(f"{key!r} must be" in message for key in ("shots", "seed", "device"))


@pytest.mark.parametrize("door", DOORS)
def test_a_fallback_without_a_gpu_to_fall_back_from_is_refused(door):
    message = refused(door, {"kind": "aer", "fallback": "CPU"})
    assert "'device' is 'CPU'" in message
    assert door({"kind": "aer", "device": "GPU", "fallback": "CPU"}).fallback == "CPU"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("method", ["statevector", "matrix_product_state"])
def test_exact_values_with_noise_are_refused_without_the_density_matrix(method, door):
    table = {"kind": "aer", "noise": "FakeManilaV2", "method": method}
    message = refused(door, table)
    assert "'FakeManilaV2'" in message and "'density_matrix'" in message and "'shots'" in message
    assert door({**table, "shots": 100}).method == method


def test_an_empty_name_of_a_fake_device_is_refused():
    assert "name of a fake device" in refused(by_mapping, {"kind": "aer", "noise": ""})


@pytest.mark.parametrize("table", [3, ["aer"], b"aer", object(), AerConfig])
def test_a_backend_of_another_type_is_refused(table):
    assert "name of a backend" in refused(by_mapping, table)


def test_a_key_that_is_no_string_is_refused():
    assert "no key 3:" in refused(by_mapping, {"kind": "aer", 3: 1})


# --- secrets

SECRET_KEYS = ["token", "API_KEY", "apikey", "password", "my-Passwd", "secret", "access_key"]


def everything_shown(error: BaseException) -> str:
    """What a traceback, a log or a debugger would show of `error` and of what led to it."""
    shown = "".join(traceback.format_exception(error)) + repr(error)
    before = error.__context__
    return shown if before is None else shown + everything_shown(before)


@pytest.mark.parametrize("key", SECRET_KEYS)
@pytest.mark.parametrize("kind", [*KINDS, "runtime"])
@pytest.mark.parametrize("door", READERS)
def test_a_secret_is_refused_before_all_else_and_never_shown(door, kind, key):
    with pytest.raises(ConfigError, match=f"{key!r} looks like a secret.*token_env") as caught:
        door({"kind": kind, "shots": "wrong too", key: MARKER})
    assert MARKER not in everything_shown(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f'token = "{MARKER}"',
        f'[ibm]\ntoken = "{MARKER}"',
        f'[backend]\ntoken = "{MARKER}"',
        f'backends = "{MARKER}"',
        f'[backends]\nlab = "{MARKER}"',
        f'[backends.lab]\nkind = "aer"\ntokn = "{MARKER}"',
        f'[backends.lab]\nkind = "aer"\nnoise = {{token = "{MARKER}"}}',
        f'[backends.lab]\nkind = "aer"\nshots = ["{MARKER}"]',
        f'[backends.lab]\nkind = "aer"\ntoken = "{MARKER}" "{MARKER}"',
        f'[backends.lab]\nkind = "aer"\ntoken = "{MARKER}',
        f'[backends.lab]\nkind = "aer"\ntoken = {MARKER}',
    ],
)
def test_no_value_that_may_be_a_secret_is_shown_wherever_it_stands_in_a_file(text):
    Path("qml.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load("qml.toml")
    assert MARKER not in str(caught.value) + repr(caught.value)


def test_the_name_of_an_environment_variable_is_no_secret():
    message = refused(by_mapping, {"kind": "aer", "token_env": "IBM_QUANTUM_TOKEN"})
    assert "no key 'token_env'" in message and "secret" not in message


@pytest.mark.parametrize(("kind", "key"), KEYS)
def test_no_key_of_ours_looks_like_a_secret(kind, key):
    value = kind if key == "kind" else PROMISED[kind][key][1]
    assert resolve({"kind": kind, key: value, **COMPANIONS.get(key, {})}).kind == kind


# --- the file


def test_the_nearest_file_at_or_above_the_working_directory_is_found(tmp_path, monkeypatch):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "a" / "qml.toml").touch()
    (tmp_path / "qml.toml").touch()
    (deep / "qml.toml").mkdir()  # a folder of that name is not a configuration
    assert discover(deep) == tmp_path / "a" / "qml.toml"
    assert discover(tmp_path) == tmp_path / "qml.toml"
    monkeypatch.chdir(deep)
    assert discover() == tmp_path / "a" / "qml.toml"
    (tmp_path / "a" / "qml.toml").unlink()
    assert discover() == discover("..") == tmp_path / "qml.toml"


def test_without_a_file_nothing_is_found():
    assert discover() is None
    assert backends() == {kind: kind for kind in KINDS}


def test_a_working_directory_that_is_gone_is_named(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="working directory.*no longer exists"):
        resolve()


FILE = """
backend = "lab"

[backends.lab]
kind = "aer"
shots = 1_000

[backends."quiet lab"]
kind = "reference"
seed = 3
"""


def test_a_file_holds_a_default_and_backends_by_name(tmp_path):
    Path("qml.toml").write_text(FILE)
    file = load("qml.toml")
    assert file.path == tmp_path / "qml.toml"
    assert file.backend == "lab"
    assert dict(file.backends) == {
        "lab": AerConfig(shots=1000),
        "quiet lab": ReferenceConfig(seed=3),
    }
    assert backends() == {
        "aer": "aer",
        "lab": "aer",
        "quiet lab": "reference",
        "reference": "reference",
        "statevector": "statevector",
        "xla": "xla",
    }


def test_an_empty_file_is_a_valid_one():
    Path("qml.toml").touch()
    file = load("qml.toml")
    assert file.backend is None and not file.backends
    assert resolve() == StatevectorConfig()


def test_a_loaded_file_cannot_be_changed():
    Path("qml.toml").write_text(FILE)
    with pytest.raises(TypeError):
        load("qml.toml").backends["lab"] = AerConfig()


@pytest.mark.parametrize(
    ("text", "error", "found"),
    [
        ("[backend]\nkind = 'aer'", ConfigError, ["'backend' must be the name", "dict"]),
        ("backend = 3", ConfigError, ["'backend' must be the name of a backend, got 3 (int)"]),
        ("backends = 3", ConfigError, ["'backends' must hold tables [backends.NAME]", "int"]),
        ("[[backends]]", ConfigError, ["'backends' must hold tables", "list"]),
        ("[backends]\nlab = 'aer'", ConfigError, ["[backends.lab]: must be a table", "str"]),
        ("[Backends.lab]", ConfigError, ["no key 'Backends'", "did you mean 'backends'?"]),
        ("[backnds.lab]", ConfigError, ["no key 'backnds'", "did you mean 'backends'?"]),
        ("[simulators]", ConfigError, ["no key 'simulators'", "Valid: 'backend', 'backends'"]),
        ("bakend = 'aer'", ConfigError, ["no key 'bakend'", "did you mean 'backend'?"]),
        ("backend = 'lib'\n[backends.lab]\nkind='aer'", UnknownNameError, ["mean 'lab'?", "'aer'"]),
        ("backend = 'Aer'", UnknownNameError, [": backend: there is no backend 'Aer'", "'aer'?"]),
        ("backend = ''", UnknownNameError, ["there is no backend ''"]),
        ("backend = 'a'\nbackend = 'b'\n", ConfigError, ["not valid TOML", "line 2"]),
        ("\n\n[backends.lab\n", ConfigError, ["not valid TOML", "line 3"]),
        ("[backends.lab]\nkind = aer", ConfigError, ["not valid TOML", "line 2"]),
        (f"[backends.lab]\nkind='aer'\nseed = {'9' * 5000}", ConfigError, ["not valid TOML"]),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_the_place_and_what_is_valid(text, error, found):
    Path("qml.toml").write_text(text)
    for ask in (lambda: load("qml.toml"), resolve, backends, lambda: resolve("aer")):
        with pytest.raises(error) as caught:
            ask()
        assert str(Path("qml.toml").absolute()) in str(caught.value)
        assert all(part in str(caught.value) for part in found), str(caught.value)
    Path("qml.toml").write_text(FILE)
    assert resolve() == AerConfig(shots=1000)


def test_a_mistake_in_a_backend_that_is_not_asked_for_is_refused_too():
    Path("qml.toml").write_text(FILE + "[backends.third]\nkind = 'aer'\nshot = 3\n")
    with pytest.raises(ConfigError, match=r"\[backends.third\]: there is no key 'shot'"):
        resolve("lab")


def test_a_file_that_is_missing_unreadable_or_not_text_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"absent.toml: cannot be read: No such file"):
        load("absent.toml")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=r"folder: cannot be read: Is a directory"):
        load("folder")
    (tmp_path / "latin.toml").write_bytes("backend = 'é'".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin.toml: is not valid TOML: .*position 11"):
        load("latin.toml")


def test_a_file_is_read_once_until_it_changes(monkeypatch):
    reads = []
    parse = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: reads.append(text) or parse(text))
    path = write({"kind": "aer", "shots": 1})
    assert [resolve("lab").shots for _ in range(5)] == [1] * 5
    assert load(path) is load("qml.toml")
    assert reads == [path.read_text()]

    before = os.stat(path)
    write({"kind": "aer", "shots": 2})  # of the same size, and later
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert [resolve("lab").shots for _ in range(5)] == [2] * 5
    assert len(reads) == 2

    write({"kind": "aer", "shots": 3}, path="new.toml")  # of the same size and time, another file
    os.utime("new.toml", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    os.replace("new.toml", path)
    assert [resolve("lab").shots for _ in range(5)] == [3] * 5
    assert len(reads) == 3


def test_a_file_that_was_wrong_is_read_again():
    write({"kind": "aer", "shots": 0})
    for _ in range(2):
        with pytest.raises(ConfigError):
            resolve("lab")
    write({"kind": "aer", "shots": 5})
    assert resolve("lab").shots == 5


# --- which choice wins


def test_the_built_in_default_is_the_statevector_engine():
    assert resolve() == resolve("statevector") == StatevectorConfig()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_a_name_for_itself_with_its_defaults(kind):
    assert resolve(kind) == resolve({"kind": kind}) == KINDS[kind]()


def test_a_configured_name_comes_before_a_kind_of_the_same_name():
    write({"kind": "aer", "shots": 12}, name="aer")
    assert resolve("aer") == AerConfig(shots=12)
    assert backends() == {kind: kind for kind in ("aer", "reference", "statevector", "xla")}


def test_a_configuration_stands_for_itself():
    given = AerConfig(shots=3)
    assert resolve(given) is given


def test_argument_then_block_then_environment_then_file_then_built_in(monkeypatch):
    Path("qml.toml").write_text("backend = 'f'\n[backends.f]\nkind = 'aer'\nseed = 1\n")
    monkeypatch.setenv("QML_BACKEND", "aer")
    monkeypatch.setattr(AMBIENT, "config", AerConfig(seed=3))
    assert resolve({"kind": "aer", "seed": 4}).seed == 4
    assert resolve().seed == 3
    monkeypatch.setattr(AMBIENT, "config", None)
    assert resolve() == AerConfig()
    monkeypatch.setenv("QML_BACKEND", "f")
    assert resolve().seed == 1
    monkeypatch.setenv("QML_BACKEND", "reference")
    assert resolve() == ReferenceConfig()
    monkeypatch.setenv("QML_BACKEND", "")
    assert resolve().seed == 1
    monkeypatch.delenv("QML_BACKEND")
    assert resolve().seed == 1
    Path("qml.toml").unlink()
    assert resolve() == StatevectorConfig()


def test_what_does_not_depend_on_the_file_does_not_fail_with_it(monkeypatch):
    Path("qml.toml").write_text("wrong")
    assert resolve({"kind": "aer"}) == resolve(AerConfig()) == AerConfig()
    monkeypatch.setattr(AMBIENT, "config", AerConfig(seed=3))
    assert resolve().seed == 3


def test_an_unknown_backend_in_the_environment_names_the_variable_and_the_nearest(monkeypatch):
    monkeypatch.setenv("QML_BACKEND", "are")
    with pytest.raises(UnknownNameError, match=r"^QML_BACKEND: .*'are' \(no qml.toml.*'aer'\?"):
        resolve()
    path = write({"kind": "aer"})
    monkeypatch.setenv("QML_BACKEND", "lab2")
    with pytest.raises(UnknownNameError, match=r"did you mean 'lab'\?") as caught:
        resolve()
    assert str(path) in str(caught.value)


def test_an_unknown_backend_in_the_argument_names_the_nearest():
    for wrong in sorted(misspelt("aer") | {"AER"}):
        with pytest.raises(UnknownNameError, match=rf"^backend: .*{wrong!r}.*mean 'aer'\?"):
            resolve(wrong)
    with pytest.raises(QMLError, match="Valid: 'aer', 'reference', 'statevector', 'xla'"):
        resolve("")


def test_a_file_of_an_editor_that_marks_utf8_is_read():
    Path("qml.toml").write_bytes(b"\xef\xbb\xbf" + b"backend = 'aer'\n")
    assert resolve() == AerConfig()


def test_an_integer_of_numpy_is_an_integer():
    assert AerConfig(shots=np.int64(10)) == AerConfig(shots=10)
    assert type(AerConfig(shots=np.int64(10)).shots) is int
