"""Every example in a docstring runs, and shows what it says."""

import doctest
import importlib
import types
from pathlib import Path

import pytest

import qml

ROOT = Path(qml.__file__).resolve().parents[1]
FOLDERS = {
    "qml": "qml",
    "circuits": "qml.circuits",
    "simulators": "qml.simulators",
    "layers": "qml.layers",
}


def modules_with_examples() -> list[str]:
    found = []
    for folder, package in FOLDERS.items():
        home = ROOT / folder
        for path in sorted(home.glob("*.py") if package == "qml" else home.rglob("*.py")):
            if ">>> " in path.read_text():
                parts = path.relative_to(home).with_suffix("").parts
                found.append(".".join((package, *(part for part in parts if part != "__init__"))))
    return found


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_run(name):
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted and not failed


def test_a_wrong_example_is_noticed(capsys):
    module = types.ModuleType("wrong", ">>> 1 + 1\n3\n")
    assert doctest.testmod(module).failed == 1
    assert "Expected:" in capsys.readouterr().out


def test_the_modules_are_found():
    assert {"qml.config", "qml.errors", "qml.settings"} <= set(modules_with_examples())
