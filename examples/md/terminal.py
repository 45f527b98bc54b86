"""What the scripts here have in common on a terminal: bars, and errors in one line."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from command_line import told_in_one_line
from problems import MDError

WIDTH = 30


class Bar:
    """A progress bar on standard error; it takes no room where nobody watches.

    On a terminal it is one line, written over; in a log, a line every half a minute.
    """

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.started = self.shown = time.monotonic()
        self.open = False

    def __call__(self, what: str, done: int, total: int, words: str = "") -> None:
        """Shows that `done` of `total` is done, and a few words."""
        now, last = time.monotonic(), done >= total
        if not last and now - self.shown < (0.1 if self.live else 30):
            return
        self.shown = now
        filled = WIDTH * done // max(total, 1)
        seconds = f"{now - self.started:.0f} s"
        line = f"{what:10} |{'█' * filled:{WIDTH}}| {done}/{total} {seconds}  {words}"
        if self.live:
            print(f"\r{line}\033[K", end="\n" if last else "", file=sys.stderr, flush=True)
            self.open = not last
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends a line that was left open."""
        if self.open:
            print(file=sys.stderr)
            self.open = False


@contextmanager
def in_one_line(parser: argparse.ArgumentParser) -> Iterator[None]:
    """Errors of these scripts and of the library end with their message alone, and status 1."""
    try:
        with told_in_one_line(parser):
            yield
    except MDError as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")
