"""Every error this library raises on purpose, one tree, each also a builtin.

    QMLError
    ├── ConfigError (ValueError)          a configuration file, table or key is wrong
    ├── UnknownNameError (LookupError)    a name nobody registered; lists the nearest
    ├── TracingError (ValueError)         a kernel function cannot become a circuit
    ├── UnsupportedCircuitError (NotImplementedError)   a circuit holds what has no derivative
    ├── ObservableError (ValueError)      a kernel returned something that cannot be measured
    ├── ArgumentError (TypeError)          missing, surplus or misspelt arguments
    ├── KernelNameError (ValueError)       a kernel's name belongs to another kernel
    ├── ShapeError (ValueError)           an argument has another shape than needed
    ├── DtypeError (TypeError)            an argument has a type that has no angle
    ├── DifferentiationError (TypeError)  a derivative that cannot be had, or not that way
    ├── SeedError (ValueError)            shots without a source of randomness
    ├── DeviceError (RuntimeError)        a device that is not there
    ├── EngineError (RuntimeError)        an engine failed or was asked for what it cannot do
    │   ├── JobError (RuntimeError)       a job failed; sending it again may help
    │   └── BudgetError (RuntimeError)    a request would exceed what a backend may spend
    └── MissingDependencyError (ImportError)   an optional package; names the extra to install

A message says what was asked, what was found, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class QMLError(Exception):
    """Base of all errors of this library."""


class ConfigError(QMLError, ValueError):
    """A configuration file, table or key is wrong."""


class UnknownNameError(QMLError, LookupError):
    """A name that nobody registered; the message lists the nearest valid ones."""


class TracingError(QMLError, ValueError):
    """A kernel function cannot become a circuit."""


class UnsupportedCircuitError(QMLError, NotImplementedError):
    """A circuit holds an instruction without a derivative, such as a measurement or a reset."""


class ObservableError(QMLError, ValueError):
    """A kernel returned something that cannot be measured."""


class ArgumentError(QMLError, TypeError):
    """Missing, surplus or misspelt arguments."""


class KernelNameError(QMLError, ValueError):
    """A kernel's explicit name belongs to another kernel."""


class ShapeError(QMLError, ValueError):
    """An argument has another shape than needed."""


class DtypeError(QMLError, TypeError):
    """An argument has a type that cannot be an angle."""


class DifferentiationError(QMLError, TypeError):
    """A derivative that does not exist, or not by the method asked for."""


class SeedError(QMLError, ValueError):
    """Shots were asked for without a source of randomness."""


class DeviceError(QMLError, RuntimeError):
    """A device that was asked for is not there."""


class EngineError(QMLError, RuntimeError):
    """An engine failed, or was asked for what it cannot do."""


class JobError(EngineError):
    """A job failed or was lost where it ran; sending it again may help."""


class BudgetError(EngineError):
    """A request would exceed the limits of a backend; nothing was sent."""


class MissingDependencyError(QMLError, ImportError):
    """An optional package is missing; the message names the extra to install."""


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that suits it.

    >>> in_bytes(1536), in_bytes(3 * 2**30), in_bytes(2.0**105)
    ('1.5 KiB', '3.0 GiB', '3.6e+16 PiB')
    """
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    for unit in units[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {units[-1]}" if count < 1e6 else f"{count:.1e} {units[-1]}"


def nearest(name: str, valid: Iterable[str]) -> str:
    """A clause that names the valid choices, the nearest first: «did you mean 'aer'? Valid: ...».

    Upper and lower case count as equal when looking for the nearest one.

    >>> nearest("shot", ["shots", "seed"])
    "did you mean 'shots'? Valid: 'seed', 'shots'."
    >>> nearest("gpu", ["CPU", "GPU"])
    "did you mean 'GPU'? Valid: 'CPU', 'GPU'."
    """
    choices = sorted(valid)
    lowered: dict[str, str] = {}
    for choice in choices:
        lowered.setdefault(choice.lower(), choice)
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    hint = f"did you mean {lowered[close[0]]!r}? " if close else ""
    return f"{hint}Valid: {', '.join(map(repr, choices)) or 'none'}."
