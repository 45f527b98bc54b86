"""Which configuration is chosen: `qml.toml`, what inherits from what, and which choice wins."""

import os
import tomllib
import traceback
from pathlib import Path

import pytest

from qml.config import AMBIENT, backends, discover, load, resolve
from qml.errors import ConfigError, QMLError, UnknownNameError
from qml.kinds import KINDS, AerConfig, ReferenceConfig, StatevectorConfig

MARKER = "s3cr3t-marker-value"
VALID = ", ".join(map(repr, sorted(KINDS)))


def write(text: str, path: str = "qml.toml") -> Path:
    Path(path).write_text(text)
    return Path(path).absolute()


def misspelt(word: str) -> set[str]:
    """`word` with one letter dropped, doubled or replaced."""
    places = range(len(word))
    dropped = {word[:i] + word[i + 1 :] for i in places}
    doubled = {word[:i] + word[i] + word[i:] for i in places}
    return dropped | doubled | {word[:i] + "x" + word[i + 1 :] for i in places}


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
    assert backends() == {kind: kind for kind in KINDS} | {"lab": "aer", "quiet lab": "reference"}
    assert list(backends()) == sorted(backends())


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
    path = write("[backends.lab]\nkind = 'aer'\nshots = 1")
    assert [resolve("lab").shots for _ in range(5)] == [1] * 5
    assert load(path) is load("qml.toml")
    assert reads == [path.read_text()]

    before = os.stat(path)
    write("[backends.lab]\nkind = 'aer'\nshots = 2")  # of the same size, and later
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert [resolve("lab").shots for _ in range(5)] == [2] * 5
    assert len(reads) == 2

    # Of the same size and time, another file.
    write("[backends.lab]\nkind = 'aer'\nshots = 3", "new.toml")
    os.utime("new.toml", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    os.replace("new.toml", path)
    assert [resolve("lab").shots for _ in range(5)] == [3] * 5
    assert len(reads) == 3


def test_a_file_that_was_wrong_is_read_again():
    write("[backends.lab]\nkind = 'aer'\nshots = 0")
    for _ in range(2):
        with pytest.raises(ConfigError):
            resolve("lab")
    write("[backends.lab]\nkind = 'aer'\nshots = 15")
    assert resolve("lab").shots == 15


# --- which choice wins


def test_the_built_in_default_is_the_statevector_engine():
    assert resolve() == resolve("statevector") == StatevectorConfig()


@pytest.mark.parametrize("kind", ["aer", "reference", "statevector", "xla"])
def test_a_kind_is_a_name_for_itself_with_its_defaults(kind):
    assert resolve(kind) == resolve({"kind": kind}) == KINDS[kind]()
    assert resolve(kind) is resolve(kind)


@pytest.mark.parametrize(
    ("kind", "needed"), [("runtime", "fake"), ("estimator", "factory"), ("pennylane", "device")]
)
def test_a_kind_that_needs_a_key_is_no_name_for_itself(kind, needed, monkeypatch):
    with pytest.raises(ConfigError, match=rf"^backend: the kind '{kind}' needs a table:.*{needed}"):
        resolve(kind)
    monkeypatch.setenv("QML_BACKEND", kind)
    with pytest.raises(ConfigError, match=rf"^QML_BACKEND: the kind '{kind}' needs a table"):
        resolve()


def test_a_configured_name_comes_before_a_kind_of_the_same_name():
    write("[backends.aer]\nkind = 'aer'\nshots = 12\n[backends.xla]\nkind = 'reference'")
    assert resolve("aer") == AerConfig(shots=12)
    assert resolve("xla") == ReferenceConfig()
    assert backends() == {kind: kind for kind in KINDS} | {"xla": "reference"}


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
    path = write("[backends.lab]\nkind = 'aer'")
    monkeypatch.setenv("QML_BACKEND", "lab2")
    with pytest.raises(UnknownNameError, match=r"did you mean 'lab'\?") as caught:
        resolve()
    assert str(path) in str(caught.value)


def test_an_unknown_backend_in_the_argument_names_the_nearest():
    for wrong in sorted(misspelt("aer") | {"AER"}):
        with pytest.raises(UnknownNameError, match=rf"^backend: .*{wrong!r}.*mean 'aer'\?"):
            resolve(wrong)
    with pytest.raises(QMLError, match=f"Valid: {VALID}"):
        resolve("")


def test_a_file_of_an_editor_that_marks_utf8_is_read():
    Path("qml.toml").write_bytes(b"\xef\xbb\xbf" + b"backend = 'aer'\n")
    assert resolve() == AerConfig()


@pytest.mark.parametrize("table", [3, ["aer"], b"aer", object(), AerConfig])
def test_a_backend_of_another_type_is_refused(table):
    with pytest.raises(ConfigError, match="must be the name of a backend, a table"):
        resolve(table)


def test_a_key_that_is_no_string_is_refused():
    with pytest.raises(ConfigError, match="no key 3:"):
        resolve({"kind": "aer", 3: 1})


# --- secrets in a file


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
        f'[backends.lab]\nkind = "aer"\nbudget = {{token = "{MARKER}"}}',
        f'[backends.lab]\nkind = "aer"\nshots = ["{MARKER}"]',
        f'[backends.lab]\nkind = "aer"\ninherits = ["{MARKER}"]',
        f'[backends.lab]\nkind = "aer"\ntoken = "{MARKER}" "{MARKER}"',
        f'[backends.lab]\nkind = "aer"\ntoken = "{MARKER}',
        f'[backends.lab]\nkind = "aer"\ntoken = {MARKER}',
        f'[backends.lab]\nkind = "runtime"\nname = "x"\ntoken_env = "{MARKER}"',
        f'[backends.lab]\nkind = "no such"\ntoken = "{MARKER}"',
        f'[backends.lab]\nkind = "estimator"\nfactory = "a:b"\noptions.token = "{MARKER}"',
        f'[backends.lab]\nkind = "estimator"\nfactory = "a:b"\noptions.token_env = "{MARKER}"',
        f'[backends.lab]\ninherits = "b"\ntoken = "{MARKER}"\n[backends.b]\nkind = "aer"',
        f'[backends.lab]\nkind = "aer"\ntoken = "{MARKER}\xe9"',
    ],
)
def test_no_value_that_may_be_a_secret_is_shown_wherever_it_stands_in_a_file(text):
    Path("qml.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        load("qml.toml")
    error = caught.value
    while error is not None:  # and in no error that led to it
        assert MARKER not in str(error) + repr(error)
        error = error.__context__
    assert MARKER not in "".join(traceback.format_exception(caught.value))
