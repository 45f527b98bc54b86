"""The fits of compare.py as the report needs them: checked, and sorted by what they tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from compare import Records, of, recall
from families import FAMILIES
from problems import MDError

TUNED, UNTUNED = "tuned", "untuned"
_FIT = {
    "name": str, "family": str, "label": str, "seed": int, "frames": int, "parameters": int,
    "seconds": float, "frequency_mae": float, "test": dict, "far": dict,
}  # fmt: skip
_ERRORS = {key: float for key in ("energy_rmse", "force_rmse", "relative", "accuracy", "force_r2")}
_OPTIONAL = ("frequency_mae",)


def read_records(path: Path) -> Records:
    """The finished fits of a file; none where there is no file.

    Raises:
        MDError: a line is no fit; says which, and what is wrong with it.
    """
    records = recall(path)
    for number, one in enumerate(records, 1):
        problem = _wrong(one, _FIT)
        for part in ("test", "far"):
            problem = problem or _wrong(one[part], _ERRORS, f"{part}.")
        if not problem and one["family"] not in FAMILIES:
            problem = f"there is no family {one['family']!r}"
        if problem:
            raise MDError(
                f"{path}, line {number} is no fit of compare.py: {problem}. Move the file away, "
                "and run compare.py again"
            )
    return records


def _wrong(found: Any, wanted: Mapping[str, type], place: str = "") -> str:
    """What a table of a fit lacks; nothing where it is as wanted."""
    if not isinstance(found, dict):
        return f"{place[:-1] or 'it'} must be a table, got {found!r}"
    for key, kind in wanted.items():
        value = found.get(key)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        good = number if kind is float else isinstance(value, kind)
        if not good and not (value is None and key in _OPTIONAL and key in found):
            return f"{place}{key} must be {kind.__name__}, got {value!r}"
    return ""


def headline_frames(records: Records) -> int | None:
    """The number of training frames that the headline is about: the largest there is."""
    return max((one["frames"] for one in records if one["label"] == TUNED), default=None)


@dataclass(frozen=True)
class Curve:
    """The errors of a family against training frames, on the seeds that every size has.

    Attributes:
        frames: (K,) rising.
        errors: (K, S) relative force RMSE on test in percent, of S seeds.
        far: (K, S) the same on far frames.
    """

    frames: np.ndarray
    errors: np.ndarray
    far: np.ndarray


def curves(records: Records) -> dict[str, Curve]:
    """Family -> its learning curve, where there are fits to at least two sizes."""
    found = {}
    for family in FAMILIES:
        sizes = sorted({
            one["frames"] for one in records if (one["family"], one["label"]) == (family, TUNED)
        })  # fmt: skip
        by_seed = [{one["seed"]: one for one in of(records, family, size)} for size in sizes]
        if len(sizes) < 2 or not (seeds := sorted(set.intersection(*map(set, by_seed)))):
            continue
        errors, far = (
            np.array([[fits[seed][part]["relative"] for seed in seeds] for fits in by_seed])
            for part in ("test", "far")
        )
        found[family] = Curve(np.array(sizes), errors, far)
    return found


@dataclass(frozen=True)
class Care:
    """A family with settings that were tuned, and with such that were not, on the same seeds.

    Attributes:
        tuned, untuned: (S,) relative force RMSE on test in percent.
    """

    tuned: np.ndarray
    untuned: np.ndarray


def cared_for(records: Records) -> dict[str, Care]:
    """Family -> what tuning changed, where there are fits of both kinds."""
    found = {}
    for family in FAMILIES:
        sizes = {
            one["frames"] for one in records if (one["family"], one["label"]) == (family, UNTUNED)
        }
        for size in sizes:
            of_label = [
                {one["seed"]: one["test"]["relative"] for one in of(records, family, size, label)}
                for label in (TUNED, UNTUNED)
            ]
            if seeds := sorted(set(of_label[0]) & set(of_label[1])):
                found[family] = Care(
                    *(np.array([errors[seed] for seed in seeds]) for errors in of_label)
                )
    return found
