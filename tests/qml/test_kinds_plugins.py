"""Kinds that other packages add by an entry point."""

import importlib
import sys
from pathlib import Path

import pytest

from qml.config import backends, resolve
from qml.errors import ConfigError, EngineError, MissingDependencyError, UnknownNameError
from qml.kinds import KINDS, AerConfig, kinds, model, plugins
from qml.settings import EngineConfig
from qml.simulators.registry import engine

ENGINE = """
from pydantic import Field
from qml.settings import EngineConfig

class Config(EngineConfig):
    shifts: int = Field(default=2, ge=1, description="an integer from 1")

class Engine:
    Config = Config
    def __init__(self, config):
        self.config = config

    def check(self, program): ...
    def cost(self, program, rows, outputs): ...
    def expval(self, program, angles, *, outputs, seed): ...

class Failing(Engine):
    def __init__(self, config):
        raise ZeroDivisionError("the laser is off")

class Strict(Config):
    def _check(self):
        raise LookupError("no lens")

class Unreadable(Engine):
    Config = Strict

class Half:
    Config = Config
    def __init__(self, config): ...

class Without: ...

class Wrong:
    Config = dict
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package as a folder of its metadata and a module, both found by Python itself."""

    def add(package, points):
        info = tmp_path / "site" / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[qml.simulators]", *lines]))
        importlib.invalidate_caches()
        plugins.cache_clear()

    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "their_engine.py").write_text(ENGINE)
    (tmp_path / "site" / "their_broken.py").write_text("import not_there_at_all")
    (tmp_path / "site" / "their_crash.py").write_text("1 / 0")
    (tmp_path / "site" / "their_extra.py").write_text(
        "from qml.errors import MissingDependencyError\n"
        "raise MissingDependencyError('theirs needs x: pip install theirs[x]')"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield add
    plugins.cache_clear()
    for module in ("their_engine", "their_broken", "their_crash", "their_extra"):
        sys.modules.pop(module, None)


def test_a_package_adds_a_kind_by_an_entry_point(install):
    install("theirs", {"photonics": "their_engine:Engine"})
    assert kinds() == sorted([*KINDS, "photonics"]) and backends()["photonics"] == "photonics"
    by_name = resolve("photonics")
    assert (by_name.kind, by_name.shifts, by_name.seed) == ("photonics", 2, 0)
    assert resolve({"kind": "photonics"}) == by_name == resolve({"kind": "photonics", "shifts": 2})
    assert model("photonics") is type(by_name) and issubclass(model("photonics"), EngineConfig)
    Path("qml.toml").write_text(
        "backend = 'x'\n[backends.x]\nkind = 'photonics'\nshifts = 5\nseed = 3"
    )
    assert (resolve().shifts, resolve().seed) == (5, 3)


def test_its_keys_are_read_as_strictly_as_ours(install):
    install("theirs", {"photonics": "their_engine:Engine"})
    for wrong, found in [
        ({"shift": 3}, "no key 'shift': did you mean 'shifts'?"),
        ({"shots": 3}, "no key 'shots': did you mean 'shifts'?"),
        ({"shifts": 0}, "'shifts' must be an integer from 1, got 0 (int)"),
        ({"shifts": "3"}, "'shifts' must be an integer from 1, got '3' (str)"),
        ({"gradient": "adjoint"}, "'gradient' must be 'auto', 'parameter_shift' or 'spsa'"),
        ({"password": "x"}, "'password' looks like a secret"),
    ]:
        with pytest.raises(ConfigError) as caught:
            resolve({"kind": "photonics", **wrong})
        assert found in str(caught.value)
    for wrong in ("photonic", "Photonics", "PHOTONICS", "phtonics", "photnoics"):
        with pytest.raises(UnknownNameError, match=f"no kind '{wrong}': did you mean 'photonics'"):
            resolve({"kind": wrong})


def test_an_engine_of_another_package_is_made_of_its_configuration(install):
    install("theirs", {"photonics": "their_engine:Engine"})
    config = resolve({"kind": "photonics", "shifts": 7})
    assert engine(config).config is config


def test_a_kind_of_ours_is_not_replaced(install):
    install("theirs", {"aer": "their_engine:Engine", "photonics": "their_engine:Engine"})
    assert "aer" not in plugins() and "photonics" in plugins()
    assert resolve("aer") == AerConfig() and model("aer") is AerConfig


def test_a_kind_that_two_packages_add_is_refused_with_both(install):
    install("theirs", {"photonics": "their_engine:Engine"})
    install("others", {"photonics": "their_engine:Wrong"})
    with pytest.raises(ConfigError, match="two packages add a kind 'photonics'") as caught:
        resolve("photonics")
    assert "'their_engine:Engine'" in str(caught.value) and "Wrong'" in str(caught.value)
    assert resolve("aer") == AerConfig()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("their_engine:Without", "its class must have an attribute Config, a subclass of"),
        ("their_engine:Wrong", "its class must have an attribute Config, a subclass of"),
        ("their_engine:Absent", "cannot be imported: AttributeError: .*Absent.*Mend, reinstall"),
        ("their_broken:Engine", "imported: ModuleNotFoundError: No module .*'not_there_at_all'"),
        ("nowhere_at_all:Engine", "imported: ModuleNotFoundError: No module .*'nowhere_at_all'"),
        ("their_crash:Engine", "cannot be imported: ZeroDivisionError: division by zero. Mend, "),
    ],
)
def test_a_package_that_is_broken_is_named_when_its_kind_is_asked_for(install, value, found):
    install("theirs", {"photonics": value})
    with pytest.raises(ConfigError, match=f"the kind 'photonics' of '{value}'.*{found}"):
        resolve({"kind": "photonics"})
    assert resolve("aer") == AerConfig() and "photonics" in kinds()


def test_what_a_package_raises_when_it_is_imported_is_the_cause(install):
    install("theirs", {"photonics": "their_crash:Engine"})
    for ask in (lambda: resolve("photonics"), lambda: resolve({"kind": "photonics"})):
        with pytest.raises(ConfigError) as caught:
            ask()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_engine_that_cannot_be_made_is_told_as_its_packages_fault(install):
    install("theirs", {"photonics": "their_engine:Failing"})
    said = "'photonics', 'their_engine:Failing', cannot be made: ZeroDivisionError: the laser is "
    with pytest.raises(EngineError, match=f"{said}off. Mend, reinstall or uninstall") as caught:
        engine(resolve("photonics"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_so_are_keys_that_cannot_be_read(install):
    install("theirs", {"photonics": "their_engine:Unreadable"})
    for ask in (lambda: resolve("photonics"), lambda: resolve({"kind": "photonics"})):
        with pytest.raises(
            ConfigError, match="their_engine:Strict: LookupError: no lens"
        ) as caught:
            ask()
        assert isinstance(caught.value.__cause__, LookupError)


def test_an_engine_that_lacks_a_method_is_refused_before_it_is_asked(install):
    install("theirs", {"photonics": "their_engine:Half"})
    with pytest.raises(EngineError, match="'their_engine:Half'.*lacks a method of .*Engine"):
        engine(resolve("photonics"))


def test_a_package_may_say_what_it_needs(install):
    install("theirs", {"photonics": "their_extra:Engine"})
    with pytest.raises(MissingDependencyError, match="pip install theirs"):
        resolve({"kind": "photonics"})
