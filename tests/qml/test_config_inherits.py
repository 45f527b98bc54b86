"""Tables that inherit from others, and the files that tables name."""

import json
from pathlib import Path

import pytest

from qml.config import backends, load, resolve
from qml.errors import ConfigError, UnknownNameError
from qml.kinds import KINDS, AerConfig, EstimatorConfig


def write(text: str) -> Path:
    Path("qml.toml").write_text(text)
    return Path("qml.toml").absolute()


# --- what inherits

HEIRS = """
[backends.loud]
inherits = "noisy"
shots = 10
[backends.loud.noise]
readout = 0.2
[backends.loud.budget]
shots = 100

[backends.noisy]
inherits = "lab"
noise = {readout = 0.1, depolarizing_1q = 0.01}

[backends.lab]
kind = "aer"
seed = 3
budget = {jobs = 5}
"""


def test_an_heir_has_all_keys_but_its_own_and_so_in_tables_key_by_key():
    write(HEIRS)
    noise = {"readout": 0.1, "depolarizing_1q": 0.01}
    assert resolve("lab") == AerConfig(seed=3, budget={"jobs": 5})
    assert resolve("noisy") == AerConfig(seed=3, budget={"jobs": 5}, noise=noise)
    assert resolve("loud") == AerConfig(
        seed=3,
        shots=10,
        budget={"jobs": 5, "shots": 100},
        noise={"readout": 0.2, "depolarizing_1q": 0.01},
    )


def test_a_table_of_python_inherits_from_the_file_too():
    write(HEIRS)
    assert resolve({"inherits": "lab"}) == resolve("lab")
    assert resolve({"inherits": "lab", "shots": 7}) == resolve("lab").model_copy(
        update={"shots": 7}
    )
    given = {"inherits": "loud", "noise": {"readout": 0.3}, "gradient": "spsa"}
    made = resolve(given)
    assert made.noise.model_dump(exclude_none=True) == {"readout": 0.3, "depolarizing_1q": 0.01}
    assert (made.gradient, made.shots, made.budget.jobs) == ("spsa", 10, 5)
    assert given == {"inherits": "loud", "noise": {"readout": 0.3}, "gradient": "spsa"}


def test_a_value_that_is_no_table_takes_the_place_of_one_and_the_other_way_round():
    write(HEIRS)
    assert resolve({"inherits": "noisy", "noise": "FakeManilaV2"}).noise == "FakeManilaV2"
    write(HEIRS.replace("{readout = 0.1, depolarizing_1q = 0.01}", '"FakeManilaV2"  #'))
    assert resolve("loud").noise.model_dump(exclude_none=True) == {"readout": 0.2}


def test_options_are_inherited_key_by_key():
    write(
        "[backends.a]\nkind = 'estimator'\nfactory = 'x:y'\noptions = {one = 1, two = 2}\n"
        "[backends.b]\ninherits = 'a'\n[backends.b.options]\ntwo = 3\nthree = true\n"
    )
    expected = {"one": 1, "two": 3, "three": True}
    assert resolve("b") == EstimatorConfig(factory="x:y", options=expected)
    assert resolve("a").options == {"one": 1, "two": 2}


def test_an_heir_may_be_of_another_kind_if_its_keys_fit():
    write("[backends.a]\nkind = 'aer'\nseed = 3\n[backends.b]\ninherits = 'a'\nkind = 'xla'")
    assert resolve("b") == KINDS["xla"](seed=3)
    write("[backends.a]\nkind = 'aer'\nshots = 3\n[backends.b]\ninherits = 'a'\nkind = 'xla'")
    with pytest.raises(ConfigError, match=r"\[backends.b\]: there is no key 'shots'"):
        resolve("b")


def test_an_heir_unsets_keys_and_those_of_tables_and_may_give_them_anew():
    write(HEIRS)
    loud = resolve("loud")
    assert resolve({"inherits": "loud", "unset": ["shots"]}) == loud.model_copy(
        update={"shots": None}
    )
    assert resolve({"inherits": "loud", "unset": ["seed", "noise"]}) == AerConfig(
        shots=10, budget={"jobs": 5, "shots": 100}
    )
    assert resolve({"inherits": "loud", "unset": ["budget.jobs"]}).budget.model_dump() == {
        "jobs": None,
        "shots": 100,
    }
    # What is unset first and then given does not merge.
    fresh = {"inherits": "loud", "unset": ["noise"], "noise": {"depolarizing_2q": 0.5}}
    assert resolve(fresh).noise.model_dump(exclude_none=True) == {"depolarizing_2q": 0.5}
    assert resolve({"inherits": "loud", "unset": []}) == loud
    assert resolve({"inherits": "loud", "unset": ["kind", "noise", "shots", "budget"],
                    "kind": "xla"}) == KINDS["xla"](seed=3)  # fmt: skip


