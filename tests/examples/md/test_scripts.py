"""Training, evaluation, tuning and comparison as scripts, from data to figures."""

import importlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import compare
import comparison
import evaluate
import numpy as np
import pytest
import scripts
import train
import tune
from configuration import parse
from families import FAMILIES, FITTED, SIZES
from frames import Frames, write
from hydronium import SYMBOLS, frames, trained
from potentials import load
from problems import MDError
from reference import Reference, write_reference
from tuning import Tuned, check_counts, freeze, frozen, placed

Refused = Callable[..., str]

run = partial(scripts.run, options=("-W", "error"))
START = np.array([[0, 0, 0.05], [0.94, 0, -0.2], [-0.47, 0.814, -0.2], [-0.47, -0.814, -0.2]])
CONFIG = """
molecule = "h3o"
data = "data"
[model]
polynomial = { degree = 2 }
circuit = { layers = 1 }
[training]
polish = 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with made-up data and a small model."""
    for seed, (part, count) in enumerate({"train": 30, "valid": 8, "test": 12, "far": 6}.items()):
        write(tmp_path / "data" / f"h3o_{part}.xyz", frames(count, seed))
    wavenumbers = np.linspace(1000, 3700, 6)
    reference = Reference("made up", SYMBOLS, START, -2000.0, wavenumbers)
    write_reference(tmp_path / "data" / "h3o_reference.json", reference)
    (tmp_path / "c.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def timeless(name: str) -> dict:
    """What a potential's file holds, but for the time that the training took."""
    found = json.loads(Path(name).read_text())
    assert found["facts"].pop("seconds") > 0
    return found


def printed(script: str, *arguments: str) -> str:
    done = run(f"md/{script}.py", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "script", ["generate", "train", "evaluate", "run_md", "tune", "compare", "report"]
)
def test_every_script_has_help_and_quick(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", [f"{script}.py", "--help"])
    with pytest.raises(SystemExit) as caught:
        importlib.import_module(script).main()
    told = capsys.readouterr().out
    assert caught.value.code == 0
    assert "--quick" in told and f"python examples/md/{script}.py" in told


@pytest.mark.slow
def test_from_data_to_errors_and_a_trajectory(folder: Path):
    quick = ("--quick", "--config", "c.toml")
    told = printed("train", *quick, "--output", "p.json")
    assert told.startswith("H3O+: polynomial + circuit, 25 parameters, 20 frames, ")
    assert "accuracy" in told and told.endswith("potential: p.json\n")
    again = printed("train", *quick, "--output", "q.json")
    assert timeless("p.json") == timeless("q.json")
    assert told.splitlines()[1:-1] == again.splitlines()[1:-1]
    assert sorted(path.name for path in folder.glob("*.npz")) == []
    told = printed("evaluate", "--quick", "p.json", "--data", "data")
    assert [line.split()[:2] for line in told.splitlines()[2:4]] == [["test", "10"], ["far", "6"]]
    assert "mean absolute error" in told and told.endswith("plot: parity.png\n")
    assert Path("parity.png").read_bytes().startswith(b"\x89PNG")
    told = printed("run_md", "--quick", "p.json")
    assert "0.020 ps" in told and told.endswith("trajectory, log, picture: md/\n")


@pytest.mark.slow
def test_a_training_that_is_stopped_ends_in_the_same_file(monkeypatch: pytest.MonkeyPatch):
    config = train.load(Path("c.toml"))
    whole, _ = train.trained(config)
    checkpoint = Path("p.training.npz")

    class Killed(Exception): ...

    kept = []
    remember = train.remember

    def die_at_the_third(*arguments: object) -> None:
        remember(*arguments)
        kept.append(arguments)
        if len(kept) == 3:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(train, "remember", die_at_the_third)
        with pytest.raises(Killed):
            train.trained(config, checkpoint)
    steps = []
    again, _ = train.trained(config, checkpoint, lambda *told: steps.append(told[:2]))
    assert ("linear", 1) not in steps and steps  # it went on
    whole.save("whole.json")
    again.save("again.json")
    assert timeless("whole.json") == timeless("again.json")
    # Another configuration starts anew.
    other_config = config.model_copy(
        update={"training": config.training.model_copy(update={"seed": 5})}
    )
    steps.clear()
    train.trained(other_config, checkpoint, lambda *told: steps.append(told[:2]))
    assert steps[0] == ("linear", 1)


def test_a_plan_asks_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from qml.execution import recorded

    monkeypatch.setattr(
        "sys.argv",
        ["train.py", "--config", "c.toml", "--frames", "2", "--plan", "--backend", "reference"],
    )
    with recorded() as requests:
        train.main()
    assert not requests
    assert "expval_hvp" in capsys.readouterr().out
    assert not list(folder.glob("h3o*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--frames", "31"), "[training] frames asks for 31, but data/h3o_train.xyz has 30"),
        (("--frames", "1"), "training.frames: Input should be greater than or equal to 2"),
        (("--backend", "are"), "did you mean 'aer'?"),
        (("--config", "none.toml"), "none.toml cannot be read"),
        (("--seed", "-1"), "must be an integer from 0"),
    ],
)
def test_wrong_trainings_are_told_in_one_line(
    arguments: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("sys.argv", ["train.py", "--config", "c.toml", *arguments])
    with pytest.raises(SystemExit):
        train.main()
    line = capsys.readouterr().err.rstrip("\n").rpartition("train.py: error: ")[2]
    assert sentence in line and "\n" not in line


def test_data_of_another_molecule_are_refused(folder: Path):
    config = parse({"molecule": "h2o", "data": folder / "data", "model": {"circuit": {}}}, "c")
    for part in ("train", "valid"):
        source = folder / "data" / f"h3o_{part}.xyz"
        source.rename(folder / "data" / f"h2o_{part}.xyz")
    with pytest.raises(MDError, match="holds OHHH, but the molecule is h2o: OHH, in this order"):
        train.prepared(config)


@pytest.mark.slow
def test_another_exact_backend_trains_the_same(folder: Path):
    config = train.load(Path("c.toml"))
    few = config.model_copy(
        update={"training": config.training.model_copy(update={"polish": 1, "frames": 4})}
    )
    one, _ = train.trained(few)
    other, _ = train.trained(few.model_copy(update={"backend": "reference"}))
    r = frames(3, 9).positions
    np.testing.assert_allclose(
        one.energy_and_forces(r)[1], other.energy_and_forces(r)[1], atol=1e-6
    )


@pytest.mark.slow
def test_a_backend_with_shots_trains_by_adam_alone(
    folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    (folder / "qml.toml").write_text('[backends.shots]\nkind = "aer"\nshots = 100\nseed = 1\n')
    arguments = ("--config", "c.toml", "--frames", "4", "--backend", "shots")
    line = refused(train, *arguments)
    assert "the backend aer is noisy" in line and "(--polish 0 --steps 200)" in line
    monkeypatch.setattr("sys.argv", ["train.py", *arguments, "--polish", "0", "--steps", "2"])
    train.main()
    assert "on aer" in capsys.readouterr().out
    potential = load("h3o.json", "shots")
    assert not potential.exact and potential.facts["training"]["steps"] == 2


# The comparison


@pytest.fixture
def small_families(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Families as they are, but of small models, whose code is compiled in a second."""
    model = {"polynomial": {"degree": 1}, "circuit": {"layers": 1}}
    hybrid = replace(FAMILIES["hybrid"], model=model, space=FITTED)
    monkeypatch.setitem(FAMILIES, "hybrid", hybrid)
    return ("hybrid", "kernel")


@pytest.mark.slow
def test_tuning_and_comparison_go_through_and_go_on(
    small_families: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def told(script: ModuleType, *arguments: str) -> str:
        monkeypatch.setattr("sys.argv", [script.__name__, "--quick", "--data", "data", *arguments])
        script.main()
        return capsys.readouterr().out

    families = ("--families", *small_families)
    assert "the best of 2: t.json" in told(tune, "--output", "t.json", *families)
    assert set(frozen(Path("t.json"))) == set(small_families)
    arguments = ("--tuned", "t.json", "--output", "r.jsonl")
    printed_ = told(compare, *arguments)
    assert all(FAMILIES[name].title in printed_ for name in small_families)
    assert "force RMSE, hybrid against kernel" in printed_ and "Wilcoxon p" in printed_
    lines = Path("r.jsonl").read_text().splitlines()
    assert len(lines) == 4
    # A run that was stopped in the midst of a line goes on, and fits only what is missing.
    Path("r.jsonl").write_text("\n".join(lines[:2]) + '\n{"name": "hy')
    fitted = []
    fit = comparison.fitted
    monkeypatch.setattr(
        comparison, "fitted", lambda job, *rest: (fitted.append(job.name), fit(job, *rest))[1]
    )
    again_ = told(compare, *arguments)
    again = Path("r.jsonl").read_text().splitlines()
    assert again[:2] == lines[:2]
    assert fitted == ["hybrid/tuned/20/101", "kernel/tuned/20/101"]
    # The same seeds, the same digits; only the time differs, and the table's column of it.
    for one, other in zip(map(json.loads, again), map(json.loads, lines), strict=True):
        assert one | {"seconds": 0} == other | {"seconds": 0}
    rows = zip(again_.splitlines()[:4], printed_.splitlines()[:4], strict=True)
    assert all(one.split()[:-3] == other.split()[:-3] for one, other in rows)
    assert told(compare, *arguments) == again_ and len(fitted) == 2  # nothing was left to fit


@pytest.mark.slow
def test_fits_are_made_side_by_side():
    quick = ("--quick", "--data", "data", "--workers", "2", "--families", "kernel")
    assert "kernel on inverse distances" in printed("tune", *quick, "--output", "t.json")
    told = printed("compare", *quick, "--tuned", "t.json", "--output", "r.jsonl")
    assert told.splitlines()[-1] == "fits: r.jsonl"
    assert len(Path("r.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_an_error_is_told_without_waiting_for_all_other_fits(folder: Path):
    """Of two at a time and twenty that wait; a handful is under way already."""
    (folder / "made").mkdir()
    jobs = [(["sh", "-c", f"sleep 0.1; touch made/{k}"],) for k in range(20)]
    with pytest.raises(subprocess.CalledProcessError):
        list(comparison.side_by_side(subprocess.check_call, [(["false"],), *jobs], 2))
    assert len(list((folder / "made").iterdir())) < 15


@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if f.role != "strong"])
def test_models_of_equal_size_are_of_equal_size(name: str):
    from hydronium import model
    from potentials import Model

    scaling = model("circuit").scaling

    def count(settings: dict) -> int:
        table = placed(settings, {"molecule": "h3o", "model": FAMILIES[name].model})
        return Model(SYMBOLS, parse(table, name).model, scaling).count()

    counts = check_counts(FAMILIES[name].space, count, *SIZES)
    assert counts


def test_a_seed_draws_its_frames_without_repetition():
    pool = frames(20)
    one = comparison.drawn(pool, 10, 3)
    np.testing.assert_array_equal(one.energies, comparison.drawn(pool, 10, 3).energies)
    assert len(set(one.energies)) == 10
    assert set(one.energies) != set(comparison.drawn(pool, 10, 4).energies)
    with pytest.raises(MDError, match="30 training frames are asked for, but there are 20"):
        comparison.drawn(pool, 30, 0)


def test_fits_with_other_settings_are_not_mixed_in(tmp_path: Path):
    job = comparison.Job("polynomial", 1, 5, {"training.decay": 0.0})
    made = dict.fromkeys(compare.KEYS) | {"name": job.name, "settings": job.settings, "polish": 1}
    for change, sentence in (
        ({"settings": {"training.decay": 1.0}}, "with other settings than are tuned now"),
        ({"polish": 3}, "of 3 steps, but 1 are asked for. Give --polish 3"),
    ):
        path = tmp_path / f"{next(iter(change))}.jsonl"
        compare.append(path, made | change)
        with pytest.raises(MDError, match=sentence):
            compare.run([job], path, tmp_path, 1, 1)
    compare.append(tmp_path / "same.jsonl", made)
    assert compare.run([job], tmp_path / "same.jsonl", tmp_path, 1, 1) == [made]


@pytest.mark.slow
def test_the_kernel_is_saved_with_its_points(folder: Path):
    text = CONFIG.replace("polynomial = { degree = 2 }\ncircuit = { layers = 1 }", "kernel = {}")
    (folder / "k.toml").write_text(text)
    potential, _ = train.trained(train.load(Path("k.toml")))
    potential.save("k.json")
    r = frames(5, 9).positions
    for one, other in zip(
        potential.energy_and_forces(r), load("k.json").energy_and_forces(r), strict=True
    ):
        np.testing.assert_array_equal(one, other)


# Evaluation


@pytest.fixture
def evaluated(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """evaluated(*arguments): what evaluate.py prints of a small potential."""
    trained("small").save(folder / "p.json")

    def told(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["evaluate.py", "p.json", *arguments])
        evaluate.main()
        return capsys.readouterr().out

    return told


@pytest.mark.slow
def test_data_without_far_frames_and_frequencies_are_enough(evaluated, folder: Path):
    for name in ("h3o_far.xyz", "h3o_reference.json"):
        (folder / "data" / name).unlink()
    told = evaluated("--data", "data")
    assert "test: " in told and "far" not in told
    assert "no frequencies: there is no data/h3o_reference.json" in told


@pytest.mark.slow
def test_files_of_one_name_are_told_apart(evaluated, folder: Path):
    for place, count in (("a", 5), ("b", 7)):
        write(folder / place / "mine.xyz", frames(count, count))
    told = evaluated("--frames", "a/mine.xyz", "b/mine.xyz")
    rows = [line.split()[:2] for line in told.splitlines()[2:4]]
    assert rows == [["a/mine.xyz", "5"], ["b/mine.xyz", "7"]]
    assert "frequencies" not in told


@pytest.mark.slow
def test_on_shots_forces_have_standard_errors_and_there_are_no_frequencies(evaluated, folder: Path):
    (folder / "qml.toml").write_text('[backends.shots]\nkind = "aer"\nshots = 100\nseed = 1\n')
    head, _, row, *others = evaluated("--quick", "--data", "data", "--backend", "shots").split("\n")
    assert head.endswith("F std error")
    found = evaluate.predicted(load("p.json", "shots"), frames(12, 2)[:10])
    assert row.split()[-1] == f"{1e3 * np.sqrt(np.mean(found.force_errors**2)):.1f}" != "0.0"
    assert any(line.startswith("no frequencies: they need exact values") for line in others)


# What is refused, in one line


TUNED = Tuned("kernel", 0, "d", "s", 1, 0, 0, 1.0, {})


def prepare(folder: Path) -> None:
    """A potential, tuned settings, and broken files of all kinds."""
    trained("small").save(folder / "p.json")
    whole = json.loads((folder / "p.json").read_text())
    freeze([TUNED], folder / "t.json")
    freeze([replace(TUNED, family="colonel")], folder / "unknown.json")
    water = frames(3)
    write(folder / "h2o.xyz", Frames(("O", "H", "H"), water.positions[:, :3], water.energies,
                                     water.forces[:, :3], water.temperatures))  # fmt: skip
    files = {
        "half.json": json.dumps(whole)[:300],
        "other.json": '{"format": "something else"}',
        "less.json": json.dumps({k: v for k, v in whole.items() if k != "weights"}),
        "number.json": "3",
        "empty.training.npz": "",
        "kernel.jsonl": "{}\n",
        "table.jsonl": "{}\n",
        "list.jsonl": "[]\n",
        "words.jsonl": "words\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)


COMPARE = ("--quick", "--data", "data", "--tuned", "t.json", "--output")
TUNE = ("--data", "data", "--families", "kernel", "--output", "new.json")


@pytest.mark.parametrize(
    ("script", "arguments", "sentence"),
    [
        (train, ("--config", "c.toml", "--output", "data"), "data is a folder, not a file"),
        (train, ("--config", "c.toml", "--output", "empty.json"),
         "empty.training.npz cannot be read: No data left in file. Delete it"),
        (train, ("--config", "nowhere.toml"), "nowhere/h3o_train.xyz cannot be read as extxyz"),
        (evaluate, ("none.json",), "none.json cannot be read as a potential"),
        (evaluate, ("half.json",), "half.json cannot be read as a potential"),
        (evaluate, ("other.json",), "other.json is no hybrid potential, version 1"),
        (evaluate, ("number.json",), "number.json is no hybrid potential, version 1"),
        (evaluate, ("less.json",), "less.json is damaged: KeyError('weights')"),
        (evaluate, ("p.json", "--data", "nowhere"), "nowhere/h3o_test.xyz cannot be read"),
        (evaluate, ("p.json", "--frames", "h2o.xyz"), "holds OHH, but the potential is for OHHH"),
        (evaluate, ("p.json", "--data", "data", "--backend", "are"), "did you mean 'aer'?"),
        (evaluate, ("p.json", "--plot", "p.txt"), "p.txt must end in one of"),
        (tune, (*TUNE, "--data", "nowhere"), "nowhere/h3o_train.xyz cannot be read as extxyz"),
        (tune, (*TUNE, "--frames", "31", "--trials", "1"),
         "31 training frames are asked for, but there are 30"),
        (tune, (*TUNE, "--trials", "0"), "--trials must be at least 1, got 0"),
        (tune, (*TUNE, "--logs", "."), "line 1 is no trial"),
        (compare, (*COMPARE[:3], "--tuned", "none.json"), "none.json holds no tuned settings"),
        (compare, (*COMPARE[:3], "--tuned", "half.json"), "half.json holds no tuned settings"),
        (compare, (*COMPARE[:3], "--tuned", "unknown.json"), "colonel is not among the families"),
        (compare, (*COMPARE, "new.jsonl", "--families", "circuit"),
         "circuit is not among the families that are tuned in t.json: kernel. Tune it by tune.py"),
        (compare, (*COMPARE, "table.jsonl"), "table.jsonl, line 1 is no fit. Move the file away"),
        (compare, (*COMPARE, "list.jsonl"), "list.jsonl, line 1 is no fit"),
        (compare, (*COMPARE, "words.jsonl"), "words.jsonl cannot be read"),
        (compare, (*COMPARE[1:], "new.jsonl", "--frames", "31"),
         "31 training frames are asked for, but there are 30"),
        (compare, ("--workers", "0"), "--workers must be at least 1, got 0"),
    ],
)  # fmt: skip
def test_what_is_missing_wrong_or_damaged_is_told_in_one_line(
    script: ModuleType, arguments: tuple[str, ...], sentence: str, folder: Path, refused: Refused
):
    prepare(folder)
    (folder / "nowhere.toml").write_text(CONFIG.replace('"data"', '"nowhere"'))
    assert sentence in refused(script, *arguments)
    assert not Path("new.json").exists() and not Path("new.jsonl").exists()
