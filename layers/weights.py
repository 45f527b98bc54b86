"""What Keras does to each weight of a layer: initializers, regularizers, constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qml.errors import ArgumentError, nearest


class PerWeight:
    """A Keras object for each weight: one for all of them, or a mapping by name.

    Args:
        role: "initializer", "regularizer" or "constraint", as the user calls the argument.
        given: what Keras takes for that (an object, a name, a configuration, None), or a mapping
            of the names of weights to such.
        names: of all weights.
        module: keras.initializers, keras.regularizers or keras.constraints.
        default: of a weight for which nothing is given.

    Raises:
        ArgumentError: the mapping names what is no weight.
    """

    def __init__(
        self, role: str, given: Any, names: Sequence[str], module: Any, default: Any = None
    ) -> None:
        by_name = isinstance(given, Mapping) and "class_name" not in given
        for name in given if by_name else ():
            if name not in names:
                raise ArgumentError(
                    f"{role}: there is no weight {name!r}; {nearest(str(name), names)}"
                )
        self._module = module
        self._default = default
        self._named = {n: module.get(g) for n, g in given.items()} if by_name else None
        self._common = default if by_name or given is None else module.get(given)

    def of(self, name: str) -> Any:
        """That of one weight; an initializer anew each time, with random numbers of its own."""
        found = self._common if self._named is None else self._named.get(name)
        found = self._default if found is None else found
        return found.clone() if hasattr(found, "clone") else found

    def get_config(self) -> Any:
        """Plain data that stands for `given`."""
        if self._named is None:
            return None if self._common is None else self._module.serialize(self._common)
        return {
            name: None if found is None else self._module.serialize(found)
            for name, found in self._named.items()
        }
