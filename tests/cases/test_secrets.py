"""A misspelt key is never accepted, and a token is nowhere but in the environment.

The token of these tests is in environment variables, and what takes it is a stand-in for IBM's
service at the one place where the library makes one, since there is no account here. The machine
that the stand-in gives is a fake device, whose jobs run on this machine.
"""

import base64
import io
import json
import logging
import pickle
import stat
import traceback
import zipfile
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import qiskit_ibm_runtime
from engines import EXACT, NOISY
from qiskit.exceptions import QiskitError
from qiskit.primitives import PrimitiveJob
from qiskit.providers.exceptions import QiskitBackendNotFoundError
from qiskit_ibm_runtime.executor_estimator import Estimator
from qiskit_ibm_runtime.fake_provider import FakeManilaV2

import qml
from qml.config import load, resolve
from qml.errors import ConfigError, EngineError, QMLError, UnknownNameError
from qml.kinds import KINDS, RuntimeConfig
from qml.layers import QuantumLayer, set_backend
from qml.simulators.registry import engine

MARKER = "mArKeR-0123456789-of-a-token"
VARIABLE = "QML_TEST_TOKEN"
FAKE = NOISY["runtime"] | {"shots": 64}
REAL = {
    "kind": "runtime",
    "name": "ibm_manila",
    "token_env": VARIABLE,
    "shots": 64,
    "resilience_level": 0,
}


@qml.qkernel(qubits=2, name="test_secrets.ansatz")
def ansatz(qc, x, theta):
    for q in range(2):
        qc.ry(x[q], q)
        qc.rx(theta[q], q)
    qc.cx(0, 1)
    return [qml.Z(0), qml.Z(1)]


X, THETA = jnp.array([0.3, 0.9]), jnp.array([0.5, -0.4])


# --- what is misspelt


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_refuses_a_misspelt_key_a_wrong_type_and_a_wrong_case(kind):
    layer = QuantumLayer(ansatz, {"theta": (2,)}, backend="reference")

    def in_file(table):
        lines = [f"{key} = {value!r}" for key, value in table.items()]
        Path("qml.toml").write_text("\n".join(["[backends.lab]", *lines]))
        return qml.use("lab").__enter__()

    doors = [
        in_file,
        lambda table: qml.use(table).__enter__(),
        lambda table: ansatz(X, THETA, backend=table),
        lambda table: QuantumLayer(ansatz, {"theta": (2,)}, backend=table),
        lambda table: set_backend(layer, table),
    ]
    wrongs = [
        ({"sed": 1}, "no key 'sed': did you mean 'seed'?"),
        ({"Seed": 1}, "no key 'Seed': did you mean 'seed'?"),
        ({"seed": "1000"}, "'seed' must be an integer"),
        ({"gradiant": "auto"}, "no key 'gradiant': did you mean 'gradient'?"),
        ({"gradient": "Auto"}, "did you mean 'auto'?"),
        ({"gradient": "finite_difference"}, "'gradient' must be 'auto'"),
    ]
    for door in doors:
        for wrong, found in wrongs:
            with pytest.raises(ConfigError) as caught:
                door({**NOISY, **EXACT}[kind] | wrong)
            assert found in str(caught.value)
    assert layer.backend == KINDS["reference"]()


@pytest.mark.parametrize("key", ["shots", "Shots", "shot"])
def test_shots_that_are_no_integer_or_misspelt_never_run(key):
    with qml.execution.recorded() as runs:
        for value in ("1000", 1000.0, 0, True):
            with pytest.raises(ConfigError):
                ansatz(X, THETA, backend={"kind": "aer", key: value})
    assert not runs


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("gradient", ["adjoint", "parameter_shift", "spsa"])
def test_the_gradient_that_was_asked_for_is_the_one_that_runs_or_it_is_refused(kind, gradient):
    table = EXACT[kind]

    def by_table():
        return jax.jacrev(lambda t: ansatz(X, t, backend={**table, "gradient": gradient}))(THETA)

    def by_argument():
        return jax.jacrev(lambda t: ansatz(X, t, backend=table, gradient=gradient))(THETA)

    works = gradient in str(KINDS[kind].model_fields["gradient"].annotation)
    for ask in (by_table, by_argument):
        if works:
            ask()
            assert qml.last_run().gradient == gradient
        else:
            with pytest.raises(ConfigError, match=f"'gradient' must be .*got '{gradient}'.*Valid:"):
                ask()


