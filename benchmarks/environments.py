"""A virtual environment for each peer, so that no library's pins decide another's versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parents[1] / ".venv-peers"


def environment(pins: tuple[str, ...]) -> str:
    """The Python of an environment with these packages, made if it is not there."""
    if not pins:
        return sys.executable
    folder = ENVIRONMENTS / pins[0].partition("==")[0]
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(pins)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *pins], check=True)
    return str(python)
