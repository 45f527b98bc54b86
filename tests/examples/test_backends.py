"""The examples on every kind of backend: only the name in the environment changes."""

import re

import pytest
import scripts

from qml.kinds import KINDS

BACKENDS = """
[backends.embedded]
kind = "statevector"

[backends.traced]
kind = "xla"

[backends.textbook]
kind = "reference"

[backends.exact-aer]
kind = "aer"

[backends.sampled-aer]
inherits = "exact-aer"
shots = 500

[backends.noisy-aer]
inherits = "exact-aer"
noise = { depolarizing_1q = 0.001, depolarizing_2q = 0.01, readout = 0.02 }

[backends.machine]
kind = "runtime"
fake = "FakeManilaV2"
shots = 100
resilience_level = 0
gradient = "spsa"

[backends.primitive]
kind = "estimator"
factory = "qiskit.primitives:StatevectorEstimator"

[backends.lightning]
kind = "pennylane"
device = "lightning.qubit"
"""
NAMES = re.findall(r"^\[backends\.(.+)\]$", BACKENDS, re.MULTILINE)
EXACT = {"embedded", "traced", "textbook", "exact-aer", "primitive", "lightning"}


@pytest.fixture
def run(tmp_path):
    """run(script, backend, *arguments): what it prints, in a folder with the qml.toml above."""
    (tmp_path / "qml.toml").write_text(BACKENDS)

    def run(script, backend, *arguments):
        done = scripts.run(script, *arguments, QML_BACKEND=backend)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


def test_every_kind_is_among_them():
    assert set(re.findall(r'^kind = "(.+)"$', BACKENDS, re.MULTILINE)) == set(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("backend", NAMES)
def test_the_classifier_trains(backend, run):
    few = () if backend == "embedded" else ("--samples", "32")
    printed = run("keras_classifier.py", backend, "--quick", *few)
    assert re.search(r"^mean +\d+\.\d +\d+\.\d$", printed, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [name for name in NAMES if name != "machine"])
def test_the_potential_trains_on_forces(backend, run):
    """Where values are exact, as on the default backend to a millionth."""
    printed = run("md_lih_forces.py", backend, *(("--quick",) if backend == "embedded" else ()))
    if backend in EXACT:
        assert "disagree" not in printed
    else:
        assert "The backend is noisy" in printed and "kind='aer'" in printed


def test_second_derivatives_are_refused_where_only_the_first_are_estimated(tmp_path, run):
    with pytest.raises(AssertionError, match="'spsa' estimates first derivatives only"):
        run("md_lih_forces.py", "machine", "--plan")


@pytest.mark.parametrize("backend", ["exact-aer", "sampled-aer", "machine"])
def test_the_plan_is_printed_and_nothing_sent(backend, run):
    printed = run("keras_classifier.py", backend, "--plan")
    kind = {"machine": "runtime"}.get(backend, "aer")
    assert re.search(rf"expval_vjp, \w+ \({kind}\)", printed)
    assert re.search(r"^150 steps +[\d,]+", printed, re.MULTILINE)
