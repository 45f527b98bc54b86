"""The engine of docs/engines.md, installed as a package of its own, does what the page says."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "engines.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def block(language: str, number: int = 0) -> str:
    return [text for name, text in BLOCKS if name == language][number]


def installed(folder: Path, engine: str) -> str:
    """What the page's second program prints where `engine` is installed as dense.py."""
    (folder / "dense.py").write_text(engine)
    info = folder / "dense-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dense\nVersion: 1.0\n")
    points = tomllib.loads(block("toml"))["project"]["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items())
        for group, named in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (folder / "script.py").write_text(block("python", 1))
    run = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    return run.stdout + run.stderr


@pytest.mark.slow
def test_the_engine_of_the_page_works_as_it_says(tmp_path: Path) -> None:
    assert installed(tmp_path, block("python", 0)) == block("text")


@pytest.mark.slow
def test_a_mistake_in_the_engine_of_the_page_is_noticed(tmp_path: Path) -> None:
    engine = block("python", 0)
    wrong = engine.replace("- 1j * np.sin(half)", "+ 1j * np.sin(half)")
    assert wrong != engine
    assert "AssertionError: values: output" in installed(tmp_path, wrong)
