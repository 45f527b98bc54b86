"""What scripts here have in common: arguments that are checked, and errors in one line."""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.figure import Figure

from qml.errors import carried


def first_seed(count: int) -> Callable[[str], int]:
    """For --seed: the first of so many seeds in a row, all of which NumPy takes."""

    def read(text: str) -> int:
        last = 2**32 - count
        if not text.isdecimal() or int(text) > last:
            raise argparse.ArgumentTypeError(f"must be an integer from 0 to {last}, got {text}")
        return int(text)

    return read


def picture(text: str) -> Path:
    """For --plot: a path at which a picture can be written."""
    path, formats = Path(text), Figure().canvas.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in formats:
        raise argparse.ArgumentTypeError(f"{path} must end in one of {', '.join(sorted(formats))}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"no file can be written at {path}")
    return path


@contextmanager
def told_in_one_line(parser: argparse.ArgumentParser) -> Iterator[None]:
    """An error of the library ends the script with its message alone, and status 1.

    Out of compiled code it comes as a RuntimeError of JAX, out of Keras as a ValueError; the text
    still tells them from others.
    """
    try:
        yield
    except (RuntimeError, ValueError, LookupError, TypeError, ImportError) as error:
        if (ours := carried(error)) is None:
            raise
        parser.exit(1, f"{parser.prog}: error: {ours}\n")
