"""A circuit as text: the same Program comes back, and from a crafted text nothing runs."""

import base64
import json
import pickle
import sys
import zlib

import numpy as np
import pytest
from qiskit.circuit.library import PauliEvolutionGate, UnitaryGate, efficient_su2, zz_feature_map
from qiskit.quantum_info import SparsePauliOp, random_unitary

import qml
from qml.circuits import archive
from qml.circuits.archive import pack, unpack
from qml.circuits.program import Program
from qml.errors import ConfigError
from qml.oracle import random_program


def content_of(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def text_of(content):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.b64encode(zlib.compress(data)).decode()


@qml.qkernel(qubits=3, name="test_archive.mixed")
def mixed(qc, x, theta, shift=0.25):
    """Library circuits, evolutions, unitaries, and angles of every form."""
    qc.compose(zz_feature_map(3).assign_parameters(x), inplace=True)
    qc.append(PauliEvolutionGate(SparsePauliOp(["XYZ", "ZIY"]), time=theta[0]), [0, 1, 2])
    qc.append(UnitaryGate(random_unitary(4, seed=1)), [2, 0])
    qc.rx(theta[1] ** 2 * x[0].sin() / (-(x[1] * theta[2])), 1)
    qc.ry(theta[1] ** 0.5 + 2 ** theta[0] - theta[2].arctan(), 1)
    qc.crx(2 * theta[2] / 3 + shift, 0, 1)
    qc.cp(0.1 - theta[1], 1, 2)
    qc.ccx(0, 1, 2)
    return [qml.Z(0) + 0.1 * qml.X(1) @ qml.Y(2), qml.probs(1, 0), "IYI"]


@qml.qkernel(qubits=2, name="test_archive.single")
def single(qc, w):
    qc.compose(efficient_su2(2, reps=1).assign_parameters(w), inplace=True)
    return qml.Z(0)


TRACES = {
    "mixed": mixed.trace(np.zeros(3), np.zeros(3)),
    "single": single.trace(np.zeros(8)),
    "no arguments": qml.qkernel(qubits=1)(lambda qc: qml.Z(0)).trace(),
}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_a_program_comes_back_with_its_digest_and_the_shape_of_the_result(trace):
    program, shape = unpack(pack(trace.program, trace.shape))
    assert program.digest == trace.program.digest
    assert program is not trace.program
    assert shape == trace.shape
    for one, other in zip(program.operations, trace.program.operations, strict=True):
        assert type(one) is type(other)
        if hasattr(one, "matrix"):
            np.testing.assert_array_equal(one.matrix, other.matrix)
    for name in ("slots", "arguments", "coefficients", "offset"):
        one, other = getattr(program.angles, name), getattr(trace.program.angles, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_come_back(seed):
    program = random_program(np.random.default_rng(seed), num_qubits=1 + seed % 5)
    again, _ = unpack(pack(program, (program.num_outputs,)))
    assert isinstance(again, Program)
    assert again.digest == program.digest


def test_the_text_is_ascii_and_made_once():
    trace = TRACES["mixed"]
    text = pack(trace.program, trace.shape)
    assert text.isascii()
    assert pack(trace.program, trace.shape) is text


TEXT = pack(TRACES["mixed"].program, TRACES["mixed"].shape)
WATCHED = ("exec", "pickle.", "marshal.", "os.", "subprocess.", "import", "open", "socket.")


@pytest.fixture(scope="module")
def watched():
    """What Python reports of code that is run, imported or unpickled, and of files and programs."""
    seen = []
    watching = []

    def hook(event, arguments):
        if watching and event.startswith(WATCHED):
            seen.append((event, arguments))

    sys.addaudithook(hook)  # there is no way to take it off again

    class Watch:
        def __enter__(self):
            seen.clear()
            watching.append(True)
            return seen

        def __exit__(self, *_):
            watching.clear()

    return Watch()


def test_the_watch_sees_what_it_should(watched, tmp_path):
    class Payload:
        def __reduce__(self):
            return eval, ("1 + 1",)

    with watched as seen:
        pickle.loads(pickle.dumps(Payload()))
        open(tmp_path / "file", "w").close()
    assert {event for event, _ in seen} >= {"pickle.find_class", "exec", "open"}


def refused(text, watched):
    unpack(TEXT)  # whatever is imported at the first use is
    with watched as seen, pytest.raises(ConfigError, match="stored circuit cannot be read"):
        unpack(text)
    assert seen == []


PAYLOAD = "__import__('os').system('touch executed')"


@pytest.mark.parametrize(
    "formula",
    [
        PAYLOAD,
        f"sin({PAYLOAD})",
        f"a0 + eval({PAYLOAD!r})",
        "().__class__.__base__.__subclasses__()",
        "a0.__class__",
        "a0[0]",
        "(lambda: a0)()",
        "[a0 for a0 in ()]",
        "(a0 := 1)",
        "f'{a0}'",
        "'a' * 10**9",
        "a0 if a0 else a1",
        "sin(a0, a0)",
        "a7",
        "1/0",
        "9**9**9**9",
        "1" * 5000,
        "-" * 20000 + "a0",
        "(" * 20000 + "a0" + ")" * 20000,
        "a0" + "+a0" * 200000,
        "a0 = 1",
        "",
        "\0",
        None,
        7,
    ],
)
def test_a_formula_that_is_none_is_refused_and_never_run(formula, watched):
    content = content_of(TEXT)
    content["formulas"][0][0] = formula
    refused(text_of(content), watched)


class Executed:
    def __reduce__(self):
        return exec, ("open('executed', 'w')",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Executed()),
        b"QISKIT\x0c" + b"\0" * 100,
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"format": 1}',
        b"[" * 100_000,
        b'{"format": NaN}',
        b'{"format": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe",
    ],
)
def test_other_data_is_refused_and_never_run(data, watched):
    refused(text_of(data), watched)
    refused(base64.b64encode(data).decode(), watched)


