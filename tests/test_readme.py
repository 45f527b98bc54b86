"""The README's programs run in the order they stand, and print what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
NUMBER = re.compile(r"-?\d+\.\d*")

# A program, and the text block that follows it, if one does before the next program.
PROGRAMS = re.findall(r"```python\n(.*?)```\n(?:\s*```text\n(.*?)```)?", README, re.DOTALL)


def output(program: str, tmp_path: Path) -> str:
    script = tmp_path / "readme.py"
    script.write_text(program)
    run = subprocess.run(
        [sys.executable, script], env=environment(), cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def same_within_the_last_digit(found: str, promised: str) -> bool:
    """Equal but for numbers, which may differ by one in the last digit that is shown."""
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", promised).split():
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(promised), strict=True)
    return all(abs(float(a) - float(b)) < 1.01 * 10.0 ** -len(b.split(".")[1]) for a, b in pairs)


@pytest.mark.slow
def test_the_first_program_prints_what_the_readme_says(tmp_path: Path) -> None:
    program, promised = PROGRAMS[0]
    assert same_within_the_last_digit(output(program, tmp_path), promised)


@pytest.mark.slow
def test_the_programs_about_kernels_print_what_the_readme_says(tmp_path: Path) -> None:
    (kernel, promised), (backends, _) = PROGRAMS[1:3]
    assert same_within_the_last_digit(output(kernel + backends, tmp_path), promised)


@pytest.mark.slow
def test_the_program_about_costs_prints_what_the_readme_says(tmp_path: Path) -> None:
    ((program, promised),) = PROGRAMS[3:]
    assert output(program, tmp_path).split() == promised.split()


def test_a_wrong_number_is_noticed() -> None:
    assert same_within_the_last_digit("loss 0.13 -> 0.003", "loss 0.13 -> 0.002")
    assert not same_within_the_last_digit("loss 0.13 -> 0.003", "loss 0.13 -> 0.005")
    assert not same_within_the_last_digit("loss 0.13 0.003", "cost 0.13 0.003")
