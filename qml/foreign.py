"""Calls of code that is not ours: plug-ins, factories, devices, estimators, services."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qml.errors import ConfigError, QMLError, UnknownNameError, nearest


@contextmanager
def foreign(
    tell: Callable[[Exception], Exception],
    *,
    kept: type[Exception] = QMLError,
    chained: bool = True,
) -> Iterator[None]:
    """In this block, which calls foreign code and nothing else, its errors become those of `tell`.

    Args:
        tell: from what was raised to what is raised instead.
        kept: what goes through as it is; by default what foreign code raises of ours.
        chained: whether what was raised becomes the cause. If not, no traceback shows it.

    >>> with foreign(raised("the kind 'x' cannot be imported", ConfigError, "Uninstall it.")):
    ...     {}["lens"]
    Traceback (most recent call last):
        ...
    qml.errors.ConfigError: the kind 'x' cannot be imported: KeyError: 'lens'. Uninstall it.
    """
    try:
        yield
    except kept:
        raise
    except Exception as error:
        # The one place where everything is caught: nobody can know what the code of others raises,
        # and its user must be told whose fault it is. Nothing is swallowed.
        raise tell(error) from (error if chained else None)


def raised(
    what: str, kind: type[QMLError], advice: str = "", hide: Callable[[str], str] = str
) -> Callable[[Exception], QMLError]:
    """For `foreign`: what failed, what was raised, what to do. `hide` leaves secrets out."""
    return lambda error: kind(f"{what}: {told(error, hide)}. {advice}".rstrip())


def told(error: Exception, hide: Callable[[str], str] = str) -> str:
    """An error in one sentence, without its full stop.

    >>> told(KeyError("a")), told(ValueError("no.")), told(AssertionError())
    ("KeyError: 'a'", 'ValueError: no', 'AssertionError')
    """
    # Some errors of Qiskit are tuples of sentences.
    text = " ".join(map(str, error.args)) if len(error.args) > 1 else str(error)
    text = "; ".join([*filter(None, [text]), *getattr(error, "__notes__", ())])
    sentence = hide(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    return sentence if sentence.endswith("..") else sentence.removesuffix(".")


def function_at(key: str, place: str) -> tuple[Callable[..., Any], inspect.Signature]:
    """The function, or class, that a configuration names by `key` = "module:function", imported.

    Raises:
        ConfigError: importing its module raises something, or it does not say what it takes.
        UnknownNameError: the module has no function of that name.

    >>> function_at("factory", "math:sqrt")[1]
    <Signature (x, /)>
    """
    module, _, name = place.partition(":")
    advice = (
        "A module is found on sys.path, as by `import`: run from its folder, install it, or set "
        "PYTHONPATH. An error in it is for its author to mend."
    )
    with foreign(raised(f"{key} = {place!r} cannot be imported", ConfigError, advice)):
        found = importlib.import_module(module)
        function = getattr(found, name, None)
    if not callable(function):
        functions = [key for key, value in vars(found).items() if callable(value)]
        raise UnknownNameError(
            f"{key} = {place!r}: the module has no function {name!r}; {nearest(name, functions)}"
        )
    advice = "Name a function of Python that calls it."
    with foreign(raised(f"{key} = {place!r} does not say what it takes", ConfigError, advice)):
        signature = inspect.signature(function)
    return function, signature
