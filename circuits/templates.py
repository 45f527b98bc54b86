"""Ready kernels: how they are named, checked, and made once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from qml.circuits.observables import measurement, probs
from qml.circuits.paulis import Z
from qml.errors import ArgumentError, ObservableError, ShapeError
from qml.kernel import Kernel, kernels

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

Shape = tuple[int, ...]
Observables = Sequence[str] | str | None

PREFIX: Final = "qml.circuits.library."
"""How the names of all ready kernels begin."""

_SURPLUS: Final = {"layers": 0, "layers + 1": 1}
"""First axis of a weight: how much longer than the number of layers."""

Template = Mapping[str, tuple[str | int, ...]]
"""The shape of each argument of a ready kernel; a weight's begins with a key of _SURPLUS."""

_templates: Final[dict[Kernel, Template]] = {}
_lock: Final = RLock()


class _Ready(Kernel):
    """A kernel that is pickled by the call which makes it, so that the reader needs none yet."""

    _call: tuple[Callable[..., Kernel], dict[str, Any]]

    def __init__(
        self,
        function: Callable[..., Any],
        num_qubits: int,
        name: str,
        factory: Callable[..., Kernel],
        options: dict[str, Any],
    ) -> None:
        super().__init__(function, num_qubits, name)
        self.__dict__["_call"] = factory, options

    def __reduce__(self) -> tuple[Any, ...]:
        factory, options = self._call
        return functools.partial(factory, **options), ()


def ready(
    factory: Callable[..., Kernel],
    write: Callable[..., None],
    template: Template,
    observables: Observables,
    qubits: int,
    options: Mapping[str, Any] | None = None,
    default: Sequence[Any] = (),
) -> Kernel:
    """The kernel that `write` and the observables make, once.

    Raises:
        ObservableError: these observables cannot be measured.
    """
    options = {"qubits": qubits, **(options or {})}
    outputs = default or [Z(q) for q in range(qubits)]
    if observables is not None:
        outputs, options["observables"] = _outputs(observables, qubits)
    name = f"{PREFIX}{factory.__name__}({', '.join(f'{k}={v!r}' for k, v in options.items())})"

    @functools.wraps(write)
    def function(qc: QuantumCircuit, *args: Any, **kwargs: Any) -> list[Any]:
        bound = inspect.signature(write).bind(qc, *args, **kwargs).arguments
        circuit, *rest = bound.items()
        arrays = {argument: np.asarray(value, dtype=object) for argument, value in rest}
        _check_shapes(name, template, {k: array.shape for k, array in arrays.items()})
        write(circuit[1], **arrays)
        return list(outputs)

    function.__doc__ = factory.__doc__
    # What a kernel shows of itself: the names.
    signature = inspect.signature(write)
    names = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    shown = signature.replace(parameters=names, return_annotation=signature.empty)
    function.__signature__ = shown  # type: ignore[attr-defined]
    with _lock:
        found = kernels.get(name)
        if found in _templates:
            return found  # type: ignore[no-any-return]
        kernel = _Ready(function, qubits, name, factory, options)
        kernels.register(kernel, explicit=True)
        _templates[kernel] = template
        return kernel


def _outputs(observables: Observables, qubits: int) -> tuple[list[Any], Any]:
    """What the kernel returns, and how its name says so."""
    if observables == "probs":
        return [probs()], "probs"
    words = isinstance(observables, str) or not isinstance(observables, Iterable)
    labels = [] if words else list(observables)  # type: ignore[arg-type]
    if not labels or not all(isinstance(label, str) for label in labels):
        raise ObservableError(
            "observables of a ready kernel are a list of Pauli labels, qubit 0 rightmost, such as "
            f"['{'Z' * qubits}'], or 'probs', got {observables!r}. Sums of them are taken outside."
        )
    measurement(labels, qubits)
    return labels, labels


def _check_shapes(name: str, template: Template, shapes: Mapping[str, Shape]) -> None:
    layers = None
    for argument, found in shapes.items():
        expected = template[argument]
        surplus = _SURPLUS.get(str(expected[0])) if expected else None
        if surplus is None:
            fits = found == expected
        else:
            here = found[0] - surplus if found else 0
            fits = found[1:] == expected[1:] and here >= 1 and layers in (None, here)
            layers = here if layers is None else layers
        if not fits:
            sizes = ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "")
            others = "" if layers is None else ", with as many layers in every weight, at least 1"
            raise ShapeError(
                f"{name}: the argument {argument!r} must have shape ({sizes}){others}, but has "
                f"shape {found}."
            )


def _sizes(shape: tuple[str | int, ...], layers: int) -> Shape:
    return tuple(size if isinstance(size, int) else layers + _SURPLUS[size] for size in shape)


def weights(kernel: Kernel, layers: int) -> dict[str, Shape]:
    """Name and shape of every weight of a ready kernel: what a QuantumLayer takes as `weights`.

    Args:
        kernel: one made by a function of qml.circuits.library.
        layers: how many, at least 1.

    Raises:
        ArgumentError: it is none, or layers is no count.

    >>> from qml.circuits import library
    >>> weights(library.matchgate(3), layers=2)
    {'theta': (3, 2, 2), 'phases': (2, 3)}
    """
    if not isinstance(kernel, Kernel) or kernel not in _templates:
        raise ArgumentError(
            f"{kernel!r} was not made by qml.circuits.library, which knows the shapes of its own "
            "kernels only. Write weights={name: shape} by hand."
        )
    layers = count("layers", layers, 1)
    template = _templates[kernel]
    return {name: _sizes(shape, layers) for name, shape in template.items() if name != "x"}


def count(what: str, value: Any, least: int) -> int:
    """A count that a user gave.

    Raises:
        ArgumentError: it is no integer, or less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ArgumentError(f"{what} must be an integer of at least {least}, got {value!r}.")
    return int(value)
