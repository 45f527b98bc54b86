"""The report: one page that needs nothing else, and figures that are those of the fits and runs."""

import base64
import json
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import compare
import comparison
import comparison_figures as figures
import numpy as np
import pytest
import report
from accuracy import frequencies, relax
from checks import QUICK, Body
from comparison_chapters import (
    against,
    definition,
    departure,
    entanglers,
    headline,
    learning,
    tuning,
)
from configuration import Recipe, Training
from descriptors import spread_of
from dynamics import masses_of
from evidence import cared_for, curves, read_records
from families import FAMILIES
from fitting import fit
from frames import Frames, read, write
from hydronium import SYMBOLS, frames
from hypotheses import Targets, best_equal, holm, hypotheses, targets
from molecules import MOLECULES
from page import Chapter, Table, drawn
from potential_chapters import data_of, distributions, stability
from potentials import Potential, load, model_for
from problems import MDError
from reference import Reference, write_reference
from scipy import stats
from symmetry import pair_kinds

Refused = Callable[..., str]
AIMS = Targets(accuracy=91.5, reduction=23.0)
CHAPTERS = [
    "All models", "Hybrid against the others", "Energies and forces", "Learning curve",
    "Accuracy and its definition", "Tuned against untuned",
    "Without entanglers, with shots, with noise", "Conservation of energy", "Bonds and angles",
    "Vibrations", "Stability at 1000 K",
]  # fmt: skip


class Reader(HTMLParser):
    """What is in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.titles: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag == "h2":
            self.titles.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag  # all is closed in order

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        if self.open and self.open[-1] == "h2":
            self.titles[-1] += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def one_fit(
    family: str, seed: int, count: int = 400, label: str = "tuned", **errors: float | None
) -> dict[str, Any]:
    """A record as compare.py keeps it, with errors that differ by family, size and seed."""
    rng = np.random.default_rng([list(FAMILIES).index(family), seed, count, len(label)])
    relative = (2 + 7 * rng.random()) * np.sqrt(400 / count) * (1 + 3 * (label != "tuned"))

    def part(factor: float) -> dict[str, Any]:
        error = relative * factor
        return {
            "energy_mae": error, "energy_rmse": 1.3 * error, "force_mae": 9 * error,
            "force_rmse": 20 * error, "force_max": 90 * error, "relative": error,
            "energy_r2": 1 - (error / 100) ** 2, "force_r2": 1 - (error / 100) ** 2,
            "elements": {"O": error, "H": error}, "accuracy": 100 - error,
        }  # fmt: skip

    found = {
        "name": f"{family}/{label}/{count}/{seed}", "family": family, "seed": seed,
        "frames": count, "settings": {}, "label": label, "polish": compare.POLISH,
        "molecule": "h3o", "seconds": 10 * rng.random(), "steps": 5, "parameters": 100 + seed,
        "test": part(1.0), "far": part(4.0), "frequencies": [1000.0] * 6,
        "frequency_mae": 10 * rng.random(), "frequency_problem": "",
    }  # fmt: skip
    for key, value in errors.items():
        place = found if key == "frequency_mae" else found["test"]
        place[key] = value
    return found


def all_fits(seeds: range = range(100, 105)) -> list[dict[str, Any]]:
    """Every family on every seed, three sizes on three seeds, and two families untuned."""
    few = list(seeds)[:3]
    return [
        *(one_fit(family, seed) for family in FAMILIES for seed in seeds),
        *(one_fit(f, s, size) for size in (50, 100, 200) for f in FAMILIES for s in few),
        *(one_fit(f, s, label="untuned") for f in ("hybrid", "network", "delta") for s in few),
    ]


def kept(path: Path, records: list[dict[str, Any]]) -> Path:
    """A file of compare.py."""
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def made_up(count: int, seed: int, baths: list[float]) -> Frames:
    return replace(frames(count, seed), temperatures=np.resize(np.array(baths), count))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, a polynomial that was fitted to them, and a comparison."""
    folder = tmp_path_factory.mktemp("report")
    baths = {"train": [300.0, 600.0], "valid": [300.0, 600.0], "test": [300.0, 600.0],
             "far": [1000.0]}  # fmt: skip
    parts = {name: made_up(40, seed, some) for seed, (name, some) in enumerate(baths.items())}
    for name, some in parts.items():
        write(folder / "data" / f"h3o_{name}.xyz", some)
    model = model_for(Recipe(polynomial={"degree": 2}), parts["train"], report.BACKEND)
    params, _ = fit(model, parts["train"], parts["valid"], Training(polish=0))
    spread = spread_of(parts["train"].positions, pair_kinds(SYMBOLS))
    potential = Potential(model, params, spread, {"molecule": "h3o", "frames": 40})
    potential.save(folder / "p.json")
    start = np.array(MOLECULES["h3o"].start)
    waves = np.linspace(900.0, 3700.0, 6)
    reference = Reference("a made-up level", SYMBOLS, start, -2000.0, waves)
    write_reference(folder / "data" / "h3o_reference.json", reference)
    kept(folder / "all.jsonl", all_fits())
    return folder


