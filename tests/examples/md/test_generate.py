"""Making data: levels against themselves, trajectories, and runs that were stopped."""

import json
from collections.abc import Iterator
from pathlib import Path

import generate
import numpy as np
import pytest
from configuration import DATA
from frames import read
from levels import LEVELS
from molecules import MOLECULES, molecule
from problems import MDError
from reference import Reference, compute_reference, read_reference, write_reference
from terminal import Bar

PARTS = ("train", "valid", "test", "far")


@pytest.mark.parametrize("name", ["lih", "h2o", "h3o"])
def test_the_committed_data_are_those_of_the_plan(name: str):
    seen = []
    for part in PARTS:
        frames = read(DATA / f"{name}_{part}.xyz")
        assert frames.symbols == MOLECULES[name].symbols
        baths = zip(*np.unique(frames.temperatures, return_counts=True), strict=True)
        planned = generate.PLANS[name][part]
        assert [(str(float(t)), n) for t, n in baths] == [
            (str(float(t)), n) for t, n in planned.items()
        ]
        net = np.abs(frames.forces.sum(axis=1)).max()
        assert net < 1e-5  # eV/Å
        seen.append(frames.energies)
    every = np.concatenate(seen)
    assert len(np.unique(every)) == len(every)  # no frame is in two files


def test_the_committed_data_are_small():
    committed = [path for path in DATA.iterdir() if not path.name.startswith("ethanol")]
    assert sum(path.stat().st_size for path in committed) < 2_000_000


def test_the_bonds_of_a_diatomic_molecule_span_the_minimum_of_its_level():
    truth = read_reference(DATA / "lih_reference.json")
    length = np.linalg.norm(truth.positions[1] - truth.positions[0])
    found = {part: read(DATA / f"lih_{part}.xyz").positions for part in PARTS}
    spans = {part: np.linalg.norm(r[:, 1] - r[:, 0], axis=1) for part, r in found.items()}
    for part in ("train", "valid", "test"):
        assert spans[part].min() < length - 0.3 and spans[part].max() > length + 0.8
    assert spans["far"].max() < spans["train"].min()


@pytest.mark.parametrize("name", ["h2o", "h3o"])
def test_the_first_frames_are_a_sample_of_all_temperatures(name: str):
    first = read(DATA / f"{name}_train.xyz").temperatures[:25]
    shares = [np.mean(first == bath) for bath in generate.PLANS[name]["train"]]
    assert min(shares) > 0.2


def test_the_reference_of_hydronium_is_that_of_coupled_clusters():
    found = read_reference(DATA / "h3o_reference.json")
    np.testing.assert_allclose(found.frequencies, [992, 1702, 1702, 3613, 3730, 3730], atol=2)
    assert found.level == "CCSD/cc-pVDZ" and found.symbols == MOLECULES["h3o"].symbols


def test_a_reference_comes_back(tmp_path: Path):
    given = Reference("made up", ("O", "H"), np.array([[0, 0, 0], [0, 0, 0.97]]), -1.5, np.ones(1))
    write_reference(tmp_path / "r.json", given)
    found = read_reference(tmp_path / "r.json")
    assert (found.level, found.symbols, found.energy) == ("made up", ("O", "H"), -1.5)
    np.testing.assert_array_equal(found.positions, given.positions)
    np.testing.assert_allclose(found.masses, [15.999, 1.008])


@pytest.mark.parametrize("content", [None, "{", "{}", "[]"])
def test_a_file_that_holds_no_reference_is_refused(content: str | None, tmp_path: Path):
    if content is not None:
        (tmp_path / "r.json").write_text(content)
    with pytest.raises(MDError, match=r"r\.json holds no reference"):
        read_reference(tmp_path / "r.json")


def test_an_unknown_molecule_is_refused_with_those_known():
    with pytest.raises(
        MDError, match="there is no molecule 'h5o'; known are lih, h2o, h3o, ethanol"
    ):
        molecule("h5o")


@pytest.mark.slow
@pytest.mark.parametrize("level", ["hf", "mp2", "ccsd"])
def test_forces_of_a_level_are_minus_the_slope_of_its_energies(level: str):
    pytest.importorskip("pyscf")
    water = MOLECULES["h2o"]
    positions, step = np.array(water.start) + [[0, 0, 0], [0.05, 0, 0], [0, 0.02, 0]], 4e-4
    move = np.zeros_like(positions)
    move[1, 0] = step
    _, forces = LEVELS[level].label(water, positions)
    above, _ = LEVELS[level].label(water, positions + move)
    below, _ = LEVELS[level].label(water, positions - move)
    assert forces[1, 0] == pytest.approx(-(above - below) / (2 * step), abs=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["train", "far"])
def test_coupled_clusters_give_the_committed_labels(part: str):
    pytest.importorskip("pyscf")
    frames = read(DATA / f"h3o_{part}.xyz")
    energy, forces = LEVELS["ccsd"].label(MOLECULES["h3o"], frames.positions[0])
    assert energy == pytest.approx(frames.energies[0], abs=1e-6)
    np.testing.assert_allclose(forces, frames.forces[0], atol=1e-5)


