"""`with qml.use(...)`: another backend for a block, seen by functions that were jitted before.

A variable of Python alone would leave a jitted function on the backend it was first traced with,
without a word. So the choice is also part of the key of JAX's caches: a jitted function is traced
once per backend, and found again on return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax

from qml.config import AMBIENT, resolve
from qml.errors import ConfigError
from qml.settings import EngineConfig

# Once, at import: making one is not thread-safe.
_JAX_BACKEND = jax.make_user_context(None)  # type: ignore[no-untyped-call]


@contextmanager
def use(backend: str | Mapping[str, Any] | EngineConfig | None) -> Iterator[EngineConfig]:
    """In this block and this thread, kernels run on `backend` unless told otherwise.

    `backend` is what `qml.config.resolve` takes; it is resolved on entry, and the block receives
    the configuration. Blocks nest, and the outer choice returns however the inner block ends. Also
    a decorator of plain functions (not of coroutines or generators, whose bodies run later).

    Threads started inside do not inherit the choice; enter a block of their own there. A layer
    keeps the backend it was built with, and an ahead-of-time compiled function the one it was
    compiled for. JAX's key holds the choice of `use` only: a change of QML_BACKEND or `qml.toml`
    reaches a function that is already traced when it is traced again.

    Raises:
        ConfigError, UnknownNameError: `backend` cannot be resolved.
        ConfigError: at the end of a block that was suspended by an `await`. Other tasks of the
            thread ran on its backend meanwhile, as JAX's key is per thread.

    >>> with use({"kind": "aer", "shots": 1000}) as config:
    ...     config.shots
    1000
    """
    config = resolve(backend)
    outer = AMBIENT.config
    with _never_suspended(), _JAX_BACKEND(config):
        AMBIENT.config = config
        try:
            yield config
        finally:
            AMBIENT.config = outer


@contextmanager
def _never_suspended() -> Iterator[None]:
    """An error at the end if the running event loop, if any, got its turn inside the block."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    turns: list[None] = []
    # The loop runs the callback the next time a task hands over to it.
    turn = loop.call_soon(turns.append, None)
    try:
        yield
    finally:
        turn.cancel()
    if turns:
        raise ConfigError(
            "a `with qml.use(...)` block was suspended by an `await`, and other tasks of this "
            "thread ran on its backend. Await outside of the block, or pass backend= instead."
        )
