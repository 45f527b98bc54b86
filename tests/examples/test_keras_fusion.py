"""The fusion example: two kinds of data, each worth something, together worth more."""

import re

import numpy as np
import pytest
from scripts import load
from sklearn.datasets import load_digits

ROW = r"^(both|table alone|image alone) +(\d+\.\d) +(\d+\.\d) to +(\d+\.\d)$"


fusion = load("keras_fusion")


def accuracies(output):
    """label -> (mean, lowest, highest)"""
    rows = re.findall(ROW, output, re.MULTILINE)
    return {label: [float(value) for value in values] for label, *values in rows}


def test_the_quick_form_prints_each_ablation_and_draws_them(run_example, tmp_path):
    output = run_example("keras_fusion.py", "--quick", "--plot", str(tmp_path / "curves.png"))
    found = accuracies(output)
    assert list(found) == ["both", "table alone", "image alone"]
    assert all(0 <= low <= mean <= high <= 100 for mean, low, high in found.values())
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_containers_hold_half_of_the_image_and_the_sums_of_the_whole():
    pixels = load_digits().images[:5]
    image, table = fusion.Images.of(pixels), fusion.Tables.of(pixels)
    np.testing.assert_array_equal(image.values[..., 0] * 16, pixels[:, :, :4])
    np.testing.assert_allclose(table.values[:, 2] * 128, pixels[:, 2].sum(axis=1))
    np.testing.assert_allclose(table.values[:, 8 + 5] * 128, pixels[:, :, 5].sum(axis=1))
    with pytest.raises(ValueError, match=r"Tables: samples of shape \(16,\).*got \(8, 4, 1\)"):
        fusion.Tables(image.values)


@pytest.mark.parametrize("without", ["image", "table"])
def test_a_modality_that_is_ablated_tells_nothing_and_the_other_all(without):
    digits = load_digits()
    data = fusion.Dataset.of(digits.images[:20], digits.target[:20])
    other = fusion.Dataset.of(digits.images[20:], digits.target[20:])
    whole, ablated = data.inputs(None, other), data.inputs(without, other)
    assert np.ptp(ablated[without], axis=0).max() == 0
    (kept,) = {"image", "table"} - {without}
    np.testing.assert_array_equal(ablated[kept], whole[kept])
    assert np.ptp(whole[without], axis=0).max() > 0


@pytest.mark.full
def test_both_together_are_better_than_each_by_ten_points(run_example, tmp_path):
    found = accuracies(run_example("keras_fusion.py", "--plot", str(tmp_path / "curves.png")))
    both, *alone = (mean for mean, _, _ in found.values())
    assert both > 80 and all(both - mean > 10 for mean in alone)
