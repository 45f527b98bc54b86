"""What a deep circuit costs the compiled engine: its plan, and no more memory while it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qml
from qml.simulators.statevector.plan import plan
from qml.simulators.statevector.tables import FIXED_WORDS, HEADER, TABLES, Layout, packed

ROOT = Path(qml.__file__).resolve().parents[1]


@pytest.mark.parametrize("layers", [1, 50])
def test_a_plan_has_every_constant_once(layers):
    """RX(0.3) and H as matrices, RZZ(0.5) as its cosine and sine; nothing for a slot."""

    @qml.qkernel(qubits=2, name=f"{layers} layers of constants")
    def kernel(qc, x):
        for _ in range(layers):
            for q in range(2):
                qc.rx(0.3, q)
                qc.h(q)
                qc.ry(x, q)
            qc.rzz(0.5, 0, 1)
        return qml.Z(0) @ qml.Z(1)

    layout = Layout(lane_bits=0, workers=1, threads=1, tiled=False)
    words = packed(plan(kernel.program(0.1)), layout, np.float64)[: 8 * HEADER].view(np.int64)
    rows = dict(zip(TABLES, words[FIXED_WORDS + 1 :: 3], strict=True))
    assert rows["factors"] == 7 * layers
    assert rows["constants"] == 3


PEAK = """
import ctypes, json
from pathlib import Path
import numpy as np
import qml
from qml.kinds import StatevectorConfig
from qml.simulators.statevector.engine import StatevectorEngine

QUBITS = 15
libc = ctypes.CDLL("libc.so.6")
# Else the kernel makes huge pages of half-empty ones meanwhile, whatever the process does.
PR_SET_THP_DISABLE = 41
assert libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0

def program(layers):
    @qml.qkernel(qubits=QUBITS, name=f"{layers} layers")
    def kernel(qc, x):
        for layer in range(layers):
            for q in range(QUBITS):
                qc.ry(x if layer in (0, layers - 1) else 0.3, q)
                qc.rz(0.4, q)
            for q in range(QUBITS):
                qc.cx(q, (q + 1) % QUBITS)
        return [qml.Z(q) for q in range(QUBITS)]

    return kernel.program(0.1)

def status(key):
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(key))
    return 1024 * int(line.split()[1])

def gradient(program):
    a, c = np.ones((8, program.num_slots)), np.ones((8, 1, program.num_outputs))
    return engine.compute("expval_vjp", program, a, c)

engine = StatevectorEngine(StatevectorConfig(threads=1))
gradient(program(2))
measured = program(LAYERS)
engine.packed("expval_vjp", measured, 8, np.float64)
libc.malloc_trim(0)
Path("/proc/self/clear_refs").write_text("5")  # the peak from now
before = status("VmRSS")
gradient(measured)
print(json.dumps(status("VmHWM") - before))
"""


def peak(layers):
    """Bytes that a gradient of 8 samples takes above what was resident."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK.replace("LAYERS", str(layers))],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
def test_the_memory_of_a_gradient_does_not_depend_on_the_depth():
    """Two states of 2^15 amplitudes in double precision for 8 samples, in both cases."""
    shallow, deep = peak(3), peak(150)
    assert shallow > 2 * 2**15 * 16 * 8 * 0.95
    assert deep < 1.05 * shallow
