"""How this process ends: well, or not.

It ends well if it ends with status 0: the main program runs to its end, or calls sys.exit() or
sys.exit(0). It does not by any other status or text given to sys.exit, by an exception that nobody
handles, Ctrl-C among them, or by a signal. By the time `atexit` asks, Python has forgotten with
what it was ended, so that is watched from before:

- an exception that was printed is still known, in an interactive session the last one of all;
- the outermost frame of the main thread stopped at a return, or an exception went through it;
- if that was a SystemExit, sys.exit was told its status. It is replaced, when this module is
  imported, by one that remembers: `sys.exit(main())` looks it up before main() is called.

Of a SystemExit that was raised by hand the status is not known, and the process counts as one that
did not end well: what it leaves is taken over once more, which costs nothing.
"""

from __future__ import annotations

import opcode
import sys
import threading
from types import FrameType
from typing import Any, NoReturn

_RETURNS = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_UNKNOWN: Any = object()

_outermost: FrameType | None = None
_status: Any = _UNKNOWN
_exit = sys.exit


def _remembering(status: Any = None, /) -> NoReturn:
    global _status
    _status = status
    _exit(status)


sys.exit = _remembering


def watch() -> None:
    """Begins to watch the main program; more than once is as once."""
    global _outermost
    if _outermost is not None:
        return
    # Whoever calls this may be a thread of XLA.
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        _outermost, frame = frame, frame.f_back


def ended_well() -> bool:
    """Whether the process, which is at its end, has ended well."""
    if any(getattr(sys, name, None) is not None for name in ("last_exc", "last_value")):
        return False
    well = _status is None or (isinstance(_status, int) and _status == 0)
    if hasattr(sys, "ps1"):  # interactive: every statement has a frame of its own
        return well or _status is _UNKNOWN
    return well or _ran_to_its_end()


def _ran_to_its_end() -> bool:
    if _outermost is None:  # no program of Python
        return True
    code = _outermost.f_code.co_code
    return opcode.opname[code[_outermost.f_lasti]] in _RETURNS
