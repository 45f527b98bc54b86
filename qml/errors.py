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
import itertools
import re
import reprlib
from collections.abc import Iterable, Iterator


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


def carried(error: BaseException) -> QMLError | None:
    """The error of ours that an error is, or carries as text; None if there is none.

    What a callback raises, compiled code raises as another error, with the traceback as its text.

    >>> text = "INTERNAL: Traceback (most recent call last):\\n  ...\\nBudgetError: it is spent."
    >>> carried(RuntimeError(text)), carried(RuntimeError("another"))
    (BudgetError('it is spent.'), None)
    """
    if isinstance(error, QMLError):
        return error
    kinds = {kind.__name__: kind for kind in _below(QMLError)}
    name = rf"^(?:[\w.]+\.)?({'|'.join(kinds)}): "
    found = re.findall(rf"{name}(.*?)(?=^\S+Error: |\Z)", str(error), re.MULTILINE | re.DOTALL)
    return kinds[found[-1][0]](found[-1][1].strip()) if found else None


def _below(kind: type[QMLError]) -> Iterator[type[QMLError]]:
    yield kind
    for part in kind.__subclasses__():
        yield from _below(part)


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


def named(name: object) -> str:
    """A name for a message. What looks like a token is cut short: it may stand in a wrong place.

    >>> print(named("ibm_fez"), named("0123456789abcdef" * 8))
    'ibm_fez' '0123…' (128 characters)
    """
    if isinstance(name, str) and looks_like_token(name):
        return f"{name[:4] + '…'!r} ({len(name)} characters)"
    return repr(name) if isinstance(name, str) and len(name) < 80 else reprlib.repr(name)


def looks_like_token(text: str) -> bool:
    """Whether a text looks like a secret by what it is made of, as names of things do not.

    It is one word of at least 20 characters. Either 32 letters and digits of it follow each other,
    or in four of ten places capitals, small letters, digits and signs take turns.

    >>> looks_like_token("b3BlbnNlc2FtZTpSYW5kb20x"), looks_like_token("lightning.qubit")
    (True, False)
    """
    if len(text) < 20 or re.search(r"\s", text):
        return False
    kinds = [(c.islower(), c.isupper(), c.isdigit()) for c in text]
    turns = sum(one != other for one, other in itertools.pairwise(kinds))
    return re.search("[A-Za-z0-9]{32}", text) is not None or turns >= 0.4 * len(text)


def nearest(name: str, valid: Iterable[str], cutoff: float = 0.5) -> str:
    """A clause that names the valid choices, the nearest first: «did you mean 'aer'? Valid: ...».

    Upper and lower case count as equal when looking for the nearest one. None is named that is less
    alike than `cutoff`, of 1.

    >>> nearest("shot", ["shots", "seed"])
    "did you mean 'shots'? Valid: 'seed', 'shots'."
    >>> nearest("gpu", ["CPU", "GPU"])
    "did you mean 'GPU'? Valid: 'CPU', 'GPU'."
    """
    choices = sorted(valid)
    lowered: dict[str, str] = {}
    for choice in choices:
        lowered.setdefault(choice.lower(), choice)
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    hint = f"did you mean {lowered[close[0]]!r}? " if close else ""
    return f"{hint}Valid: {', '.join(map(repr, choices)) or 'none'}."
