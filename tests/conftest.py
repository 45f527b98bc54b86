"""How every test runs: one thread, quiet frameworks, seeded examples, no configuration but its own.

Double precision everywhere, except where the environment says QML_TEST_X64=0: global x64 hides
defects of single precision, so tests/float32 runs in a process of its own.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Read once, when a framework is first imported; subprocesses of tests inherit them.
os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import hypothesis
import jax

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in jobs in the background of a shell; the programs that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

X64 = os.environ.get("QML_TEST_X64", "1") != "0"
TESTS = Path(__file__).resolve().parent

jax.config.update("jax_enable_x64", X64)

hypothesis.settings.register_profile(
    "house", max_examples=20, derandomize=True, deadline=None, database=None
)
hypothesis.settings.load_profile("house")


def pytest_report_header() -> str:
    backend = os.environ["KERAS_BACKEND"]
    return f"qml: Keras on {backend}, {'double' if X64 else 'single'} precision"


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No backend is chosen from outside the test: not by QML_BACKEND, not by a qml.toml."""
    monkeypatch.delenv("QML_BACKEND", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def compiled_code_is_dropped() -> Iterator[None]:
    """After each module: XLA's executables of thousands of circuits take gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def strict_ranks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Broadcasting between ranks is an error in our own code; Keras's Dense relies on it."""
    if {"layers", "examples"} & set(request.path.relative_to(TESTS).parts):
        yield
    else:
        with jax.numpy_rank_promotion("raise"):
            yield
