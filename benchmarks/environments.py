"""A virtual environment for each peer, so that no library's pins decide another's versions."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parents[1] / ".venv-peers"


@lru_cache
def environment(pins: tuple[str, ...]) -> str:
    """The Python of an environment with these packages, made if it is not there.

    Raises:
        subprocess.CalledProcessError: they cannot be installed; `stderr` says why.
    """
    if not pins:
        return sys.executable
    folder = ENVIRONMENTS / pins[0].partition("==")[0]
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(pins)} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", *pins]
    subprocess.run(install, check=True, stderr=subprocess.PIPE, text=True)
    return str(python)