OTHERS = [None, 3, b"abc", [TEXT], "", "ä", "%%%", TEXT + "\n", TEXT + TEXT]


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_text_of_ours_is_refused(text, watched):
    refused(text, watched)


def test_a_text_that_is_cut_off_anywhere_is_refused(watched):
    for length in range(0, len(TEXT), 7):
        refused(TEXT[:length], watched)


def test_a_changed_byte_is_refused_or_gives_another_digest_or_the_same_program():
    generator = np.random.default_rng(0)
    data = json.dumps(content_of(TEXT)).encode()
    digest, found = TRACES["mixed"].program.digest, set()
    for _ in range(500):
        changed = bytearray(data)
        changed[generator.integers(len(data))] = generator.integers(32, 127)
        try:
            found.add(unpack(text_of(bytes(changed)))[0].digest == digest)
        except ConfigError:
            found.add("refused")
    assert found >= {"refused", False}


def test_a_text_of_too_much_data_is_not_inflated(monkeypatch, watched):
    monkeypatch.setattr(archive, "LARGEST", 10_000)
    bomb = text_of(b" " * 10_000_000 + b"{}")
    assert len(bomb) < 20_000
    with pytest.raises(ConfigError, match="more than 10000 bytes"):
        unpack(bomb)
    pack.cache_clear()
    with pytest.raises(ConfigError, match="more than the 10 that"):
        monkeypatch.setattr(archive, "LARGEST", 10)
        pack(TRACES["mixed"].program, TRACES["mixed"].shape)


def change(*path, to):
    def apply(content):
        place = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return apply


@pytest.mark.parametrize(
    "changed",
    [
        change("format", to=2),
        change("more", to=1),
        change("qubits", to=0),
        change("qubits", to=True),
        change("qubits", to=3.0),
        change("qubits", to=10**9),
        change("qubits", to=2),
        change("arguments", to=[["x", [3]]]),
        change("arguments", to=[["x", [3]], ["x", [3]]]),
        change("arguments", to=[["x", [10**9]], ["theta", [3]]]),
        change("arguments", to=[["x", [-3]], ["theta", [3]]]),
        change("arguments", to=[[1, [3]], ["theta", [3]]]),
        change("arguments", to="x"),
        change("operations", 0, to=["system", [0]]),
        change("operations", 0, to=["__class__", [0]]),
        change("operations", 0, to=["cx", [0]]),
        change("operations", 0, to=["cx", [0, 0]]),
        change("operations", 0, to=["h", [3]]),
        change("operations", 0, to=["h", [-1]]),
        change("operations", 0, to=["unitary", [0], [1.0] * 8]),
        change("operations", 0, to=["unitary", [0], [1.0] * 6]),
        change("operations", 0, to=["unitary", [0], ["1"] * 8]),
        change("operations", 0, to=["unitary", list(range(60)), []]),
        change("operations", 0, to=[8, 0, 0]),
        change("operations", 0, to=[1, 0, 10**6]),
        change("operations", 0, to=[1, 0, -1]),
        change("operations", 0, to=[1, 0, -1, "0.5"]),
        change("operations", 0, to=[1, 0, -2, 0.5]),
        change("operations", 0, to=[1, 0, 0, 0.5]),
        change("operations", 0, to=None),
        change("operations", 0, to={"name": "h"}),
        change("outputs", 0, to=["expectation", [[1, 0]], []]),
        change("outputs", 0, to=["expectation", [[1, 0]], [1]]),
        change("outputs", 0, to=["expectation", [[9, 0]], [1.0]]),
        change("outputs", 0, to=["probabilities", []]),
        change("outputs", 0, to=["probabilities", [0, 0]]),
        change("outputs", 0, to=["samples", [0]]),
        change("outputs", to=[]),
        change("shape", to=[3]),
        change("shape", to=[]),
        change("shape", to=[6.0, 1]),
        change("affine", to=[[0], [0], []]),
        change("affine", to=[[0], [6], [1.0]]),
        change("affine", to=[[-1], [0], [1.0]]),
        change("offset", 0, to=1e400),
        change("offset", to=[]),
        change("formulas", 0, to=["a0", [0], [[0], [1]]]),
        change("formulas", 0, to=["a0", [0], [[9]]]),
        change("formulas", 0, to=["a0+a1", [0, 1], [[0, 1], [1]]]),
    ],
)
def test_a_part_that_does_not_fit_the_others_is_refused(changed, watched):
    content = content_of(TEXT)
    unpack(text_of(content))
    changed(content)
    data = json.dumps(content)
    for written in {data, data.replace("Infinity", "1e400")}:
        refused(text_of(written.encode()), watched)
