"""Dense networks: their values, weights and derivatives, and the mean over permutations."""

import jax
import jax.numpy as jnp
import networks
import numpy as np
import pytest
from problems import MDError
from symmetry import pair_permutations

GROUP = pair_permutations(("O", "H", "H", "H"))
WIDTHS = [(6, 9), (6, 6, 4), (6, 3, 2, 5)]


def weights(widths: tuple[int, ...], seed: int = 0) -> dict[str, np.ndarray]:
    """Weights of a network whose biases are not zero."""
    rng = np.random.default_rng(seed)
    return {k: rng.normal(size=v.shape) for k, v in networks.initial(rng, widths).items()}


def by_loops(weights: dict[str, np.ndarray], x: np.ndarray) -> float:
    """The value of a network, unit by unit."""
    depth = sum(name.startswith("bias") for name in weights)
    values = list(x)
    for k in range(depth):
        kernel, bias = weights[f"kernel{k}"], weights[f"bias{k}"]
        values = [
            np.tanh(sum(v * kernel[i, j] for i, v in enumerate(values)) + bias[j])
            for j in range(len(bias))
        ]
    return sum(v * weights[f"kernel{depth}"][i, 0] for i, v in enumerate(values))


@pytest.mark.parametrize("widths", WIDTHS)
def test_the_value_is_that_of_the_units_one_by_one(widths: tuple[int, ...]):
    w, x = weights(widths), np.random.default_rng(1).normal(size=6)
    assert float(networks.apply(w, x)) == pytest.approx(by_loops(w, x), abs=1e-13)


@pytest.mark.parametrize("widths", WIDTHS)
def test_the_averaged_value_is_the_mean_over_permuted_variables(widths: tuple[int, ...]):
    w, x = weights(widths), np.random.default_rng(2).normal(size=6)
    expected = np.mean([by_loops(w, x[permutation]) for permutation in GROUP])
    assert float(networks.averaged(w, x, GROUP)) == pytest.approx(float(expected), abs=1e-13)


def test_permuting_variables_changes_the_network_but_not_its_mean():
    w, x = weights((6, 9)), np.random.default_rng(3).normal(size=6)
    for permutation in GROUP[1:]:
        assert abs(networks.apply(w, x) - networks.apply(w, x[permutation])) > 1e-3
        assert float(networks.averaged(w, x[permutation], GROUP)) == pytest.approx(
            float(networks.averaged(w, x, GROUP)), abs=1e-13
        )


@pytest.mark.parametrize("widths", WIDTHS)
def test_the_count_is_that_of_the_first_weights(widths: tuple[int, ...]):
    first = networks.initial(np.random.default_rng(0), widths)
    assert networks.count(widths) == sum(value.size for value in first.values())


def test_with_the_constant_of_the_potential_a_network_of_nine_units_has_73_weights():
    assert networks.count((6, 9)) + 1 == 6 * 9 + 9 + 9 + 1 == 73


def test_first_weights_have_the_deviation_that_is_asked_for_and_biases_are_zero():
    first = networks.initial(np.random.default_rng(0), (100, 400, 100), spread=0.7)
    assert first["kernel0"].std() == pytest.approx(0.7 / 10, rel=0.02)
    assert first["kernel1"].std() == pytest.approx(0.7 / 20, rel=0.02)
    assert first["kernel2"].std() == pytest.approx(0.7 / 10, rel=0.3)
    assert not first["bias0"].any() and not first["bias1"].any()


def test_the_same_generator_gives_the_same_weights():
    one, other = (networks.initial(np.random.default_rng(5), (6, 9)) for _ in range(2))
    third = networks.initial(np.random.default_rng(6), (6, 9))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert not np.array_equal(one["kernel0"], third["kernel0"])


def test_the_gradient_and_the_curvature_of_the_mean_are_their_difference_quotients():
    w, x, step = weights((6, 5, 4)), np.random.default_rng(4).normal(size=6), 1e-5
    value = jax.jit(lambda x: networks.averaged(w, x, GROUP))
    slope = jax.jit(jax.grad(value))
    moves = step * np.eye(6)
    quotients = [(value(x + e) - value(x - e)) / (2 * step) for e in moves]
    np.testing.assert_allclose(slope(x), quotients, atol=1e-8)
    curvatures = [(slope(x + e) - slope(x - e)) / (2 * step) for e in moves]
    np.testing.assert_allclose(jax.hessian(value)(x), curvatures, atol=1e-8)


def test_many_variables_at_once_have_many_values():
    w, many = weights((6, 9)), jnp.asarray(np.random.default_rng(5).normal(size=(4, 6)))
    expected = [by_loops(w, np.asarray(x)) for x in many]
    np.testing.assert_allclose(networks.apply(w, many), expected, atol=1e-13)


@pytest.mark.parametrize("widths", [(6,), (), (6, 0), (6, 2.5), (6, -1, 3)])
def test_widths_without_a_hidden_layer_or_that_are_no_numbers_are_refused(widths: tuple):
    with pytest.raises(MDError, match="positive integers, at least two of them; got"):
        networks.initial(np.random.default_rng(0), widths)
    with pytest.raises(MDError, match="positive integers"):
        networks.count(widths)
