"""Random search: fair draws, runs that go on where they were, and outcomes that are kept."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from configuration import Config, parse
from families import FAMILIES, SIZES
from hydronium import frames
from potentials import model_for
from problems import MDError
from scipy import stats
from tuning import (
    Between,
    OneOf,
    Search,
    Settings,
    Tuned,
    check_counts,
    digest,
    freeze,
    frozen,
    placed,
    run,
)

SPACE = {
    "training.rate": Between(1e-3, 1e-1, logarithmic=True),
    "training.energy_weight": Between(0.0, 2.0),
    "structure": OneOf(({"a": 1, "b": [2, 3]}, {"a": 4, "b": [5]})),
}
SEARCH = Search("network", SPACE, data="d", seed=7)


def error(settings: Settings) -> float:
    """An error whose least value is at the weight 1."""
    return abs(settings["training.energy_weight"] - 1) + settings["a"] / 1000


def settings_of(search: Search, count: int) -> list[Settings]:
    return [search.settings(k) for k in range(count)]


# Draws


def test_numbers_are_even_between_their_limits_or_in_their_logarithm():
    drawn = settings_of(SEARCH, 400)
    weights = np.array([s["training.energy_weight"] for s in drawn]) / 2
    rates = (np.log10([s["training.rate"] for s in drawn]) + 3) / 2
    for values in (weights, rates):
        assert 0 <= values.min() and values.max() <= 1
        assert stats.kstest(values, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(weights, rates)[0, 1]) < 0.15


def test_a_table_among_the_choices_sets_several_settings_together():
    drawn = settings_of(SEARCH, 200)
    assert {(s["a"], tuple(s["b"])) for s in drawn} == {(1, (2, 3)), (4, (5,))}
    assert 70 < sum(s["a"] == 1 for s in drawn) < 130
    assert all("structure" not in s for s in drawn)


def test_draws_depend_on_seed_trial_and_name_alone():
    more = replace(
        SEARCH, family="circuit", data="e", space={"training.decay": Between(0, 1), **SPACE}
    )
    for one, other in zip(settings_of(SEARCH, 5), settings_of(more, 5), strict=True):
        assert one == {k: v for k, v in other.items() if k != "training.decay"}
    other = settings_of(replace(SEARCH, seed=8), 5)
    assert all(
        a["training.rate"] != b["training.rate"]
        for a, b in zip(settings_of(SEARCH, 5), other, strict=True)
    )
    assert len({s["training.rate"] for s in settings_of(SEARCH, 20)}) == 20


def test_the_identity_changes_with_all_that_decides_a_search():
    changes = (
        {"family": "x"},
        {"data": "x"},
        {"seed": 8},
        {"fixed": {"circuit": {"layers": 5}}},
        {"space": {**SPACE, "training.energy_weight": Between(0.0, 2.1)}},
        {"space": {**SPACE, "training.rate": Between(1e-3, 1e-1)}},
        {"space": {k: v for k, v in SPACE.items() if k != "structure"}},
    )
    identities = {SEARCH.identity, *(replace(SEARCH, **change).identity for change in changes)}
    assert len(identities) == 1 + len(changes)
    assert replace(SEARCH, space=dict(reversed(SPACE.items()))).identity == SEARCH.identity


def test_a_digest_tells_arrays_and_values_apart():
    values = [
        np.zeros(3), np.zeros((3, 1)), np.zeros(3, np.float32), np.array([0.0, 0.0, 1e-300]),
        [1, 23], [12, 3], [[1], 23], {"a": 1}, {"a": 2}, {"b": 1}, 1, 1.0, "1", None, True,
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    assert digest({"a": np.ones(2), "b": 1}) == digest({"b": 1, "a": np.ones(2)})


@pytest.mark.parametrize("limits", [(1.0, 1.0, False), (2.0, 1.0, False), (0.0, 1.0, True)])
def test_limits_between_which_nothing_is_are_refused(limits: tuple[float, float, bool]):
    with pytest.raises(MDError, match="low must be below high, and above 0 for a logarithm"):
        Between(*limits)


def test_no_choices_are_refused():
    with pytest.raises(MDError, match="OneOf needs a value"):
        OneOf(())


# Runs


def test_the_best_trial_is_the_one_of_the_least_error(tmp_path: Path):
    found = run(SEARCH, error, 12, tmp_path / "log.jsonl")
    errors = [error(SEARCH.settings(k)) for k in range(12)]
    assert found.error == min(errors) and found.number == errors.index(min(errors))
    assert found.settings == SEARCH.settings(found.number)
    assert (found.trials, found.failed, found.search) == (12, 0, SEARCH.identity)


def test_every_trial_is_run_once_and_kept_at_once(tmp_path: Path):
    log, seen = tmp_path / "there" / "log.jsonl", []

    def evaluate(settings: Settings) -> float:
        if seen:
            assert len(log.read_text().splitlines()) == len(seen)
        seen.append(settings)
        return error(settings)

    run(SEARCH, evaluate, 4, log)
    assert seen == settings_of(SEARCH, 4)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["number"] for line in lines] == [0, 1, 2, 3]
    assert [line["error"] for line in lines] == [error(s) for s in seen]


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path):
    log, seen = tmp_path / "log.jsonl", []

    def killed(settings: Settings) -> float:
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(settings)
        return error(settings)

    with pytest.raises(KeyboardInterrupt):
        run(SEARCH, killed, 6, log)
    with log.open("a") as file:
        file.write('{"search": "half a li')  # killed while it wrote
    later = []
    found = run(SEARCH, lambda s: later.append(s) or error(s), 6, log)
    assert seen + later == settings_of(SEARCH, 6)
    assert found == run(SEARCH, error, 6, tmp_path / "other.jsonl")
    assert [json.loads(line)["number"] for line in log.read_text().splitlines()] == [*range(6)]


def test_a_finished_run_evaluates_nothing_again_and_may_be_made_longer(tmp_path: Path):
    log, seen = tmp_path / "log.jsonl", []
    evaluate = lambda s: seen.append(s) or error(s)
    first = run(SEARCH, evaluate, 5, log)
    assert run(SEARCH, evaluate, 5, log) == first and len(seen) == 5
    run(SEARCH, evaluate, 8, log)
    assert seen == settings_of(SEARCH, 8)
    assert run(SEARCH, evaluate, 5, log) == first  # the longer log decides nothing here


def test_a_trial_that_fails_counts_and_is_not_the_best(tmp_path: Path):
    def evaluate(settings: Settings) -> float:
        if settings["a"] == 1:
            raise MDError("the loss became nan")
        return float("nan") if settings["training.energy_weight"] < 1 else 3.0

    log = tmp_path / "log.jsonl"
    found = run(SEARCH, evaluate, 12, log)
    drawn = settings_of(SEARCH, 12)
    fine = [s["a"] == 4 and s["training.energy_weight"] >= 1 for s in drawn]
    assert (found.number, found.failed) == (fine.index(True), 12 - sum(fine))
    told = {line["problem"] for line in map(json.loads, log.read_text().splitlines())}
    assert told == {"", "the loss became nan", "the error is nan"}


def test_an_error_that_is_none_of_ours_ends_the_run(tmp_path: Path):
    def evaluate(settings: Settings) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(SEARCH, evaluate, 2, tmp_path / "log.jsonl")
    assert not (tmp_path / "log.jsonl").exists()


def test_settings_that_an_evaluation_changes_are_kept_as_they_were_drawn(tmp_path: Path):
    def evaluate(settings: Settings) -> float:
        settings["b"].append(0)
        settings["training.rate"] = 0
        return 1.0

    assert run(SEARCH, evaluate, 1, tmp_path / "log.jsonl").settings == SEARCH.settings(0)


def test_when_all_trials_fail_there_is_no_best(tmp_path: Path):
    with pytest.raises(
        MDError, match="all 3 trials of network failed, the first with: the error is inf"
    ):
        run(SEARCH, lambda _: float("inf"), 3, tmp_path / "log.jsonl")


def test_trials_of_another_search_are_refused(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    run(SEARCH, error, 2, log)
    for other in (replace(SEARCH, data="other"), replace(SEARCH, seed=1)):
        with pytest.raises(MDError, match="line 1 is a trial of another search"):
            run(other, error, 2, log)
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.parametrize("line", ["{", "[]", '{"number": 1}', "nonsense"])
def test_a_broken_line_is_refused(line: str, tmp_path: Path):
    log = tmp_path / "log.jsonl"
    run(SEARCH, error, 1, log)
    log.write_text(f"{log.read_text()}{line}\n")
    with pytest.raises(MDError, match="line 2 is no trial"):
        run(SEARCH, error, 2, log)


def test_a_log_that_cannot_be_read_is_refused(tmp_path: Path):
    with pytest.raises(MDError, match="cannot be read: "):
        run(SEARCH, error, 1, tmp_path)
    (tmp_path / "log.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(MDError, match="cannot be read: "):
        run(SEARCH, error, 1, tmp_path / "log.jsonl")


def test_no_trials_are_refused(tmp_path: Path):
    with pytest.raises(MDError, match="trials must be at least 1, got 0"):
        run(SEARCH, error, 0, tmp_path / "log.jsonl")


def test_progress_is_reported_after_every_trial(tmp_path: Path):
    told = []
    run(SEARCH, error, 3, tmp_path / "log.jsonl", lambda *words: told.append(words))
    assert [words[:3] for words in told] == [("network", k, 3) for k in (1, 2, 3)]
    least = min(error(SEARCH.settings(k)) for k in range(3))
    assert told[-1][3] == f"best error {least:.3g}"


# What is kept


def outcome(family: str, **changes: object) -> Tuned:
    base = Tuned(family, 0, "d", "s", 24, 1, 5, 0.25, {"training.rate": 0.01, "a": [1, 2]})
    return replace(base, **changes)


def test_outcomes_come_back_as_they_were_frozen(tmp_path: Path):
    path, tuned = tmp_path / "tuned.json", [outcome("circuit"), outcome("network", error=0.1)]
    freeze(tuned, path)
    assert frozen(path) == {one.family: one for one in tuned}


@pytest.mark.parametrize(("change", "what"), [({"trials": 23}, "trials"), ({"data": "e"}, "data")])
def test_families_that_were_not_tuned_alike_are_not_frozen(change: dict, what: str, tmp_path: Path):
    with pytest.raises(MDError, match=f"tuned with the same {what}, got"):
        freeze([outcome("circuit"), outcome("network", **change)], tmp_path / "tuned.json")
    with pytest.raises(MDError, match=r"with the same trials, got \[\]"):
        freeze([], tmp_path / "tuned.json")
    assert not (tmp_path / "tuned.json").exists()


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"format": "other"}', "\xff"])
def test_a_file_that_holds_no_outcomes_is_refused(text: str | None, tmp_path: Path):
    path = tmp_path / "tuned.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(MDError, match="holds no tuned settings, version 1"):
        frozen(path)


# Settings and configurations


def test_settings_are_put_in_their_places_and_the_table_is_left_alone():
    table = {"molecule": "h3o", "model": {"network": None}, "training": {"rate": 1.0, "seed": 3}}
    before = json.dumps(table)
    settings = {"model.network.widths": [6, 4], "training.rate": 0.5, "backend": "aer"}
    assert placed(settings, table) == {
        "molecule": "h3o",
        "model": {"network": {"widths": [6, 4]}},
        "training": {"rate": 0.5, "seed": 3},
        "backend": "aer",
    }
    assert json.dumps(table) == before


def test_a_setting_below_a_value_is_refused():
    with pytest.raises(MDError, match="molecule.name: molecule is 'h3o' in the configuration"):
        placed({"molecule.name": 1}, {"molecule": "h3o"})


def configured(family: str, settings: Settings) -> Config:
    table = {"molecule": "h3o", "model": FAMILIES[family].model}
    return parse(placed(settings, table), family)


@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_is_drawn_of_a_family_is_a_configuration_of_its_terms(family: str):
    for settings in settings_of(Search(family, FAMILIES[family].space, "d"), 30):
        assert set(configured(family, settings).model.terms()) == set(FAMILIES[family].model)


@pytest.mark.slow
@pytest.mark.parametrize("family", [k for k, v in FAMILIES.items() if v.role != "strong"])
def test_all_structures_of_families_of_equal_size_are_of_equal_size(family: str):
    count = lambda settings: model_for(configured(family, settings).model, frames(20)).count()
    assert check_counts(FAMILIES[family].space, count, *SIZES)


def test_structures_of_other_sizes_are_refused():
    space = {"model.w": OneOf((1, 2)), "structure": OneOf(({"a": 10}, {"a": 20})), **SPACE}
    space["structure"] = OneOf(({"a": 10}, {"a": 20}))
    count = lambda settings: settings["model.w"] + settings["a"]
    assert sorted(check_counts(space, count, 11, 22).values()) == [11, 12, 21, 22]
    with pytest.raises(MDError, match="structures must have 12 to 22 weights to be compared, got"):
        check_counts(space, count, 12, 22)
