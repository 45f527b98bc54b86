"""The serving example: trained here, served by a process that has none of our packages."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from processes import without
from scripts import EXAMPLES, load, run
from sklearn.datasets import load_iris

SCRIPT = EXAMPLES / "serve_model.py"

SERVER = (
    without("jax", "jaxlib", "keras", "qiskit", "qml", "numba", "sklearn")
    + """
import runpy
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
)


@contextlib.contextmanager
def server(folder):
    """The port of a server of an exported model."""
    command = [sys.executable, "-c", SERVER, str(SCRIPT), "serve", "--port", "0"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment.pop("PYTHONPATH", None)
    with subprocess.Popen(
        [*command, "--folder", str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            yield int(re.search(r"at http://127\.0\.0\.1:(\d+)$", line.strip())[1])
        finally:
            process.terminate()


def post(port, body, headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/", body, dict(headers))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    done = run(SCRIPT.name, "train", "--quick", "--folder", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"exported to {folder}" in done.stdout
    return folder


def test_a_served_model_answers_batches_of_any_size_and_tells_bad_requests_why(exported):
    x, _ = load_iris(return_X_y=True)
    with server(exported) as port:
        for size in (1, 7):
            status, answer = post(port, json.dumps({"instances": x[:size].tolist()}))
            chances = np.array(answer["predictions"])
            assert status == 200 and chances.shape == (size, 3)
            np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-6)
        assert len(np.unique(chances.round(6), axis=0)) > 1
        bad = {
            b"no json": "Expecting value",
            b"\xff": "decode",
            b"[" * 100_000: "recursion",
            b"[1]": 'the one key "instances"',
            b'{"instances": [[1, 2, 3, 4]], "also": 1}': 'the one key "instances"',
            b'{"instances": []}': "4 numbers",
            b'{"instances": [[1, 2, 3]]}': "4 numbers",
            b'{"instances": [1, 2, 3, 4]}': "4 numbers",
            b'{"instances": [[1, 2, 3, 4], [1]]}': "inhomogeneous",
            b'{"instances": [["1", "2", "3", "4"]]}': "4 numbers",
            b'{"instances": [[1, 2, 3, null]]}': "4 numbers",
            b'{"instances": [[1, 2, 3, NaN]]}': "finite numbers",
            b'{"instances": {"a": 1}}': "4 numbers",
        }
        for body, why in bad.items():
            status, answer = post(port, body)
            assert status == 400 and answer["error"].startswith("bad request: ")
            assert why in answer["error"]
        status, answer = post(port, b"", {"Content-Length": str(1 << 30)})
        assert status == 400 and "Content-Length of at most" in answer["error"]
        assert post(port, json.dumps({"instances": x[:1].tolist()}))[0] == 200


def test_a_folder_without_a_model_is_told(tmp_path):
    done = run(SCRIPT.name, "serve", "--folder", str(tmp_path))
    assert done.returncode == 2
    assert "no exported model there; train one first" in done.stderr


def test_numbers_become_single_precision_and_those_beyond_it_are_refused():
    module = load("serve_model")
    assert module.instances(b'{"instances": [[1, 2.5]]}', 2).dtype == np.float32
    with pytest.raises(ValueError, match="finite"):
        module.instances(b'{"instances": [[1, 1e300]]}', 2)
