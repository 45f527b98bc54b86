"""Keys that are each valid, but not together; and files of noise."""

from pathlib import Path

import pytest

from qml.config import resolve
from qml.errors import ConfigError
from qml.kinds import KINDS, AerConfig, Noise, RuntimeConfig

DOORS = [resolve, lambda table: KINDS[table["kind"]](**table)]
every_door = pytest.mark.parametrize("door", DOORS, ids=["table", "constructor"])
NEEDED = {"estimator": {"factory": "a:b"}, "pennylane": {"device": "other.qubit"}}


def refused(door, table) -> str:
    with pytest.raises(ConfigError) as caught:
        door(table)
    return str(caught.value)


# --- keys that go together, or not


@every_door
@pytest.mark.parametrize(
    ("key", "value"), [("fallback", "CPU"), ("custatevec", True), ("batched_shots", True)]
)
def test_a_key_of_gpus_is_refused_without_one(key, value, door):
    message = refused(door, {"kind": "aer", key: value})
    assert "'device' is 'CPU'" in message and repr(key) in message
    assert getattr(door({"kind": "aer", "device": "GPU", key: value}), key) == value


@every_door
@pytest.mark.parametrize("method", ["statevector", "matrix_product_state"])
@pytest.mark.parametrize("noise", ["FakeManilaV2", {"readout": 0.1}])
def test_exact_values_with_noise_are_refused_without_the_density_matrix(method, noise, door):
    table = {"kind": "aer", "noise": noise, "method": method}
    message = refused(door, table)
    assert "'noise'" in message and "'density_matrix'" in message and "'shots'" in message
    assert method in message
    assert door({**table, "shots": 100}).method == method


@pytest.mark.parametrize(
    ("keys", "method"),
    [
        ({}, "statevector"),
        ({"noise": "FakeManilaV2"}, "density_matrix"),
        ({"noise": {"readout": 0.1}}, "density_matrix"),
        ({"noise": "FakeManilaV2", "shots": 10}, "density_matrix"),
        ({"noise": "FakeManilaV2", "shots": 10, "method": "statevector"}, "statevector"),
        ({"noise": "FakeManilaV2", "method": "density_matrix"}, "density_matrix"),
        ({"method": "matrix_product_state"}, "matrix_product_state"),
    ],
)
def test_the_method_left_out_is_density_matrix_with_noise_and_statevector_without(keys, method):
    assert AerConfig(**keys).effective_method == method


@every_door
def test_noise_is_a_file_or_parameters_and_not_both_or_neither(door):
    Path("noise.json").write_text("{}")
    for wrong in ({}, {"file": "noise.json", "readout": 0.1}):
        message = refused(door, {"kind": "aer", "noise": wrong})
        assert "either a 'file', or at least one of" in message and "'noise': " in message


@every_door
def test_a_machine_is_real_or_fake(door):
    for wrong in ({}, {"name": "ibm_fez", "fake": "FakeFez"}):
        message = refused(door, {"kind": "runtime", **wrong})
        assert "'name'" in message and "'fake'" in message
    for key, right in [("token_env", "A"), ("account", "b"), ("channel", "c"), ("instance", "d")]:
        message = refused(door, {"kind": "runtime", "fake": "FakeFez", key: right})
        assert f"{key!r} is of a real machine" in message
    both = {"kind": "runtime", "name": "ibm_fez", "token_env": "A", "account": "b"}
    assert "'token_env' and 'account'" in refused(door, both)


@pytest.mark.parametrize(
    "wrong", ["lower", "With_Lower", "A-B", "A B", "1A", "A" * 65, "a" * 128, "", "Ä", "A\n"]
)
def test_the_name_of_a_variable_is_in_capitals_and_else_never_shown(wrong):
    with pytest.raises(ConfigError, match="in capitals, of an environment variable") as caught:
        RuntimeConfig(name="ibm_fez", token_env=wrong)
    assert "got a value of type str" in str(caught.value)


