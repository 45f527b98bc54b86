"""Backends of every kind, for the tests that ask all of them; a new kind is a line here."""

import pytest
from qiskit.primitives import BackendEstimatorV2
from qiskit_aer import AerSimulator

EXACT = {
    "aer": {},
    "estimator": {"factory": "qiskit.primitives:StatevectorEstimator"},
    "pennylane": {"device": "default.qubit"},
    "reference": {},
    "statevector": {},
    "xla": {},
}
"""Exact and ideal."""

PATHS = [
    kind
    if kind in ("reference", "statevector", "xla")
    else pytest.param(kind, marks=pytest.mark.full)
    for kind in EXACT
]
"""Kinds, one for each way in which JAX gets to an engine: by a callback and shifts, by a call of
compiled code, as JAX code. The others, which it gets to as to `reference`, are in the full run;
their values are always compared with Qiskit's, in tests/simulators/test_engines.py."""

SAMPLING = {
    "aer": {},
    "estimator": {"factory": "engines:sampling_estimator"},
    "pennylane": {"device": "default.qubit"},
}
"""Ideal too, to be given `shots`."""

NOISY = {"runtime": {"fake": "FakeManilaV2", "resilience_level": 0}}
"""Machines: with `shots` too, and errors of some per cent."""

EXACT, SAMPLING, NOISY = (
    {kind: {"kind": kind, **keys} for kind, keys in tables.items()}
    for tables in (EXACT, SAMPLING, NOISY)
)


def sampling_estimator(seed: int) -> BackendEstimatorV2:
    """That of kind = "estimator"; Qiskit's StatevectorEstimator draws from normal deviates."""
    return BackendEstimatorV2(backend=AerSimulator(), options={"seed_simulator": seed})
