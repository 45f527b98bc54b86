"""Files that are complete or not there, whenever a run is killed."""

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes `content` beside `path`, then moves it there in one step; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
