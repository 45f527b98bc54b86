"""cos and sin of a row of lanes."""

import numpy as np
import pytest

from qml.simulators.statevector.angles import REDUCED, cos_sin, reduced_cos_sin

RNG = np.random.default_rng(0)
ANGLES = np.concatenate(
    [
        RNG.uniform(-REDUCED, REDUCED, 20_000),
        5 * RNG.normal(size=20_000),
        np.arange(-400, 401) * np.pi / 4,
        [0.0, -0.0, 1e-300, REDUCED, -REDUCED],
    ]
)


def test_both_are_right_to_a_unit_and_a_half_in_the_last_place():
    cosine, sine = np.empty_like(ANGLES), np.empty_like(ANGLES)
    reduced_cos_sin(ANGLES, cosine, sine)
    exact = ANGLES.astype(np.longdouble)
    assert np.abs(cosine - np.cos(exact)).max() < 1.5 * 2**-53
    assert np.abs(sine - np.sin(exact)).max() < 1.5 * 2**-53


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_and_missing_angles_are_those_of_numpy(dtype):
    lanes = 64 // np.dtype(dtype).itemsize
    angles = np.full((lanes, 1), 0.7, dtype)
    angles[:4, 0] = 3e7, -1e15, np.nan, np.inf
    c, s = np.empty(lanes, dtype), np.empty(lanes, dtype)
    cos_sin(angles, np.arange(lanes), np.zeros((1, 2), np.int64), 0, 1, c, s)
    half = 0.5 * angles[:, 0].astype(np.float64)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(c, np.cos(half), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(s, np.sin(half), rtol=1e-6, atol=1e-7)
