"""The circuit of the H3O+ potential: a qubit per pair of atoms, symmetric in like atoms.

Each layer encodes the Morse variable of a pair into a rotation about Y of its qubit, turns all
qubits about Z, and couples every two of them by RZZ. Equivalent pairs share the angle about Z,
equivalent pairs of pairs the coupling, and the outputs are means of <Z> and <ZZ> over equivalent
ones: so like atoms may change places, and no output changes.
"""

from itertools import combinations

import numpy as np
from symmetry import orbits, pair_permutations, unordered_orbits

import qml
from qml.circuits.paulis import PauliSum

QUBITS = 15
"""The most pairs of atoms that get a qubit each: those of six atoms."""


def circuit(symbols: tuple[str, ...], layers: int, entanglers: bool) -> qml.Kernel:
    """The kernel of a molecule; without `entanglers` it has neither couplings nor <ZZ>.

    Its arguments are angles in radians: turn (layers, P), one per pair of atoms; twist (layers, G),
    one per kind of pair; coupling (layers, C), one per kind of pair of pairs, or (layers, 0). It
    returns (G + C,) values, or (G,).
    """
    group = pair_permutations(symbols)
    kind = orbits(group)
    couples = list(combinations(range(len(kind)), 2)) if entanglers else []
    coupled = unordered_orbits(group) if couples else np.zeros(0, int)

    @qml.qkernel(qubits=len(kind), name=f"md_{''.join(symbols)}_{layers}_{entanglers}")
    def pair_circuit(qc, turn, twist, coupling):
        for layer in range(layers):
            for q, k in enumerate(kind):
                qc.ry(turn[layer, q], q)
                qc.rz(twist[layer, k], q)
            for (p, q), k in zip(couples, coupled, strict=True):
                qc.rzz(coupling[layer, k], p, q)
        one = [qml.Z(q) for q in range(len(kind))]
        two = [qml.Z(p) @ qml.Z(q) for p, q in couples]
        return [*means(one, kind), *means(two, coupled)]

    return pair_circuit


def means(observables: list[PauliSum], kind: np.ndarray) -> list[PauliSum]:
    """The mean observable of each kind."""
    return [
        sum(observables[i] * (1 / len(of_kind)) for i in of_kind)
        for of_kind in (np.flatnonzero(kind == k) for k in range(kind.max(initial=-1) + 1))
    ]


def shapes(symbols: tuple[str, ...], layers: int, entanglers: bool) -> tuple[tuple[int, int], ...]:
    """The shapes of turn, twist and coupling."""
    group = pair_permutations(symbols)
    kinds = int(orbits(group).max()) + 1
    coupled = int(unordered_orbits(group).max(initial=-1)) + 1 if entanglers else 0
    return (layers, group.shape[1]), (layers, kinds), (layers, coupled)
