"""A potential for larger molecules: a small circuit per atom, with weights shared by an element.

The energy is a sum over atoms. Each atom's invariants (environments.py) are read by a linear map,
whose result is a part of its energy, and by another one that makes one angle per qubit; the circuit
encodes these in every layer, and a readout of its expectation values is the rest. Atoms of one
element share all weights, so like atoms may change places, a molecule may grow, and the atoms of a
frame are one batch of circuits.
"""

from typing import Any

import configuration
import jax
import jax.numpy as jnp
import numpy as np
from descriptors import Scaling
from environments import environments

import qml

Params = dict[str, Any]


def head(qubits: int, layers: int, entanglers: bool) -> qml.Kernel:
    """The kernel of one atom; its arguments are angles in radians, all of them (layers, qubits).

    It returns <Z> of each qubit, and <ZZ> of neighbours, in a ring, if they are coupled.
    """
    ring = [(q, (q + 1) % qubits) for q in range(qubits if qubits > 2 else qubits - 1)]
    couples = ring if entanglers else []

    @qml.qkernel(qubits=qubits, name=f"md_head_{qubits}_{layers}_{entanglers}")
    def atom_circuit(qc, turn, twist, coupling):
        for layer in range(layers):
            for q in range(qubits):
                qc.ry(turn[layer, q], q)
                qc.rz(twist[layer, q], q)
            for k, (p, q) in enumerate(couples):
                qc.rzz(coupling[layer, k], p, q)
        return [*(qml.Z(q) for q in range(qubits)), *(qml.Z(p) @ qml.Z(q) for p, q in couples)]

    return atom_circuit


class Heads:
    """The sum over atoms of a linear part and of a circuit's readout."""

    PAIRWISE = False
    QUANTUM = True
    LINEAR = ("linear", "readout", "atom")

    def __init__(
        self, symbols: tuple[str, ...], scaling: Scaling, settings: configuration.Heads
    ) -> None:
        self.settings = settings
        self.seen = environments(symbols, settings.radial)
        self.scale = scaling.environments
        self.kernel = head(settings.qubits, settings.layers, settings.entanglers)
        self.couples = settings.entanglers * (settings.qubits - (settings.qubits < 3))

    def initial(self, rng: np.random.Generator) -> Params:
        s, kinds, size = self.settings, len(self.seen.elements), self.seen.size
        angles = (kinds, s.layers, s.qubits)
        return {
            "linear": np.zeros((kinds, size)),
            "atom": np.zeros(kinds),
            "angle": rng.normal(0, 1 / np.sqrt(size), (kinds, s.qubits, size)),
            "slope": rng.normal(0, s.spread, angles) + 0.5,
            "offset": rng.normal(0, s.spread, angles),
            "twist": rng.normal(0, s.spread, angles),
            "coupling": rng.normal(0, s.spread, (kinds, s.layers, self.couples)),
            "readout": rng.normal(0, s.spread, (kinds, s.qubits + self.couples)),
        }

    def energy(
        self, params: Params, coordinates: jax.Array, key: jax.Array | None, backend: Any
    ) -> jax.Array:
        mean, deviation = self.scale[:, self.seen.element]
        variables = (self.seen(coordinates) - mean) / deviation  # (A, D)
        own = {name: value[self.seen.element] for name, value in params.items()}
        angle = jnp.einsum("iqd,id->iq", own["angle"], variables)
        turn = own["offset"] + own["slope"] * angle[:, None, :]
        values = jax.vmap(lambda *angles: self.kernel(*angles, key=key, backend=backend))(
            turn, own["twist"], own["coupling"]
        )
        linear = jnp.einsum("id,id->i", own["linear"], variables)
        return jnp.sum(own["atom"] + linear + jnp.einsum("im,im->i", own["readout"], values))