# --- where a token may be found


class Service:
    """As much of QiskitRuntimeService as is called; what it was given, it keeps."""

    given: list[dict[str, object]] = []

    def __init__(self, **given):
        Service.given.append(given)
        self.token = given["token"]

    def backend(self, name):
        return FakeManilaV2()

    def backends(self):
        return [FakeManilaV2()]

    def job(self, job):
        raise qiskit_ibm_runtime.exceptions.RuntimeJobNotFound(job)

    def jobs(self, **wanted):
        return []


@pytest.fixture
def token(monkeypatch):
    """The token in the environment, and a service that takes it."""
    Service.given.clear()
    engine.cache_clear()
    for name in (VARIABLE, "QISKIT_IBM_TOKEN"):
        monkeypatch.setenv(name, MARKER)
    monkeypatch.setattr(qiskit_ibm_runtime, "QiskitRuntimeService", Service)
    yield MARKER
    engine.cache_clear()


CODED = [
    MARKER.encode(),
    MARKER.encode("utf-16-le"),
    MARKER.encode().hex().encode(),
    # Of base64 what does not depend on the bytes before and after.
    *(base64.b64encode(b"\0" * i + MARKER.encode())[4 if i else 0 : -4] for i in range(3)),
]


def holds_token(content: bytes) -> bool:
    """Whether a token is in some bytes, plain or coded, also within an archive."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(holds_token(archive.read(name)) for name in archive.namelist()):
                return True
    return any(code in content for code in CODED)


def files_with_token(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if holds_token(path.read_bytes())]


def everything_shown(error: BaseException | None) -> str:
    """What a traceback, a log or a pickle would show of an error and of what led to it."""
    if error is None:
        return ""
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)
    return shown + everything_shown(error.__context__) + everything_shown(error.__cause__)


def test_the_search_finds_a_token_where_one_is(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", f'{{"token": "{MARKER}"}}')
    (tmp_path / "plain").write_text(f"x{MARKER}y")
    (tmp_path / "pickled").write_bytes(pickle.dumps({"token": MARKER}))
    for prefix in range(4):
        coded = base64.b64encode(b"." * prefix + f"{MARKER}:user".encode())
        (tmp_path / f"base64-{prefix}").write_bytes(coded)
    assert len(files_with_token(tmp_path)) == 7
    (tmp_path / "harmless").write_text("m" + MARKER[1:-1])
    assert len(files_with_token(tmp_path)) == 7
    with pytest.raises(ValueError) as caught:
        try:
            raise LookupError(MARKER)
        except LookupError:
            raise ValueError("another") from None
    assert MARKER in everything_shown(caught.value)


def trained(backend):
    """A model with a layer on a backend, after one step."""
    layer = QuantumLayer(ansatz, {"theta": (2,)}, backend=backend)
    model = keras.Sequential([keras.Input((2,)), layer, keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 2)), np.ones((2, 1)), batch_size=2, verbose=0)
    return model


@pytest.mark.slow
def test_a_token_in_the_environment_is_in_nothing_that_is_written_shown_or_pickled(
    token, tmp_path, caplog, capfd
):
    caplog.set_level(logging.DEBUG, "qml")
    model = trained(REAL)
    assert qml.last_run().shots and qml.last_run().kind == "runtime"
    assert [given["token"] for given in Service.given] == [token]  # so it was really used

    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    layer = model.layers[0]
    (tmp_path / "layer.json").write_text(repr(layer.get_config()) + model.to_json())
    circuit = layer.get_config()["circuit"]  # compressed, so that a token would not be found
    (tmp_path / "circuit.json").write_bytes(zlib.decompress(base64.b64decode(circuit)))
    config = layer.backend
    assert config == RuntimeConfig(**{k: v for k, v in REAL.items() if k != "kind"})
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / f"config-{protocol}.pickle").write_bytes(pickle.dumps(config, protocol))
    (tmp_path / "run.pickle").write_bytes(pickle.dumps(qml.last_run()))
    dumped = str(config.model_dump()) + config.model_dump_json()
    shown = [repr(config), str(config), dumped, config.digest, repr(layer), repr(qml.last_run())]
    shown += [repr(vars(layer)), repr(config.__getstate__()), repr(engine(config))]
    (tmp_path / "shown.txt").write_text("\n".join(shown))
    (tmp_path / "log.txt").write_text(caplog.text + "".join(capfd.readouterr()))

    assert (tmp_path / "shown.txt").read_text().count(VARIABLE) >= 4  # the name is no secret
    assert files_with_token(tmp_path) == []

    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[0].backend == config


@pytest.mark.slow
def test_the_journal_of_jobs_has_no_token_and_is_for_its_owner_alone(token, tmp_path):
    trained(REAL)  # jobs on a real service are journalled
    files = list((tmp_path / ".qml").iterdir())
    assert any(path.stat().st_size for path in files)
    assert stat.S_IMODE((tmp_path / ".qml").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert files_with_token(tmp_path) == []


def test_the_digest_does_not_depend_on_the_token(monkeypatch):
    digests = set()
    for value in (MARKER, "another", ""):
        monkeypatch.setenv(VARIABLE, value)
        digests.add(resolve(REAL).digest)
    assert len(digests) == 1


TABLES = [
    {**REAL, "token": MARKER},
    {**REAL, "API-Key": MARKER},
    {**REAL, "token_env": MARKER},
    {**REAL, "Token_Env": MARKER},
    {**REAL, "token_env": [MARKER]},
    {**REAL, "budget": {"token": MARKER}},
    {**REAL, "budget": [MARKER]},
    {**REAL, "shots": {"token": MARKER}},
    {**FAKE, "token": MARKER},
    {"kind": "runtim", "token": MARKER},
    {"token": MARKER},
    {"kind": "aer", "noise": {"token": MARKER}},
    {"kind": "estimator", "factory": "a:b", "options": {"token": MARKER}},
    {"kind": "estimator", "factory": "a:b", "options": {"token_env": MARKER}},
    {"kind": "estimator", "factory": "a:b", "options": {"x": 1, "Secret": {"a": MARKER}}},
    {"kind": "estimator", "factory": "a:b", "options": [MARKER]},
    {"kind": "pennylane", "device": "default.qubit", "options": {"api_key": MARKER}},
    {"kind": "pennylane", "device": "default.qubit", "password": MARKER},
]


@pytest.mark.parametrize("table", TABLES)
def test_a_token_in_a_table_is_refused_and_not_shown_by_any_door(table):
    saved = QuantumLayer(ansatz, {"theta": (2,)}, backend="reference").get_config()
    layer = QuantumLayer(ansatz, {"theta": (2,)}, backend="reference")
    doors = [
        lambda: resolve(table),
        lambda: qml.use(table).__enter__(),
        lambda: ansatz(X, THETA, backend=table),
        lambda: QuantumLayer(ansatz, {"theta": (2,)}, backend=table),
        lambda: QuantumLayer.from_config({**saved, "backend": table}),
        lambda: set_backend(layer, table),
        lambda: KINDS[table["kind"]](**table) if table.get("kind") in KINDS else resolve(table),
    ]
    for door in doors:
        with pytest.raises(QMLError) as caught:
            door()
        shown = everything_shown(caught.value)
        assert not holds_token(shown.encode() + pickle.dumps(caught.value))
    assert not holds_token(repr(layer.get_config()).encode())


@pytest.mark.parametrize(
    "line",
    [
        f'token = "{MARKER}"',
        f'token_env = "{MARKER}"',
        f'token = "{MARKER}',
        f"budget = {{api_key = '{MARKER}'}}",
        f'tokens = ["{MARKER}"]',
    ],
)
def test_a_token_in_a_file_is_refused_and_not_shown(line):
    Path("qml.toml").write_text(f"[backends.lab]\nkind = 'runtime'\nname = 'ibm_fez'\n{line}\n")
    for ask in (lambda: load("qml.toml"), resolve, qml.backends, lambda: qml.use("x").__enter__()):
        with pytest.raises(ConfigError) as caught:
            ask()
        assert not holds_token(everything_shown(caught.value).encode())


@pytest.mark.parametrize(
    "failure",
    [
        lambda token: ConnectionError(f"Authorization: {token}"),
        lambda token: QiskitError("refused", f"token={token}"),
        lambda token: ValueError(f"{token!r} is no token"),
    ],
)
def test_what_a_service_says_is_shown_without_the_token(token, failure, monkeypatch):
    def refuse(**given):
        raise failure(given["token"])

    monkeypatch.setattr(qiskit_ibm_runtime, "QiskitRuntimeService", refuse)
    with pytest.raises(EngineError, match="could not be reached") as caught:
        ansatz(X, THETA, backend=REAL)
    assert not holds_token(str(caught.value).encode())
    # Its own error hangs on ours, but no traceback shows it.
    assert not holds_token("".join(traceback.format_exception(caught.value)).encode())


def refused(*given, **keys):
    raise QiskitError("refused", f"Authorization: Bearer {MARKER}")


PLACES = {
    "the machine": (Service, "backend"),
    "the machines": (Service, "backends"),
    "its gates": (FakeManilaV2, "target"),
    "sending": (Estimator, "run"),
    "a session": (qiskit_ibm_runtime.Session, "__init__"),
    "finding": (Service, "jobs"),
    "fetching": (Service, "job"),
    "the state": (PrimitiveJob, "status"),
    "the result": (PrimitiveJob, "result"),
}


@pytest.mark.parametrize("place", PLACES)
def test_whatever_a_service_refuses_it_is_told_without_the_token(token, place, monkeypatch):
    backend = {**REAL, "retries": 0, "mode": "session" if place == "a session" else "job"}
    if place == "the machines":
        nowhere = QiskitBackendNotFoundError("No backend matches the criteria.")
        monkeypatch.setattr(Service, "backend", lambda *_: (_ for _ in ()).throw(nowhere))
    where, name = PLACES[place]
    monkeypatch.setattr(where, name, property(refused) if name == "target" else refused)

    def ask():
        if place in ("finding", "fetching"):
            runner = engine(resolve(backend))
            program = ansatz.program(X, THETA)
            if place == "finding":
                runner.find("tag")
            outputs = np.ones(2, np.bool_)
            runner.collect("job-1", program, 1, outputs=outputs, report=lambda status: None)
        ansatz(X, THETA, backend=backend)

    with pytest.raises(EngineError, match=r"refused.*Authorization: Bearer \.\.\.") as caught:
        ask()
    assert not holds_token("".join(traceback.format_exception(caught.value)).encode())
    assert not holds_token(pickle.dumps(caught.value))


def test_the_token_of_a_saved_account_is_left_out_too(token, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (VARIABLE, "QISKIT_IBM_TOKEN"):
        monkeypatch.delenv(name)
    (tmp_path / ".qiskit").mkdir()
    accounts = {"lab": {"token": MARKER, "channel": "ibm_cloud"}, "other": {"token": MARKER[:9]}}
    (tmp_path / ".qiskit" / "qiskit-ibm.json").write_text(json.dumps(accounts))
    monkeypatch.setattr(qiskit_ibm_runtime, "QiskitRuntimeService", refused)
    account = {key: value for key, value in REAL.items() if key != "token_env"} | {"account": "lab"}
    with pytest.raises(EngineError, match=r"Bearer \.\.\.") as caught:
        ansatz(X, THETA, backend=account)
    assert not holds_token("".join(traceback.format_exception(caught.value)).encode())


HEXADECIMAL = "5f1c0b9e7a3d2846" * 8
"""As long as IBM's tokens were; of an API key of 44 characters see below."""
API_KEY = "kQ7vXw2_Zt9LmB4hYc1RjD-8sNfE3gPqUaK5oT6iVxM0"
CAPITALS = "K7QX2VW9ZT4LB8HY1CR3JD6SN5FE0GPU"  # as only a name of a variable may look
MISTAKEN = {
    "the name of a machine": REAL,
    "its token_env": {**REAL, "token_env": CAPITALS},
    "no variable": {**REAL, "token_env": API_KEY},
    "fake": {**FAKE, "fake": API_KEY},
    "the name of an account": {"kind": "runtime", "name": "ibm_fez", "account": API_KEY},
    "an instance": {**REAL, "instance": HEXADECIMAL},
    "a channel": {**REAL, "channel": API_KEY},
    "a kind": {"kind": HEXADECIMAL},
    "a key": {"kind": "aer", API_KEY: 1},
    "what is inherited": {"inherits": API_KEY},
    "what is unset": {"inherits": "lab", "unset": [API_KEY]},
    "a choice": {"kind": "aer", "method": HEXADECIMAL},
    "noise": {"kind": "aer", "noise": API_KEY},
    "a number": {"kind": "aer", "shots": API_KEY},
    "a device": {"kind": "pennylane", "device": HEXADECIMAL},
    "a factory": {"kind": "estimator", "factory": API_KEY},
    "a backend": API_KEY,
    "a backend in capitals": HEXADECIMAL.upper(),
}


