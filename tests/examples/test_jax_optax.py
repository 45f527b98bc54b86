"""The Optax example: energies that fall to the exact one."""

import re

import pytest


def energies(output):
    """(energies printed, the exact one, by how much it was missed)"""
    rows = re.findall(r"^step +\d+, energy (-?\d+\.\d{5})$", output, re.MULTILINE)
    exact, missed = re.search(
        r"^exact (-?\d+\.\d+), missed by (\S+)$", output, re.MULTILINE
    ).groups()
    return [float(value) for value in rows], float(exact), float(missed)


def test_the_quick_form_lowers_the_energy_and_says_how_far_it_is(run_example):
    found, exact, missed = energies(run_example("jax_optax.py", "--quick"))
    assert len(found) == 6 and found[-1] < found[0]
    assert missed == pytest.approx(found[-1] - exact, rel=0.05)


@pytest.mark.slow
def test_the_ground_state_is_found(run_example):
    """The exact energy of 4 spins of a ring is -2 (sqrt(2 + sqrt(2)) + sqrt(2 - sqrt(2)))."""
    _, exact, missed = energies(run_example("jax_optax.py"))
    closed_form = -2 * ((2 + 2**0.5) ** 0.5 + (2 - 2**0.5) ** 0.5)
    assert exact == pytest.approx(closed_form, abs=1e-5)
    assert missed < 1e-4