def arguments(folder: Path, comparison_file: str, output: Path) -> list[str]:
    return [
        str(folder / "p.json"), "--comparison", str(folder / comparison_file),
        "--data", str(folder / "data"), "--output", str(output), "--quick",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def written(folder: Path) -> Path:
    """The folder of a whole report."""
    output = folder / "report"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["report.py", *arguments(folder, "all.jsonl", output)])
        report.main()
    return output


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return (written / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Reader:
    return Reader(text)


# One page


def test_the_page_refers_to_nothing_outside_of_it(page: Reader, text: str):
    places = [
        value
        for _, attributes in page.tags
        for key, value in attributes.items()
        if key in ("src", "href", "srcset", "data", "action", "poster", "background")
    ]
    assert places and all(p and p.startswith(("data:image/png;base64,", "#")) for p in places)
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object")]
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style and "url(" not in style[1] and "@import" not in style[1]
    assert "://" not in re.sub(r"base64,[^\"]*", "", text)


def test_every_picture_is_embedded_described_and_beside_the_page(page: Reader, written: Path):
    pictures = page.of("img")
    beside = {path.read_bytes() for path in written.glob("*.png")}
    embedded = [base64.b64decode(str(one["src"]).partition("base64,")[2]) for one in pictures]
    assert set(embedded) == beside and len(embedded) == len(beside) >= 9
    assert all(content.startswith(b"\x89PNG") for content in embedded)
    assert all(len(str(one["alt"])) > 40 for one in pictures)


def test_every_chapter_is_there_and_the_contents_lead_to_it(page: Reader):
    assert page.titles == CHAPTERS
    names = [one["id"] for one in page.of("section")]
    assert [one["href"] for one in page.of("a")] == [f"#{name}" for name in names]
    assert len(set(names)) == len(CHAPTERS)


def test_the_page_says_its_language_and_fits_a_narrow_screen(page: Reader):
    assert page.of("html") == [{"lang": "en"}]
    assert {"charset": "utf-8"} in page.of("meta")
    assert any(one.get("name") == "viewport" for one in page.of("meta"))


def test_tables_have_heads_and_rows_of_one_length(page: Reader):
    assert len(page.tables) >= 8
    for table in page.tables:
        assert len({len(row) for row in table}) == 1 and len(table) > 1
    assert all(one.get("scope") in ("col", "row") for one in page.of("th"))


def test_letters_that_mean_something_in_html_are_written_out():
    chapter = Chapter("a < b", ("x & y <script>", Table("<c>", ("<h>", "1"), (("<r>", "&"),))))
    found = Reader(chapter.html())
    assert found.titles == ["a < b"] and found.tables == [[["<h>", "1"], ["<r>", "&"]]]
    assert not found.of("script")


def test_the_same_figure_gives_the_same_picture():
    said = ("name", figures.bars(cared_for(all_fits())), "alt", "caption")
    again = ("name", figures.bars(cared_for(all_fits())), "alt", "caption")
    assert drawn(*said) == drawn(*again)


# Figures of the comparison


def cells(page: Reader, first: str, column: str) -> list[str]:
    """Of all rows that begin with a word, in tables that have such a column."""
    return [
        row[table[0].index(column)]
        for table in page.tables
        if column in table[0]
        for row in table[1:]
        if row[0] == first
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_headline_has_means_and_deviations_of_the_fits(page: Reader, family: str):
    fits = [one_fit(family, seed) for seed in range(100, 105)]
    force = [one["test"]["force_rmse"] for one in fits]
    shown = cells(page, FAMILIES[family].title, "force RMSE (meV/Å)")
    assert shown == [f"{statistics.mean(force):.2f} ± {statistics.stdev(force):.2f}"]
    waves = [one["frequency_mae"] for one in fits]
    shown = cells(page, FAMILIES[family].title, "frequencies, MAE (1/cm)")
    assert shown == [f"{statistics.mean(waves):.2f} ± {statistics.stdev(waves):.2f}"]


def test_the_headline_is_the_table_that_compare_prints():
    found = next(p for p in headline(all_fits(), 400, AIMS).parts if isinstance(p, Table))
    printed = compare.errors_table(all_fits(), 400).splitlines()[2:]
    lines = [re.split(r"\s{2,}", line) for line in printed]
    assert len(lines) == len(FAMILIES)
    for line, row in zip(lines, found.rows, strict=True):
        assert line == [row[0], *row[3:]]


def test_reductions_and_p_values_are_those_of_the_pairs(page: Reader):
    pairs = [(one_fit("hybrid", s), one_fit("kernel", s)) for s in range(100, 105)]
    ours, theirs = (np.array([one["test"]["force_rmse"] for one in some])
                    for some in zip(*pairs, strict=True))  # fmt: skip
    name = FAMILIES["kernel"].title
    assert cells(page, name, "reduction")[0] == f"{100 * (1 - ours.sum() / theirs.sum()):+.1f} %"
    assert cells(page, name, "better on")[0] == f"{(ours < theirs).sum()} of 5"
    assert cells(page, name, "p")[0] == f"{stats.wilcoxon(ours - theirs).pvalue:.2g}"
    assert cells(page, name, "p after Holm") == ["-", "-"]


def test_the_rival_is_the_best_classical_family_of_equal_size():
    least = {"hybrid": 5.0, "polynomial": 4.0, "network": 3.0, "delta": 6.0, "kernel": 1.0,
             "large": 0.5}  # fmt: skip
    records = [
        one_fit(f, s, force_rmse=error + 0.01 * s, frequency_mae=7 - error)
        for f, error in least.items()
        for s in range(100, 104)
    ]
    assert best_equal(records, 400, "force RMSE") == "network"
    assert best_equal(records, 400, "frequencies") == "delta"
    assert [one.family for one in hypotheses(records, 400)] == ["network", "delta"]


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [([0.01, 0.02, 0.03, 0.04], [0.04, 0.06, 0.06, 0.06]),
     ([0.04, 0.01], [0.04, 0.02]), ([0.9, 0.8], [1.0, 1.0]), ([0.3], [0.3]), ([], [])],
)  # fmt: skip
def test_holm_corrects_as_in_the_textbook(p_values: list[float], corrected: list[float]):
    assert holm(p_values) == pytest.approx(corrected)


def test_the_answers_carry_corrected_p_values(page: Reader):
    asked = hypotheses(all_fits(), 400)
    raw = [one.outcome.wilcoxon for one in asked]
    low, high = sorted(raw)
    wanted = {low: min(2 * low, 1), high: max(min(2 * low, 1), high)}
    for one in asked:
        assert one.corrected == pytest.approx(wanted[one.outcome.wilcoxon])
    shown = [
        cell
        for family in FAMILIES.values()
        for cell in cells(page, family.title, "p after Holm")
        if cell != "-"
    ]
    assert sorted(shown) == sorted(f"{one.corrected:.2g}" for one in asked)


def words(chapter: Chapter) -> str:
    return " ".join(part for part in chapter.parts if isinstance(part, str))


@pytest.mark.parametrize("better", [True, False])
def test_whether_the_targets_are_reached_is_computed(better: bool):
    scale = 0.5 if better else 0.95
    records = [
        one_fit(f, s, force_rmse=(10 + 0.1 * s) * (scale if f == "hybrid" else 1),
                accuracy=92.0 if better else 91.0)
        for f in ("hybrid", "network")
        for s in range(100, 105)
    ]  # fmt: skip
    told = words(headline(records, 400, AIMS))
    assert "91.5 %" in told and ("does not reach" in told) is not better
    assert f"{5 if better else 0} of 5 seeds" in told
    first = next(one for one in against(records, 400, AIMS).parts if "Force RMSE:" in str(one))
    assert "23 %" in first and ("not reached" in first) is not better
    assert f"lower by {100 * (1 - scale):.1f} %" in first


def test_the_targets_are_read_out_of_the_protocol(tmp_path: Path):
    (tmp_path / "P.md").write_text("an accuracy\nof 71.5 % on test; lower by 33 % or more?")
    assert targets(tmp_path / "P.md") == Targets(71.5, 33.0)
    (tmp_path / "P.md").write_text("nothing")
    with pytest.raises(MDError, match="must say"):
        targets(tmp_path / "P.md")


def test_no_target_is_written_in_the_code():
    aim = f"{targets().accuracy:g}"
    sources = [path for path in Path(report.__file__).parent.glob("*.py")]
    assert len(sources) > 10
    assert [path.name for path in sources if aim in path.read_text("utf-8")] == []


def test_fits_that_the_protocol_is_not_about_are_told_apart():
    seeds = range(compare.FIRST_SEED, compare.FIRST_SEED + compare.SEEDS)
    whole = [one_fit(f, s, compare.FRAMES) for f in FAMILIES for s in seeds]
    assert departure(whole, compare.FRAMES) == []
    for broken in (whole[1:], [one | {"polish": 1} for one in whole]):
        assert "no answer" in " ".join(departure(broken, compare.FRAMES))
    small = [one | {"frames": 20} for one in whole]
    assert "no answer" in words(headline(small, 20, AIMS))
    assert "no answer" in words(against(small, 20, AIMS))


def test_fits_without_frequencies_are_told_and_left_out():
    records = [one_fit(f, s) for f in ("hybrid", "network") for s in range(100, 104)]
    records[0]["frequency_mae"] = None
    chapter = headline(records, 400, AIMS)
    assert records[0]["name"] in words(chapter)
    table = next(part for part in chapter.parts if isinstance(part, Table))
    known = [one["frequency_mae"] for one in records[1:4]]
    assert f"{statistics.mean(known):.2f} ± {statistics.stdev(known):.2f}" in table.rows[0]
    (outcome,) = [one for one in hypotheses(records, 400) if one.quantity == "frequencies"]
    assert outcome.outcome.seeds == 3


def test_pairs_are_of_the_same_seed_where_a_comparison_is_not_finished():
    records = [one_fit(f, s) for f in ("hybrid", "network") for s in range(100, 106)]
    records = [one for one in records if one["name"] != "network/tuned/400/102"]
    (outcome,) = [one for one in hypotheses(records, 400) if one.quantity == "force RMSE"]
    seeds = [s for s in range(100, 106) if s != 102]
    ours, theirs = (
        sum(one_fit(f, s)["test"]["force_rmse"] for s in seeds) for f in ("hybrid", "network")
    )
    assert outcome.outcome.reduction == pytest.approx(1 - ours / theirs)


def test_a_learning_curve_is_of_seeds_that_every_size_has(page: Reader):
    found = curves(all_fits())["delta"]
    np.testing.assert_array_equal(found.frames, [50, 100, 200, 400])
    wanted = [[one_fit("delta", s, n)["test"]["relative"] for s in range(100, 103)]
              for n in (50, 100, 200, 400)]  # fmt: skip
    np.testing.assert_allclose(found.errors, wanted)
    shown = cells(page, FAMILIES["delta"].title, "50 frames")[0]
    assert shown == f"{np.mean(wanted[0]):.2f} ({min(wanted[0]):.2f} to {max(wanted[0]):.2f})"


def test_the_power_of_a_learning_curve_is_that_of_the_errors():
    records = [
        one_fit("hybrid", s, n, relative=3.0 * (n / 100) ** -0.75)
        for n in (50, 100, 400)
        for s in (1, 2)
    ]
    assert "to the power -0.75" in words(learning(records))


def test_untuned_fits_are_compared_with_tuned_ones_of_the_same_seeds():
    found = cared_for(all_fits())
    assert list(found) == ["hybrid", "network", "delta"]
    wanted = [one_fit("network", s)["test"]["relative"] for s in range(100, 103)]
    np.testing.assert_allclose(found["network"].tuned, wanted)
    wanted = [one_fit("network", s, label="untuned")["test"]["relative"] for s in range(100, 103)]
    np.testing.assert_allclose(found["network"].untuned, wanted)


def test_the_advantage_against_untuned_baselines_is_told_beside_the_fair_one():
    errors = {("hybrid", "tuned"): 2.0, ("hybrid", "untuned"): 9.0, ("network", "tuned"): 1.6,
              ("network", "untuned"): 4.0}  # fmt: skip
    records = [one_fit(f, s, label=k, relative=e) for (f, k), e in errors.items() for s in (1, 2)]
    told = words(tuning(records))
    assert "higher by 25.0 %" in told and "lower by 50.0 %" in told
    assert "4.5 (polynomial + circuit)" in told and "2.5 (network)" in told


def test_what_a_percentage_means_is_computed_both_ways():
    told = words(definition([one_fit("hybrid", 1, relative=10.0, accuracy=90.0, force_r2=0.99)],
                            Targets(91.0, 5.0)))  # fmt: skip
    assert "relative force error of 9.0 %" in told and "R² = 0.99190" in told
    assert "R² = 0.91" in told and "relative force error of 30.0 %" in told
    assert "0 reach 91 % by accuracy" in told and "1 by R²" in told


# Figures of the potential


def test_errors_of_the_potential_are_those_of_its_predictions(page: Reader, folder: Path):
    potential, test = load(folder / "p.json"), read(folder / "data" / "h3o_test.xyz")
    _, forces = potential.energy_and_forces(test.positions)
    for name, some in (("test", slice(None)), ("test, 600 K", test.temperatures == 600)):
        off = (forces - test.forces)[some]
        size = np.sqrt((test.forces[some] ** 2).mean())
        assert cells(page, name, "force RMSE (meV/Å)") == [f"{1e3 * np.sqrt((off**2).mean()):.1f}"]
        accuracy = 100 - 100 * np.sqrt((off**2).mean()) / size
        assert cells(page, name, "accuracy (%)") == [f"{accuracy:.2f}"]


def test_harmonic_frequencies_stand_beside_the_reference(page: Reader, folder: Path):
    energy = load(folder / "p.json").energy_fn()
    minimum = relax(energy, np.array(MOLECULES["h3o"].start))
    ours = frequencies(energy, minimum, masses_of(SYMBOLS))
    shown = [cells(page, str(k + 1), "potential (1/cm)")[0] for k in range(6)]
    np.testing.assert_allclose([float(cell) for cell in shown], ours, atol=0.06)
    assert cells(page, "6", "a made-up level (1/cm)") == ["3700.0"]


def test_the_fluctuation_grows_as_the_timestep_squared(text: str):
    power = re.search(r"fluctuates as the timestep to the power ([\d.]+)", text)
    assert power and abs(float(power[1]) - 2) < 0.5  # of a tenth of a picosecond


# What is missing, and what is wrong


def test_without_a_comparison_the_page_says_what_to_run(tmp_path: Path):
    records = read_records(tmp_path / "none.jsonl")
    chapters = report.fits(records, AIMS)
    told = " ".join(words(chapter) for chapter in chapters)
    told += " ".join(map(str, entanglers(records, None)))
    assert told.count("python examples/md/compare.py, and give its") == 4
    assert told.count("compare.py --curve") == 2
    assert {chapter.title for chapter in chapters} < set(CHAPTERS)
    assert not any(chapter.pictures for chapter in chapters)


def test_without_a_curve_the_page_says_how_to_make_it():
    records = [one_fit(f, s) for f in ("hybrid", "network") for s in range(100, 103)]
    for chapter in (learning(records), tuning(records)):
        assert "compare.py --curve" in words(chapter) and len(chapter.parts) == 1


def test_a_single_seed_is_compared_with_nothing():
    records = [one_fit(f, 100) for f in FAMILIES]
    assert "two seeds" in words(against(records, 400, AIMS))


def test_a_potential_without_a_circuit_is_not_asked_for_shots(text: str):
    assert "This potential (polynomial) has no circuit" in text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"name": "hybrid', "cannot be read"),
        ("3", "line 2 is no fit of compare.py: it must be a table, got 3"),
        ("{}", "name must be str, got None"),
        (json.dumps(one_fit("hybrid", 1) | {"family": "magic"}), "no family 'magic'"),
        (json.dumps(one_fit("hybrid", 1) | {"seed": "1"}), "seed must be int, got '1'"),
        (json.dumps(one_fit("hybrid", 1) | {"far": None}), "far must be dict, got None"),
        (json.dumps(one_fit("hybrid", 1, accuracy=None)), "test.accuracy must be float, got None"),
    ],
)
def test_a_damaged_comparison_is_refused_in_one_line(
    folder: Path, refused: Refused, tmp_path: Path, line: str, problem: str
):
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(json.dumps(one_fit("hybrid", 100)) + "\n" + line + "\n")
    given = arguments(folder, "all.jsonl", tmp_path / "r")
    given[2] = str(damaged)
    told = refused(report, *given)
    assert str(damaged) in told and problem in told and "Move" in told
    assert not (tmp_path / "r").exists()


