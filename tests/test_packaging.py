"""What we ship: every module on disk is in the wheel, under qml/ and nowhere else."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
LINKED = ("circuits", "layers", "simulators")


def on_disk() -> set[str]:
    """The modules of the source tree, by their paths in an installation."""
    own = {f"qml/{path.name}" for path in (ROOT / "qml").glob("*.py")}
    linked = (path for folder in LINKED for path in (ROOT / folder).rglob("*.py"))
    return own | {f"qml/{path.relative_to(ROOT).as_posix()}" for path in linked}


def test_every_folder_with_modules_is_a_listed_package() -> None:
    folders = {str(Path(module).parent).replace("/", ".") for module in on_disk()}
    assert folders == set(SETUPTOOLS["packages"])


def test_every_package_has_an_init() -> None:
    inits = {f"{package.replace('.', '/')}/__init__.py" for package in SETUPTOOLS["packages"]}
    assert inits <= on_disk()


@pytest.mark.parametrize("folder", LINKED)
def test_a_checkout_has_the_folders_of_an_installation(folder: str) -> None:
    link = ROOT / "qml" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..") / folder
    assert SETUPTOOLS["package-dir"][f"qml.{folder}"] == folder


@pytest.mark.slow
def test_the_wheel_of_the_sdist_holds_every_module_under_qml(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a build leaves files in the tree it builds
    skip = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, source, symlinks=True, ignore=skip)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), "."]
    run = subprocess.run(build, cwd=source, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    shipped = {name for name in names if ".dist-info/" not in name}
    assert shipped == on_disk() | {"qml/py.typed"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