@pytest.mark.parametrize("place", MISTAKEN)
def test_a_token_in_the_place_of_a_name_is_cut_short(place, token, monkeypatch):
    """In the environment it would be left out of all; here nobody knew it."""
    table = MISTAKEN[place]
    if place == "the name of a machine":
        table = {**table, "name": API_KEY}
        nowhere = QiskitBackendNotFoundError(f"No backend matches {API_KEY}.")
        monkeypatch.setattr(Service, "backend", lambda *_: (_ for _ in ()).throw(nowhere))
    if place in ("an instance", "a channel", "the name of an account"):

        def refuse(**given):
            found = [v for k, v in given.items() if k in ("instance", "channel", "name")]
            raise QiskitError(f"Authorization: unable to find {found}")

        monkeypatch.setattr(qiskit_ibm_runtime, "QiskitRuntimeService", refuse)
        monkeypatch.setattr("os.path.exists", lambda path: True)
    Path("qml.toml").write_text("[backends.lab]\nkind = 'aer'\n")
    with pytest.raises(QMLError) as caught:
        ansatz(X, THETA, backend=table)
    shown = "".join(traceback.format_exception(caught.value)) + str(caught.value)
    for secret in (HEXADECIMAL, API_KEY, CAPITALS, HEXADECIMAL.upper()):
        assert not any(secret[i : i + 9] in shown for i in range(len(secret) - 9)), shown
    if place.startswith("a backend"):
        monkeypatch.setenv("QML_BACKEND", table)
        with pytest.raises(UnknownNameError) as caught:
            resolve()
        shown = str(caught.value)
        assert f"{table[:4]}…' ({len(table)} characters)" in shown and table[:9] not in shown


def test_a_variable_that_is_not_set_is_named(token, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ConfigError, match=f"token_env = '{VARIABLE}'.*no environment variable"):
        ansatz(X, THETA, backend=REAL)
    assert not Service.given  # not even with the token of another variable


def test_an_unknown_backend_is_refused_without_the_token(token, monkeypatch):
    monkeypatch.setenv("QML_BACKEND", "ibn")
    Path("qml.toml").write_text(f"[backends.ibm]\nkind='runtime'\nname='x'\ntoken_env='{VARIABLE}'")
    with pytest.raises(UnknownNameError, match="did you mean 'ibm'") as caught:
        resolve()
    assert not holds_token(everything_shown(caught.value).encode())
