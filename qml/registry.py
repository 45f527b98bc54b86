"""Named functions, and when a name may be taken again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from qml.errors import KernelNameError, UnknownNameError, nearest


class Named(Protocol):
    """What the registry needs to know of a kernel."""

    name: str
    num_qubits: int
    function: Callable[..., Any]


K = TypeVar("K", bound=Named)


class Registry(Mapping[str, K]):
    """All kernels of this process by name."""

    def __init__(self) -> None:
        self._kernels: dict[str, K] = {}

    def __getitem__(self, name: str) -> K:
        if name not in self._kernels:
            raise UnknownNameError(
                f"no kernel is registered as {name!r}: {nearest(name, self._kernels)} "
                "Import the module that defines it first."
            )
        return self._kernels[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The kernel of that name, or the default."""
        return self._kernels.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return f"<{len(self)} kernel(s): {', '.join(sorted(self))}>"

    def register(self, kernel: K, explicit: bool) -> None:
        """Lists a kernel under its name, in the place of one of the same name.

        Raises:
            KernelNameError: the name was chosen by the user, and belongs to a kernel whose code,
                constants, defaults or closure differ.
        """
        other = self._kernels.get(kernel.name)
        if explicit and other is not None and not same(other, kernel):
            raise KernelNameError(
                f"the name {kernel.name!r} belongs to another kernel, defined in "
                f"{other.function.__module__}, with other code, constants or closure. Choose "
                "another name, or leave name= out: automatic names are replaced on redefinition."
            )
        self._kernels[kernel.name] = kernel


def same(one: Named, other: Named) -> bool:
    """Whether two kernels have equal code, constants, defaults, closures and widths.

    What their functions read from globals is not compared.
    """
    f, g = one.function, other.function
    if not isinstance(f, FunctionType) or not isinstance(g, FunctionType):
        return f is g
    return one.num_qubits == other.num_qubits and _equal(_content(f), _content(g))


def _content(function: FunctionType) -> tuple[Any, ...]:
    cells = [_contents(cell) for cell in function.__closure__ or ()]
    keyword_defaults = sorted((function.__kwdefaults__ or {}).items())
    return _code(function.__code__), function.__defaults__, keyword_defaults, cells


def _contents(cell: CellType) -> object:
    """What a closure's cell holds; _UNKNOWN as long as its variable is not assigned."""
    try:
        return cell.cell_contents
    except ValueError:
        return _UNKNOWN


_UNKNOWN = object()
"""Equal to anything: which of two cells was filled first says nothing about the functions."""


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [_code(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames


def _equal(one: object, other: object) -> bool:
    """Equality of nested values, of arrays too; 1 and 1.0 differ, as they do in a circuit."""
    if one is _UNKNOWN or other is _UNKNOWN:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray | jax.Array):
        return np.array_equal(one, other)  # type: ignore[arg-type]
    return one is other or bool(one == other)