def test_half_a_line_of_a_killed_comparison_is_no_damage(tmp_path: Path):
    path = kept(tmp_path / "c.jsonl", [one_fit("hybrid", 1)])
    path.write_text(path.read_text() + '{"name": "netw')
    assert [one["name"] for one in read_records(path)] == ["hybrid/tuned/400/1"]


def test_other_wrong_input_is_refused_in_one_line(folder: Path, refused: Refused, tmp_path: Path):
    given = arguments(folder, "all.jsonl", tmp_path / "r")
    assert "cannot be read as a potential" in refused(report, "none.json", *given[1:])
    given[4] = str(tmp_path)
    assert "cannot be read as extxyz" in refused(report, *given)
    assert "--seed" in refused(report, *given, "--seed", "-1")


@pytest.mark.slow
def test_data_of_no_bath_are_told_of_without_one(folder: Path, tmp_path: Path):
    """As those of LiH, whose bond is drawn at several lengths."""
    for path in (folder / "data").glob("h3o*"):
        (tmp_path / path.name).write_text(path.read_text())
    for part in ("train", "valid", "test", "far"):
        every = read(tmp_path / f"h3o_{part}.xyz")
        nowhere = np.full(len(every), np.nan)
        write(tmp_path / f"h3o_{part}.xyz", replace(every, temperatures=nowhere))
    data = data_of(load(folder / "p.json", report.BACKEND), tmp_path)
    assert (data.warm, data.cool, data.hot) == ([], 300.0, 1000.0)
    assert list(data.sets) == ["test", "far"]
    body = Body(load(folder / "p.json", report.BACKEND), data.reference.positions)
    told = distributions(body, data, QUICK, 0, lambda *_: None)
    assert "no bath" in str(told.parts[0])
    assert "are of no bath" in str(stability(body, data, QUICK, 0, lambda *_: None).parts[0])


@pytest.mark.slow
def test_fits_of_compare_are_told_of(folder: Path, tmp_path: Path):
    small = {"model.polynomial.degree": 2}
    jobs = [comparison.Job("polynomial", seed, 20, small) for seed in (1, 2)]
    compare.run(jobs, tmp_path / "c.jsonl", folder / "data", 0, 1)
    records = read_records(tmp_path / "c.jsonl")
    assert [one["name"] for one in records] == [job.name for job in jobs]
    table = next(p for p in headline(records, 20, AIMS).parts if isinstance(p, Table))
    accuracy = [one["test"]["accuracy"] for one in records]
    assert f"{statistics.mean(accuracy):.2f} ± {statistics.stdev(accuracy):.2f}" in table.rows[0]