@pytest.mark.slow
def test_a_reference_has_the_frequencies_of_its_level():
    """GFN2-xTB of water, which has its minimum and wavenumbers in the literature's range."""
    pytest.importorskip("tblite")
    found = compute_reference(MOLECULES["h2o"], LEVELS["xtb"])
    bend, *stretches = found.frequencies
    assert 1450 < bend < 1650 and all(3500 < w < 3800 for w in stretches)
    lengths = [np.linalg.norm(found.positions[k] - found.positions[0]) for k in (1, 2)]
    assert lengths == pytest.approx([0.9588, 0.9588], abs=2e-3)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sampling.EQUILIBRATION", 20)


@pytest.fixture
def quick_plan() -> dict[str, dict[float, int]]:
    return {"train": {300: 3, 600: 2}, "test": {300: 2}}


@pytest.mark.slow
def test_a_run_that_was_stopped_writes_the_same_files(
    quick_plan: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("tblite")
    water = MOLECULES["h2o"]
    generate.generate(water, "xtb", quick_plan, tmp_path / "whole", 0, 1)

    class Killed(Exception): ...

    written: list[str] = []
    dumps = json.dumps

    def die_at_the_fourth(value: object) -> str:
        written.append(dumps(value))
        if len(written) == 5:
            raise Killed
        return written[-1]

    with monkeypatch.context() as patched:
        patched.setattr(generate.json, "dumps", die_at_the_fourth)
        with pytest.raises(Killed):
            generate.generate(water, "xtb", quick_plan, tmp_path / "again", 0, 1)
    kept = tmp_path / "again" / "h2o_train.labels.jsonl"
    half = kept.read_text() + "[-1.0, [[0.1, "
    kept.write_text(half)
    generate.generate(water, "xtb", quick_plan, tmp_path / "again", 0, 1)
    for part in quick_plan:
        one, other = (tmp_path / run / f"h2o_{part}.xyz" for run in ("whole", "again"))
        assert one.read_bytes() == other.read_bytes()
    assert not kept.exists()


@pytest.mark.slow
def test_seeds_and_parts_have_trajectories_of_their_own():
    pytest.importorskip("tblite")
    water, baths = MOLECULES["h2o"], {300: 2}
    one, _ = generate.sampled(water, "train", baths, 0, Bar())
    np.testing.assert_array_equal(one, generate.sampled(water, "train", baths, 0, Bar())[0])
    for part, seed in (("test", 0), ("train", 1)):
        other, _ = generate.sampled(water, part, baths, seed, Bar())
        assert np.abs(one - other).min(axis=(1, 2)).max() > 1e-4


def test_a_run_stopped_in_a_later_part_makes_no_label_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Labels of the first part are still there, and no process is started for them."""
    water, plan = MOLECULES["h2o"], {"train": {300: 3}, "test": {300: 2}}
    drawn = np.array(water.start) + np.random.default_rng(0).normal(0, 0.03, (3, 3, 3))

    def few(_: object, part: str, baths: dict[float, int], *__: object) -> tuple:
        count = sum(baths.values())
        return np.round(drawn[:count] + (part == "test"), 8), np.full(count, 300.0)

    monkeypatch.setattr(generate, "sampled", few)
    made: list[str] = []

    class Pool:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *_: object) -> None: ...
        def map(self, _: object, jobs: list) -> Iterator[tuple[float, list]]:
            for _level, _name, positions in jobs:
                if len(made) == stop:
                    raise KeyboardInterrupt
                made.append(str(positions))
                yield float(len(made)), np.zeros((3, 3)).tolist()

    monkeypatch.setattr(generate, "ProcessPoolExecutor", Pool)
    stop = 4  # in the second part
    with pytest.raises(KeyboardInterrupt):
        generate.generate(water, "xtb", plan, tmp_path, 0, 1)
    stop = -1
    generate.generate(water, "xtb", plan, tmp_path, 0, 1)
    assert len(made) == 5 == len(set(made))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h2o_test.xyz", "h2o_train.xyz"]


def test_a_run_stopped_before_its_first_line_goes_on(tmp_path: Path):
    (tmp_path / "l.jsonl").write_text('"ab')
    assert generate._recall(tmp_path / "l.jsonl", "abc") == []
    assert (tmp_path / "l.jsonl").read_text() == '"abc"\n'


def test_a_quick_run_does_not_replace_the_data_that_are_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", ["generate.py", "--quick"])
    monkeypatch.setattr(generate, "generate", lambda *_: pytest.fail("data were made"))
    with pytest.raises(SystemExit) as ended:
        generate.main()
    assert ended.value.code == 2 and "--quick needs an --output" in capsys.readouterr().err


def test_labels_of_other_geometries_are_not_mixed_in(tmp_path: Path):
    kept = tmp_path / "labels.jsonl"
    kept.write_text('"of something else"\n')
    with pytest.raises(MDError, match="holds labels of other geometries or of another level"):
        generate.labelled(MOLECULES["h2o"], "xtb", np.zeros((1, 3, 3)), kept, 1, Bar())


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in ("tblite.ase", "tblite", "pyscf"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    start = np.array(MOLECULES["h2o"].start)
    with pytest.raises(MDError, match=r'tblite samples geometries, .*pip install "\.\[md\]"'):
        LEVELS["xtb"].label(MOLECULES["h2o"], start)
    with pytest.raises(MDError, match="pyscf computes reference energies"):
        LEVELS["hf"].label(MOLECULES["h2o"], start)
