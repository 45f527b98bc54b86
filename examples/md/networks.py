"""Dense networks with tanh on P variables, and their mean over permutations of the variables.

    E(x) = a . tanh(W_n tanh(... W_1 x + b_1 ...) + b_n)

There is no bias behind the last layer: the constant of the potential is that. With tanh the energy
has derivatives of every order, so forces and frequencies are smooth.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from problems import MDError

Weights = Mapping[str, np.ndarray | jax.Array]
"""kernel0 (P, H1), bias0 (H1,), kernel1 (H1, H2), ..., and the last kernel (Hn, 1)."""


def initial(
    rng: np.random.Generator, widths: Sequence[int], spread: float = 1.0
) -> dict[str, np.ndarray]:
    """First weights: normal with deviation spread / sqrt(inputs of the layer); biases are zero.

    Args:
        widths: P, then those of the hidden layers; the output is one number.

    Raises:
        MDError: there is no hidden layer, or a width that is no positive integer.

    >>> {k: v.shape for k, v in initial(np.random.default_rng(0), (6, 9)).items()}
    {'kernel0': (6, 9), 'bias0': (9,), 'kernel1': (9, 1)}
    """
    _check(widths)
    weights = {}
    outputs = (*widths[1:], 1)
    for k, (inside, outside) in enumerate(zip(widths, outputs, strict=True)):
        weights[f"kernel{k}"] = rng.normal(0, spread / np.sqrt(inside), (inside, outside))
        if k < len(widths) - 1:
            weights[f"bias{k}"] = np.zeros(outside)
    return weights


def count(widths: Sequence[int]) -> int:
    """How many weights a network of these widths has.

    >>> count((6, 9)), count((6, 6, 4))
    (72, 74)
    """
    _check(widths)
    return sum((inside + 1) * outside for inside, outside in pairwise(widths)) + widths[-1]


def _check(widths: Sequence[int]) -> None:
    if len(widths) < 2 or any(not isinstance(w, int | np.integer) or w < 1 for w in widths):
        raise MDError(
            f"widths must be the number of variables and then of each hidden layer, positive "
            f"integers, at least two of them; got {tuple(widths)}"
        )


def apply(weights: Weights, x: jax.Array) -> jax.Array:
    """The value () of the network at variables (P,); for (..., P) it is (...,)."""
    depth = len(weights) // 2
    for k in range(depth):
        x = jnp.tanh(x @ weights[f"kernel{k}"] + weights[f"bias{k}"])
    return (x @ weights[f"kernel{depth}"])[..., 0]


def averaged(weights: Weights, x: jax.Array, group: np.ndarray) -> jax.Array:
    """The mean () of the network over permutations (G, P) of variables (P,).

    If they form a group, the mean is the same for every one of the permuted variables.
    """
    return jnp.mean(apply(weights, x[group]))