def test_what_is_unset_stays_so_for_the_heirs_of_the_heir():
    write(
        HEIRS + '[backends.calm]\ninherits = "loud"\nunset = ["shots", "noise.readout"]\n'
        '[backends.still]\ninherits = "calm"\nunset = ["noise"]\n'
    )
    assert resolve("calm").shots is None
    assert resolve("calm").noise.model_dump(exclude_none=True) == {"depolarizing_1q": 0.01}
    assert resolve("still") == AerConfig(seed=3, budget={"jobs": 5, "shots": 100})
    assert resolve("loud").shots == 10


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({"unset": ["shot"]}, "unset = ['shot']: no such key is inherited: did you mean 'shots'?"),
        ({"unset": ["threads"]}, "unset = ['threads']: no such key is inherited: "),
        ({"unset": ["inherits"]}, "unset = ['inherits']: no such key is inherited"),
        ({"unset": ["shots", "shots"]}, "unset = ['shots']: no such key is inherited"),
        (
            {"unset": ["budget.job"]},
            "['budget.job']: no such key is inherited: did you mean 'j",
        ),
        ({"unset": ["shots.x"]}, "unset = ['shots.x']: the inherited 'shots' is no table. Unset"),
        ({"unset": "shots"}, "'unset' must be a list of inherited keys, as unset = ['shots'] or"),
        ({"unset": [3]}, "'unset' must be a list of inherited keys"),
        ({"unset": {"shots": True}}, "'unset' must be a list of inherited keys"),
        ({"unset": ["kind"]}, "the key 'kind' is missing"),
        ({"unsett": ["shots"]}, "no key 'unsett': did you mean 'unset'?"),
    ],
)
def test_what_is_unset_wrongly_is_refused_with_the_nearest(table, found):
    write(HEIRS)
    with pytest.raises(ConfigError) as caught:
        resolve({"inherits": "loud", **table})
    assert str(caught.value).startswith("backend: ") and found in str(caught.value)
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    if not isinstance(table.get("unset"), dict):
        path = write("\n".join([HEIRS, "[backends.heir]", "inherits = 'loud'", *lines]))
        with pytest.raises(ConfigError) as caught:
            resolve("heir")
        assert str(caught.value).startswith(f"{path}: [backends.heir]: ")
        assert found in str(caught.value)


def test_a_table_that_inherits_nothing_unsets_nothing():
    with pytest.raises(ConfigError, match="'unset' leaves out inherited keys.*Add inherits = 'NA"):
        resolve({"kind": "aer", "unset": ["shots"]})


@pytest.mark.parametrize(
    ("text", "error", "found"),
    [
        ("[backends.a]\ninherits='a'", ConfigError, "inherits = 'a': inherits = 'a' again"),
        (
            "[backends.a]\ninherits='b'\n[backends.b]\ninherits='c'\n[backends.c]\ninherits='a'",
            ConfigError,
            "[backends.a]: inherits = 'b': inherits = 'c': inherits = 'a': inherits = 'b' again, "
            "which has no end",
        ),
        (
            "[backends.a]\ninherits='b'\n[backends.b]\nkind='aer'\ninherits='b'",
            ConfigError,
            "[backends.a]: inherits = 'b': inherits = 'b' again, which has no end",
        ),
        (
            "[backends.a]\ninherits='lob'\n[backends.lab]\nkind='aer'",
            UnknownNameError,
            "[backends.a]: inherits = 'lob', which is no backend of qml.toml: did you mean 'lab'? "
            "Valid: 'a', 'lab'.",
        ),
        (
            "[backends.a]\ninherits='b'\n[backends.b]\ninherits='lob'\n[backends.lab]\nkind='aer'",
            UnknownNameError,
            "[backends.a]: inherits = 'b': inherits = 'lob', which is no backend",
        ),
        ("[backends.a]\ninherits='aer'", UnknownNameError, "inherits = 'aer', which is no backend"),
        (
            "[backends.a]\ninherits=3",
            ConfigError,
            "'inherits' must be the name of a backend",
        ),
        ("[backends.a]\ninherits=['b']", ConfigError, "'inherits' must be the name of a backend"),
        (
            "[backends]\nb=3\n[backends.a]\ninherits='b'",
            ConfigError,
            "[backends.b]: must be a table",
        ),
        (
            "[backends]\na={inherits='b'}\nb=3",
            ConfigError,
            "[backends.a]: inherits = 'b': must be a table of keys and values, got a value of type",
        ),
        (
            "[backends.a]\ninherit='b'\nkind='aer'",
            ConfigError,
            "[backends.a]: there is no key 'inherit': did you mean 'inherits'?",
        ),
        (
            "[backends.a]\nInherits='b'\nkind='aer'",
            ConfigError,
            "[backends.a]: there is no key 'Inherits': did you mean 'inherits'?",
        ),
        ("[backends.a]\ninherits='b'\n[backends.b]\nshots=3", ConfigError, "[backends.b]: the key"),
        (
            "[backends.a]\ninherits='b'\n[backends.b]\nkind='aer'\nshot=3",
            ConfigError,
            "[backends.b]: there is no key 'shot'",
        ),
        (
            "[backends.a]\ninherits='b'\nshot=3\n[backends.b]\nkind='aer'",
            ConfigError,
            "[backends.a]: there is no key 'shot'",
        ),
        (
            "[backends.a]\ninherits='b'\nnoise={readout=0.1, inherits='c'}\n"
            "[backends.b]\nkind='aer'",
            ConfigError,
            "[backends.a]: 'noise': there is no key 'inherits'",
        ),
        (
            "[backends.a]\ninherits='b'\nnoise={readout=2}\n[backends.b]\nkind='aer'",
            ConfigError,
            "[backends.a]: 'noise': 'readout' must be a probability",
        ),
    ],
)
def test_what_inherits_wrongly_is_refused_where_the_mistake_is(text, error, found):
    path = write(text)
    for ask in (lambda: load("qml.toml"), lambda: resolve("a"), backends):
        with pytest.raises(error) as caught:
            ask()
        assert str(caught.value).startswith(f"{path}: ")
        assert found in str(caught.value), str(caught.value)


