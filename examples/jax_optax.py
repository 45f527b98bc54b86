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

QUBITS = 4
PAIRS = [("ZZ", [q, (q + 1) % QUBITS], -1.0) for q in range(QUBITS)]
FIELD = [("X", [q], -1.0) for q in range(QUBITS)]
ISING = SparsePauliOp.from_sparse_list(PAIRS + FIELD, QUBITS)


@qml.qkernel(qubits=QUBITS)
def energy(qc, theta):
    """The energy of the magnet after the layers of theta (L, 2, 4)."""
    qc.h(range(QUBITS))
    for layer in theta:
        for q in range(QUBITS):
            qc.rzz(layer[0, q], q, (q + 1) % QUBITS)
        for q in range(QUBITS):
            qc.rx(layer[1, q], q)
    return ISING


def train(steps):
    """Energies (steps,): the whole training is one compiled loop."""
    optimizer = optax.adam(0.05)
    start = jax.random.normal(jax.random.key(0), (4, 2, QUBITS)) * 0.3

    def step(carry, _):
        theta, state = carry
        value, slope = jax.value_and_grad(energy)(theta)
        updates, state = optimizer.update(slope, state)
        return (optax.apply_updates(theta, updates), state), value

    return jax.lax.scan(step, (start, optimizer.init(start)), None, steps)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 steps")
    steps = 10 if parser.parse_args().quick else 200
    energies = jax.jit(train, static_argnums=0)(steps)
    exact = np.linalg.eigvalsh(ISING.to_matrix())[0]
    print("step  energy")
    for i in np.linspace(0, steps - 1, 6).astype(int):
        print(f"{i:4d}  {energies[i]:.5f}")
    print(f"exact {exact:.5f}, missed by {abs(energies[-1] - exact):.1e}")


if __name__ == "__main__":
    main()
