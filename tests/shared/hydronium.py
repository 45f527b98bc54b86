"""H3O+ as the tests of molecular dynamics want it: frames of a made-up potential, and models."""

from functools import cache

import numpy as np
from configuration import Recipe, Training
from descriptors import all_distances, spread_of
from fitting import fit
from frames import Frames
from molecules import MOLECULES
from potentials import Model, Potential, model_for
from symmetry import pair_kinds, pairs

SYMBOLS = MOLECULES["h3o"].symbols
RECIPES = {
    "polynomial": {"polynomial": {"degree": 3}},
    "circuit": {"circuit": {"layers": 4}},
    "unentangled": {"circuit": {"layers": 4, "entanglers": False}},
    "mixed": {"circuit": {"layers": 3, "mixing": True}},
    "delta": {"polynomial": {"degree": 3}, "circuit": {"layers": 4}},
    "network": {"network": {"widths": [6, 4]}},
    "classical": {"polynomial": {"degree": 3}, "network": {"widths": [6]}},
    "small": {"polynomial": {"degree": 2}, "circuit": {"layers": 1}},
    "heads": {"heads": {"qubits": 3, "layers": 2, "radial": 4}},
}


def frames(count: int, seed: int = 0) -> Frames:
    """Frames near the equilibrium, with energies and forces of Morse bonds between all atoms."""
    rng = np.random.default_rng(seed)
    start = np.array(MOLECULES["h3o"].start)
    positions = start + rng.normal(0, 0.06, (count, *start.shape))
    between = np.array([positions[:, i] - positions[:, j] for i, j in pairs(len(start))])
    r = all_distances(positions).T
    middle = np.where(pair_kinds(SYMBOLS) == 0, 0.98, 1.6)[:, None]
    decay = np.exp(-1.7 * (r - middle))
    slope = 2 * 4.0 * 1.7 * decay * (1 - decay)
    forces = np.zeros_like(positions)
    for (i, j), push in zip(pairs(len(start)), (slope / r)[..., None] * between, strict=True):
        forces[:, i] -= push
        forces[:, j] += push
    energies = np.sum(4.0 * (1 - decay) ** 2, axis=0) - 2000.0
    return Frames(SYMBOLS, positions, energies, forces, np.full(count, 300.0))


@cache
def model(name: str) -> Model:
    """The model of a recipe, scaled to such frames."""
    return model_for(Recipe(**RECIPES[name]), frames(40))


@cache
def trained(name: str = "delta") -> Potential:
    """A potential that has been fitted to such frames, a little."""
    of, train = model(name), frames(40)
    params, _ = fit(of, train, frames(10, seed=1), Training(polish=8))
    spread = spread_of(train.positions, pair_kinds(SYMBOLS))
    return Potential(of, params, spread, {"molecule": "h3o"})
