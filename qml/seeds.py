"""Where the randomness of a request with shots comes from: a key, or a root seed and a counter."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qml.budget import identity
from qml.errors import ArgumentError, SeedError
from qml.settings import EngineConfig

_counters: dict[EngineConfig, Iterator[int]] = {}
_lock = threading.Lock()


def request_seed(config: EngineConfig, key: Any = None) -> Any:
    """The seed of one request, a uint32 scalar: of `key`, else of the backend's seed and a counter.

    Two calls without a key differ, and two runs of the same program agree. An exact backend needs
    no seed and gets 0.

    Args:
        config: of the backend; see EngineConfig.draws.
        key: a JAX random key, or an integer. Under `vmap` over keys, the requests of all samples
            are one, and its seed depends on all keys together.

    Raises:
        ArgumentError: the key is neither.
        SeedError: under `jit` without a key, since the compiled function would repeat its noise.
    """
    if not config.draws:
        return np.uint32(0)
    if key is None:
        # Whether a computation on constants is staged is the one public sign of being under jit.
        if isinstance(jnp.zeros(()) + 0, jax.core.Tracer):
            raise SeedError(
                f"the {config.kind!r} backend draws at random, and under jit a kernel needs key=, "
                "as under scan, checkpoint and all else that JAX traces once: without it every "
                "call would repeat the same noise. Pass a fresh jax.random key as an argument of "
                "the traced function."
            )
        with _lock:
            count = next(_counters.setdefault(config, itertools.count()))
        # With the identity, since two backends that are compared must not share their noise; a
        # budget that is raised changes nothing.
        return _from_entropy([config.seed, count, int(identity(config)[:16], 16)])
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return _from_entropy([int(key) % 2**64])
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    if dtype is not None and shape == ():
        if jnp.issubdtype(dtype, jnp.integer):
            key = jax.random.key(key)
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            return jax.random.bits(key, (), jnp.uint32)
    if dtype == jnp.uint32 and shape == (2,):  # a raw key
        return jax.random.bits(key, (), jnp.uint32)
    raise ArgumentError(
        f"key= takes one JAX random key, as of jax.random.key(0), or an integer, got {key!r}."
    )


def _from_entropy(entropy: list[int]) -> np.uint32:
    return np.uint32(np.random.SeedSequence(entropy).generate_state(1)[0])
