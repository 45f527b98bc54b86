"""Runs of molecular dynamics as scripts: files, restarts to the byte, and what is refused."""

from dataclasses import replace
from pathlib import Path

import ase.io
import jax
import numpy as np
import pytest
import run_files
import run_md
import run_pieces
from accuracy import relax
from ase import units
from dynamics import Record, masses_of
from hydronium import SYMBOLS, trained
from molecules import MOLECULES
from potentials import Potential
from problems import MDError

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
    monkeypatch.setattr(run_pieces, "CHUNK", 5)

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
def test_a_run_that_is_killed_at_every_chunk_ends_in_the_same_bytes(
    start, monkeypatch: pytest.MonkeyPatch
):
    """Before its files are written, between them, or after both; each try gets a chunk further."""
    start(*ARGUMENTS, "--output", "whole")

    class Killed(Exception): ...

    append = run_files.append
    deaths: list[int] = []  # at which chunk

    def die(files: run_files.Files, potential: Potential, record: Record, *rest: object) -> None:
        chunk = int(record.step[-1]) // 10
        if chunk in deaths:
            append(files, potential, record, *rest)
            return
        deaths.append(chunk)
        if chunk % 3:
            log = files.log.read_bytes()
            append(files, potential, record, *rest)
            if chunk % 3 == 1:
                files.log.write_bytes(log)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(run_md, "append", die)
        for number in range(4):
            with pytest.raises(Killed):
                start(*ARGUMENTS, "--output", "again", *["--restart"] * (number > 0))
    assert deaths == [1, 2, 3, 4]
    start(*ARGUMENTS, "--output", "again", "--restart")
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
    rows = run_files.Files(Path("md")).rows()
    np.testing.assert_allclose(rows[:, 4], rows[:, 2] + rows[:, 3], atol=1e-12)
    assert np.ptp(rows[:, 4]) < 0.05 < np.ptp(rows[:, 3])  # eV: energy goes to and fro
    assert Path("md/run.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_holds_a_run_is_not_written_over(start, told):
    start("--quick", "--output", "md")
    before = files("md")
    said = told("--quick", "--output", "md", "--seed", "5")
    assert said == (
        "md holds 20 frames of a run: --restart goes on with it, --overwrite replaces it, or take "
        "another --output"
    )
    assert files("md") == before
    start("--quick", "--output", "md", "--seed", "5", "--overwrite")
    assert files("md") != before and len(run_files.Files(Path("md")).rows()) == 20


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
        (("--steps", "0"), "--steps must be finite and above 0, got 0"),
        (("--temperature", "-5"), "--temperature must be finite and above 0, got -5.0"),
        (("--steps", "5", "--every", "2"), "--steps 5 is no multiple of --every 2"),
        (("--timestep", "nan"), "--timestep must be finite and above 0, got nan"),
        (("--temperature", "inf"), "--temperature must be finite and above 0, got inf"),
        (("--output", "p.json"), "--output p.json is no folder"),
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


VIOLENT = ("--timestep", "30", "--temperature", "3000", "--steps", "400", "--every", "1")


@pytest.mark.parametrize("integrator", ["scan", "ase"])
def test_a_molecule_that_comes_apart_is_told(integrator: str, start, told):
    line = told(*VIOLENT, "--integrator", integrator)
    assert "the molecule has come apart" in line and "Take a shorter timestep" in line
    assert Path("md", "checkpoint.npz").exists()


def record(count: int) -> Record:
    """So many kept frames of H3O+ at rest, ten steps apart."""
    positions = np.tile(MOLECULES["h3o"].start, (count, 1, 1))
    zero, step = np.zeros(count), 10 * np.arange(1, count + 1)
    return Record(positions, np.zeros_like(positions), zero, zero, step)


@pytest.mark.parametrize("broken", [0, 3])
def test_what_came_before_is_kept_when_a_molecule_comes_apart(broken: int, tmp_path: Path):
    kept, files = record(5), run_files.Files(tmp_path / "md")
    kept.positions[broken:] = np.nan
    files.begin()
    with pytest.raises(MDError, match=f"after {10 * (broken + 1)} steps .* has come apart"):
        run_files.append(files, trained("small"), kept, 0.5, 6)
    assert len(files.rows()) == broken
    assert files.trajectory.read_text().count("Lattice") == 0
    assert len(files.trajectory.read_text().splitlines()) == broken * 6


def test_a_bath_has_its_temperature_in_the_log(start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_pieces, "CHUNK", 50)
    start("--ensemble", "langevin", "--temperature", "100", "--friction", "0.05", "--steps",
          "20000", "--every", "20", "--output", "md")  # fmt: skip
    settled = run_files.Files(Path("md")).rows()[100:]
    assert settled[:, 5].mean() == pytest.approx(100, rel=0.1)


# Kills at bad moments


def test_a_run_that_died_at_its_beginning_is_not_taken_for_the_one_before(
    start, told, monkeypatch: pytest.MonkeyPatch
):
    class Killed(Exception): ...

    def die(*_: object) -> None:
        raise Killed

    start(*ARGUMENTS, "--output", "md")
    with monkeypatch.context() as patched:
        patched.setattr(run_md, "save_state", die)
        with pytest.raises(Killed):
            start(*ARGUMENTS, "--output", "md", "--overwrite")
    assert "cannot be read as a checkpoint" in told(*ARGUMENTS, "--output", "md", "--restart")


def test_a_restart_that_dies_while_it_cuts_the_files_loses_nothing(
    start, monkeypatch: pytest.MonkeyPatch
):
    """Files are cut in place, never written anew: at any moment they hold what is to be kept."""
    start("--steps", "16", *ARGUMENTS[2:], "--output", "md")
    short = files("md")
    with Path("md", "log.csv").open("a") as log:
        log.write("18,4.5,-2")
    with Path("md", "trajectory.xyz").open("a") as trajectory:
        trajectory.write("4\nProperties=spec")
    written = []

    def counted(path: Path, text: str, *_: object, **__: object) -> int:
        written.append(path)
        return len(text)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", counted)
        run_files.Files(Path("md")).truncate(16, 8, 4)
    assert files("md") == short and not written


@pytest.mark.parametrize("name", ["log.csv", "trajectory.xyz"])
def test_files_that_hold_less_than_the_checkpoint_are_refused(name: str, start, told):
    start("--steps", "16", *ARGUMENTS[2:], "--output", "md")
    content = Path("md", name).read_bytes()
    Path("md", name).write_bytes(content[: len(content) // 2])
    line = told(*ARGUMENTS, "--output", "md", "--restart")
    assert f"md/{name}" in line and "of the 8 frames" in line
    Path("md", name).unlink()
    assert f"md/{name}" in told(*ARGUMENTS, "--output", "md", "--restart")


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
    assert "warning: forces on this backend are means of 8 estimates" in capsys.readouterr().err
    assert len(run_files.Files(Path("md")).rows()) == 2


# Noise without the price of shots


class Shaken(Potential):
    """A potential whose forces have normal errors of SIZE eV/Å, drawn by the key."""

    SIZE = 0.3
    exact = False

    def energy_and_forces(self, positions, key=None):
        energies, forces = super().energy_and_forces(positions, key)
        key = jax.random.key(0) if key is None else key
        return energies, forces + self.SIZE * np.asarray(jax.random.normal(key, forces.shape))


@pytest.fixture
def shaken(monkeypatch: pytest.MonkeyPatch) -> Potential:
    """What the script loads: the small potential, with noise."""
    of = trained("small")
    found = Shaken(of.model, of.params, of.spread, of.facts)
    monkeypatch.setattr(run_md, "load", lambda *_: found)
    return found


@pytest.mark.slow
def test_noise_heats_as_it_was_said_to(
    shaken, start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Oracle: the total energy that runs gain, over several seeds."""
    # From rest: what a start beside the minimum swings with would blur the gain.
    molecule = MOLECULES["h3o"]
    at_rest = relax(shaken.energy_fn(), np.array(molecule.start))
    monkeypatch.setitem(MOLECULES, "h3o", replace(molecule, start=at_rest))
    gained, said = [], []
    for seed in range(6):
        start("--accept-noise", "--temperature", "1", "--timestep", "0.25", "--steps", "400",
              "--every", "20", "--seed", str(seed), "--output", f"md{seed}")  # fmt: skip
        words = capsys.readouterr().err
        said.append(float(words.split("heat by some ")[1].split()[0]))
        rows = run_files.Files(Path(f"md{seed}")).rows()
        gain = 1e3 * (rows[-1, 4] - rows[0, 4]) / len(SYMBOLS)
        gained.append(gain / (1e-3 * (rows[-1, 1] - rows[0, 1])))  # meV/atom/ps
    assert np.mean(gained) == pytest.approx(np.mean(said), rel=0.4)
    dt = 0.25 * units.fs
    expected = 3 * np.sum(0.3**2 / 8 / masses_of(SYMBOLS)) * dt / 2 / 4 * units.fs * 1e6
    assert np.mean(said) == pytest.approx(expected, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", ["nve", "langevin"])
def test_noisy_runs_go_on_to_the_same_bytes(ensemble: str, shaken, start):
    arguments = (*ARGUMENTS[2:], "--ensemble", ensemble, "--accept-noise")
    start("--steps", "40", *arguments, "--output", "whole")
    start("--steps", "20", *arguments, "--output", "again")
    start("--steps", "40", *arguments, "--output", "again", "--restart")
    assert files("again") == files("whole")


def test_noise_that_is_always_the_same_heats_not_and_is_not_warned_of(
    shaken, start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(Shaken, "SIZE", 0.0)
    start("--steps", "2", "--every", "1")
    assert "warning" not in capsys.readouterr().err
