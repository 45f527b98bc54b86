"""The ground state of a quantum magnet, found by Adam: a kernel trained with Optax.

python examples/jax_optax.py            # 200 steps
python examples/jax_optax.py --quick    # 10, to see that everything works
"""

import argparse

import jax
import numpy as np
import optax
from qiskit.quantum_info import SparsePauliOp

import qml

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="10 steps")
steps = 10 if parser.parse_args().quick else 200

TERMS = ["IIZZ", "IZZI", "ZZII", "ZIIZ", "IIIX", "IIXI", "IXII", "XIII"]
ISING = SparsePauliOp(TERMS, -np.ones(8))


@qml.qkernel(qubits=4)
def energy(qc, theta):
    """The energy of the magnet after the layers of theta (L, 2, 4)."""
    qc.h(range(4))
    for couplings, fields in theta:
        for q in range(4):
            qc.rzz(couplings[q], q, (q + 1) % 4)
        for q in range(4):
            qc.rx(fields[q], q)
    return ISING


@jax.jit
def step(theta, state):
    value, slope = jax.value_and_grad(energy)(theta)
    updates, state = optimizer.update(slope, state)
    return value, optax.apply_updates(theta, updates), state


theta, optimizer = jax.random.normal(jax.random.key(0), (4, 2, 4)) * 0.3, optax.adam(0.05)
state = optimizer.init(theta)
for i in range(steps):
    value, theta, state = step(theta, state)
    if i % (steps // 5) == 0 or i == steps - 1:
        print(f"step {i:3d}, energy {value:.5f}", flush=True)
exact = np.linalg.eigvalsh(ISING.to_matrix())[0]
print(f"exact {exact:.5f}, missed by {value - exact:.1e}")