def test_a_table_of_python_that_inherits_wrongly_is_refused():
    with pytest.raises(UnknownNameError, match="^backend: inherits = 'lab'.*Valid: none"):
        resolve({"inherits": "lab"})
    write(HEIRS)
    with pytest.raises(UnknownNameError, match="^backend: inherits = 'lap'.*mean 'lab'"):
        resolve({"inherits": "lap", "shots": 3})
    with pytest.raises(ConfigError, match="^backend: there is no key 'shot'"):
        resolve({"inherits": "lab", "shot": 3})


# --- files that a table names


def test_a_relative_path_in_a_file_is_taken_from_its_directory(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "deep").mkdir()
    (tmp_path / "models" / "a.json").write_text('{"a": 1}')
    write(
        "backend = 'a'\n[backends.a]\nkind = 'aer'\nnoise.file = 'models/a.json'\n"
        "[backends.b]\ninherits = 'a'\nseed = 3\n"
    )
    monkeypatch.chdir(tmp_path / "deep")
    expected = AerConfig(noise={"file": str(tmp_path / "models" / "a.json")})
    assert resolve() == expected
    assert resolve().noise.file == str(tmp_path / "models" / "a.json")
    assert resolve("b") == expected.model_copy(update={"seed": 3})
    assert resolve({"inherits": "a", "shots": 2}).noise == expected.noise


def test_in_a_table_of_python_it_is_taken_from_the_working_directory(tmp_path, monkeypatch):
    write("[backends.a]\nkind = 'aer'")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.json").write_text('{"a": 1}')
    monkeypatch.chdir(tmp_path / "deep")
    for table in ({"kind": "aer"}, {"inherits": "a"}):
        config = resolve({**table, "noise": {"file": "a.json"}})
        assert config.noise.file == str(tmp_path / "deep" / "a.json")
        monkeypatch.chdir(tmp_path)
        assert resolve(json.loads(json.dumps(config.model_dump(mode="json")))) == config
        monkeypatch.chdir(tmp_path / "deep")


def test_an_absolute_path_is_left_as_it_is(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.json").write_text("{}")
    path = elsewhere / "qml.toml"
    path.write_text(f"[backends.a]\nkind = 'aer'\nnoise.file = '{elsewhere / 'a.json'}'")
    assert load(path).backends["a"].noise.file == str(elsewhere / "a.json")


def test_a_file_that_has_changed_is_another_configuration(tmp_path):
    model = tmp_path / "a.json"
    model.write_text('{"a": 1}')
    write("[backends.a]\nkind = 'aer'\nnoise.file = 'a.json'")
    first = resolve("a")
    assert resolve("a") is first and load("qml.toml") is load("qml.toml")
    model.write_text('{"a": 22}')
    second = resolve("a")
    assert second != first and second.noise.content == '{"a": 22}'
    assert resolve("a") is second
    model.unlink()
    with pytest.raises(ConfigError) as caught:
        resolve("a")
    assert f"{tmp_path / 'qml.toml'}: [backends.a]: 'noise': {model}: cannot be read: No such" in (
        str(caught.value)
    )
    model.write_text('{"a": 1}')
    assert resolve("a") == first


@pytest.mark.parametrize("wrong", ["3", "''", "['a.json']", "true"])
def test_a_path_that_is_none_is_refused(wrong):
    write(f"[backends.a]\nkind = 'aer'\nnoise.file = {wrong}")
    with pytest.raises(ConfigError, match="'noise': 'file' must be the path of a JSON file"):
        resolve("a")
