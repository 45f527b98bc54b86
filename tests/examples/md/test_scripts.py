"""Training, evaluation, tuning and comparison as scripts, from data to figures."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import compare
import comparison
import numpy as np
import pytest
import scripts
import train
import tune
from configuration import parse
from families import FAMILIES, FITTED, SIZES
from frames import write
from hydronium import SYMBOLS, frames
from potentials import load
from problems import MDError
from reference import Reference, write_reference
from tuning import check_counts, frozen, placed

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


def printed(script: str, *arguments: str) -> str:
    done = run(f"md/{script}.py", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", ["generate", "train", "evaluate", "run_md", "tune", "compare", "report"]
)
def test_every_script_has_help_and_quick(script: str):
    told = printed(script, "--help")
    assert "--quick" in told and "python examples/md/" in told


@pytest.mark.slow
def test_from_data_to_errors_and_a_trajectory(folder: Path):
    told = printed("train", "--config", "c.toml", "--output", "p.json")
    assert told.startswith("H3O+: polynomial + circuit") and "accuracy" in told
    again = printed("train", "--config", "c.toml", "--output", "q.json")
    one, other = (json.loads(Path(name).read_text()) for name in ("p.json", "q.json"))
    assert one["weights"] == other["weights"]
    assert told.splitlines()[1:-1] == again.splitlines()[1:-1]
    assert sorted(path.name for path in folder.glob("*.npz")) == []
    told = printed("evaluate", "p.json", "--data", "data")
    assert "test" in told and "far" in told and "mean absolute error" in told
    assert Path("parity.png").read_bytes().startswith(b"\x89PNG")


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
    one, other = (json.loads(Path(f"{n}.json").read_text())["weights"] for n in ("whole", "again"))
    assert one == other
    # Another configuration starts anew.
    other_config = config.model_copy(
        update={"training": config.training.model_copy(update={"seed": 5})}
    )
    steps.clear()
    train.trained(other_config, checkpoint, lambda *told: steps.append(told[:2]))
    assert steps[0] == ("linear", 1)


def test_a_plan_asks_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from qml.execution import recorded

    monkeypatch.setattr(
        "sys.argv", ["train.py", "--config", "c.toml", "--plan", "--backend", "reference"]
    )
    with recorded() as requests:
        train.main()
    assert not [request for request in requests if request.rows > 1]
    assert "expval_hvp" in capsys.readouterr().out


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
def test_a_backend_with_shots_trains_by_adam_alone(folder: Path):
    (folder / "qml.toml").write_text('[backends.shots]\nkind = "aer"\nshots = 100\nseed = 1\n')
    config = train.load(Path("c.toml")).model_copy(update={"backend": "shots"})
    with pytest.raises(MDError, match="noisy. Set polish = 0 and steps, of Adam, instead"):
        train.trained(config)
    few = {"polish": 0, "steps": 2, "frames": 4, "batch": 2}
    training = config.training.model_copy(update=few)
    potential, run_ = train.trained(config.model_copy(update={"training": training}))
    assert [entry[0] for entry in run_.history] == ["linear", "adam"]
    assert not potential.exact


# The comparison


@pytest.fixture
def small_families(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Families as they are, but of small models, whose code is compiled in a second."""
    small = {
        "polynomial": {"polynomial": {"degree": 2}},
        "hybrid": {"polynomial": {"degree": 1}, "circuit": {"layers": 1}},
    }
    for name, model in small.items():
        monkeypatch.setitem(FAMILIES, name, replace(FAMILIES[name], model=model, space=FITTED))
    return (*small, "kernel")


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
    assert len(lines) == 6
    # A run that was stopped in the midst of a line goes on, and fits only what is missing.
    Path("r.jsonl").write_text("\n".join(lines[:4]) + '\n{"name": "po')
    fitted = []
    fit = comparison.fitted
    monkeypatch.setattr(
        comparison, "fitted", lambda job, *rest: (fitted.append(job.name), fit(job, *rest))[1]
    )
    assert told(compare, *arguments).splitlines()[:5] == printed_.splitlines()[:5]
    again = Path("r.jsonl").read_text().splitlines()
    assert again[:4] == lines[:4] and len(again) == 6 and len(fitted) == 2


@pytest.mark.slow
def test_fits_are_made_side_by_side():
    quick = ("--quick", "--data", "data", "--workers", "2", "--families", "kernel")
    assert "kernel on inverse distances" in printed("tune", *quick, "--output", "t.json")
    told = printed("compare", *quick, "--tuned", "t.json", "--output", "r.jsonl")
    assert told.splitlines()[-1] == "fits: r.jsonl"
    assert len(Path("r.jsonl").read_text().splitlines()) == 2


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
    compare.append(tmp_path / "r.jsonl", {"name": job.name, "settings": {"training.decay": 1.0}})
    with pytest.raises(MDError, match="with other settings than are tuned now"):
        compare.run([job], tmp_path / "r.jsonl", tmp_path, 1, 1)


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
