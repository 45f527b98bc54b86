"""Runs of molecular dynamics as scripts: files, restarts to the byte, and what is refused."""

from pathlib import Path

import ase.io
import numpy as np
import pytest
import run_md
from hydronium import trained

ARGUMENTS = ("--steps", "40", "--every", "2", "--seed", "3", "--timestep", "0.25")
CASES = [
    ("--ensemble", "nve"),
    ("--ensemble", "langevin"),
    ("--ensemble", "nve", "--integrator", "ase"),
    ("--ensemble", "langevin", "--integrator", "ase"),
]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """start(*arguments): runs the script on a potential, in a folder of its own."""
    trained("small").save(tmp_path / "p.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_md, "CHUNK", 5)

    def begin(*arguments: str) -> None:
        monkeypatch.setattr("sys.argv", ["run_md.py", "p.json", *arguments])
        run_md.main()

    return begin


def files(folder: str) -> list[bytes]:
    return [Path(folder, name).read_bytes() for name in ("trajectory.xyz", "log.csv")]


pytestmark = pytest.mark.filterwarnings("ignore::problems.ExtrapolationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_killed_run_goes_on_to_the_same_bytes(
    case: tuple[str, ...], start, monkeypatch: pytest.MonkeyPatch
):
    start(*ARGUMENTS, *case, "--output", "whole")

    class Killed(Exception): ...

    kept = []
    save = run_md.save_state

    def die_at_the_third(*arguments: object) -> None:
        kept.append(arguments)
        if len(kept) == 3:  # the files are a piece further than the checkpoint
            raise Killed
        save(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(run_md, "save_state", die_at_the_third)
        with pytest.raises(Killed):
            start(*ARGUMENTS, *case, "--output", "again")
    with Path("again", "log.csv").open("a") as log:
        log.write("22,5.5,-2")  # and half a line
    with Path("again", "trajectory.xyz").open("a") as trajectory:
        trajectory.write("4\nProperties=spec")
    start(*ARGUMENTS, *case, "--output", "again", "--restart")
    assert files("again") == files("whole")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[1:3], ids=" ".join)
def test_a_run_that_is_extended_is_the_longer_run(case: tuple[str, ...], start):
    start(*ARGUMENTS, *case, "--output", "long")
    start("--steps", "16", *ARGUMENTS[2:], *case, "--output", "short")
    start(*ARGUMENTS, *case, "--output", "short", "--restart")
    assert files("short") == files("long")


@pytest.mark.slow
def test_a_quick_run_prints_the_table_and_leaves_its_files(
    start, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    start("--quick", "--output", "md")
    told = capsys.readouterr().out
    for word in ("steps", "temperature", "drift", "bonds", "angles", "first piece", "outside"):
        assert word in told, word
    images = ase.io.read("md/trajectory.xyz", index=":", format="extxyz")
    assert len(images) == 20 and images[-1].info["time_fs"] == 20.0
    rows = run_md.Files(Path("md")).rows()
    np.testing.assert_allclose(rows[:, 4], rows[:, 2] + rows[:, 3], atol=1e-12)
    assert np.ptp(rows[:, 4]) < 0.05 < np.ptp(rows[:, 3])  # eV: energy goes to and fro
    assert Path("md/run.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def told(start, capsys: pytest.CaptureFixture[str]):
    """told(*arguments): the one line in which the script refuses them."""

    def refuse(*arguments: str) -> str:
        with pytest.raises(SystemExit) as caught:
            start(*arguments)
        assert caught.value.code in (1, 2)
        return capsys.readouterr().err.rstrip("\n").rpartition("run_md.py: error: ")[2]

    return refuse


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--steps", "0"), "--steps must be above 0, got 0"),
        (("--temperature", "-5"), "--temperature must be above 0, got -5.0"),
        (("--steps", "5", "--every", "2"), "--steps 5 is no multiple of --every 2"),
        (("--timestep", "nan"), "--timestep must be above 0, got nan"),
        (("--backend", "are"), "did you mean 'aer'?"),
        (("--restart",), "cannot be read as a checkpoint"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(arguments: tuple[str, ...], sentence: str, told):
    line = told(*arguments)
    assert sentence in line and "\n" not in line


def test_a_checkpoint_of_other_arguments_is_refused(start, told):
    start("--quick", "--output", "md")
    assert "is the checkpoint of another run" in told(
        "--quick", "--output", "md", "--restart", "--timestep", "1"
    )


def test_a_molecule_that_comes_apart_is_told(start, told):
    line = told("--timestep", "30", "--temperature", "3000", "--steps", "400", "--every", "1")
    assert "the molecule has come apart" in line and "Take a shorter timestep" in line


@pytest.mark.slow
def test_noise_without_a_bath_is_told_first_and_wants_to_be_accepted(
    start, told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "qml.toml").write_text('[backends.shots]\nkind = "aer"\nshots = 50\nseed = 1\n')
    arguments = ("--backend", "shots", "--steps", "2", "--every", "1")
    line = told(*arguments)
    assert "with standard errors of" in line and "meV/atom/ps" in line
    assert "take --ensemble langevin, more shots, or --accept-noise" in line
    assert not Path("md").exists()
    assert "by --integrator ase only" in told(*arguments, "--integrator", "scan")
    start(*arguments, "--accept-noise")
    assert "warning: forces on this backend are estimates" in capsys.readouterr().err
    assert len(run_md.Files(Path("md")).rows()) == 2