@pytest.mark.parametrize("kind", ["estimator", "pennylane"])
def test_an_option_that_names_a_variable_is_such_a_name_and_a_secret_is_refused(kind):
    def made(**options):
        return KINDS[kind](**NEEDED[kind], options=options)

    assert made(token_env="MY_TOKEN", shots_env="x").options["token_env"] == "MY_TOKEN"
    for wrong in ("s3cr3t", "Some-Token", 3, True):
        for key in ("token_env", "API_KEY_ENV", "passwordEnv"):
            with pytest.raises(ConfigError, match=f"{key!r} must be the name, in capitals") as e:
                made(**{key: wrong})
            assert repr(wrong) not in str(e.value)
    for key in ("token", "api_key", "Password"):
        with pytest.raises(ConfigError, match=f"'options': the key {key!r} looks like a secret"):
            made(**{"bad": [1], key: "s3cr3t"})


@pytest.mark.parametrize(
    ("config", "journals"),
    [
        ({"kind": "runtime", "name": "ibm_fez"}, True),
        ({"kind": "runtime", "name": "ibm_fez", "journal": False}, False),
        ({"kind": "runtime", "fake": "FakeFez"}, False),
        ({"kind": "runtime", "fake": "FakeFez", "journal": True}, True),
        ({"kind": "estimator", "factory": "a:b"}, False),
        ({"kind": "estimator", "factory": "a:b", "journal": True}, True),
    ],
)
def test_jobs_are_journalled_on_a_real_service_unless_told_otherwise(config, journals):
    assert resolve(config).journals is journals


# --- a noise model in a file


def test_the_content_of_a_file_of_noise_is_what_counts_and_not_its_path(tmp_path):
    one, other = tmp_path / "one.json", tmp_path / "deep" / "other.json"
    other.parent.mkdir()
    one.write_text('{"errors": [1]}')
    other.write_text('{"errors": [1]}')
    first, second = (AerConfig(noise={"file": str(path)}) for path in (one, other))
    assert first.noise.content == '{"errors": [1]}' and Noise(readout=0.1).content is None
    assert first == second and first.noise == second.noise
    other.write_text('{"errors": [2]}')
    changed = AerConfig(noise={"file": str(other)})
    assert changed != first and changed.noise.digest != first.noise.digest
    assert second == first and second.noise.content == '{"errors": [1]}'


def test_a_copy_keeps_the_noise_that_was_read(tmp_path):
    path = tmp_path / "noise.json"
    path.write_text('{"errors": [1]}')
    config = AerConfig(noise={"file": str(path)})
    assert config.is_current() and config.noise.is_current() and AerConfig().is_current()
    path.write_text('{"errors": [1, 2]}')
    assert not config.is_current()
    copy = config.model_copy(update={"shots": 3})
    assert copy.noise == config.noise and copy.noise.content == '{"errors": [1]}'
    path.unlink()
    assert not config.is_current()
    assert config.model_copy(update={"shots": 4}).noise.content == '{"errors": [1]}'


@every_door
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"errors = 1", "is not JSON: "),
        (b'{"a": "\xe4"}', "is not JSON: "),
        (b"", "is not JSON: "),
        (b"[1, 2]", "must hold an object of JSON, the dictionary of a NoiseModel, got a list."),
        (b"3", "must hold an object of JSON, the dictionary of a NoiseModel, got a int."),
    ],
)
def test_a_file_of_noise_that_is_missing_or_wrong_is_refused_with_its_path(content, problem, door):
    path = Path("noise.json").absolute()
    if content is not None:
        path.write_bytes(content)
    message = refused(door, {"kind": "aer", "noise": {"file": "noise.json"}})
    assert f"'noise': {path}: {problem}" in message


def test_a_folder_is_no_file_of_noise(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        Noise(file=str(tmp_path))
