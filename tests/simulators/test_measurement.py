"""What is measured together, how shots are spread, and what outcomes are worth."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from qml.circuits.paulis import Pauli
from qml.circuits.program import Expectation, Probabilities
from qml.oracle import program_of
from qml.simulators.measurement import Group, allocation, groups, pack, shots_of, terms
from qml.subjects import every


def test_strings_of_a_group_agree_wherever_they_meet():
    rng = np.random.default_rng(0)
    for _ in range(50):
        strings = {
            Pauli.from_letters(rng.choice(list("IXYZ"), size=5), range(5)): float(rng.normal())
            for _ in range(30)
        }
        total = Expectation(tuple(strings), tuple(strings.values()))
        program = program_of(5, [], [total, Probabilities((3, 1))])
        made = groups(program, every(program))
        found = [pauli for group in made for _, pauli, _ in group.strings]
        assert sorted(found) == sorted(p for p in strings if p.support)
        assert sum(len(group.blocks) for group in made) == 1
        assert len(made) < len(found)
        for group in made:
            for _, pauli, _ in group.strings:
                assert pauli.letters(pauli.support) == group.basis.letters(pauli.support)
            for _, qubits in group.blocks:
                assert group.basis.letters(qubits) == "Z" * len(qubits)


def test_strings_are_measured_together_up_to_a_width():
    words = [Pauli(0, 1 << q) for q in range(4)]
    parity = Pauli(0, 15)
    outputs = [Expectation(tuple(words), (1.0,) * 4), Expectation((parity, parity), (0.5, 1.0))]
    program = program_of(4, [], [*outputs, outputs[1]])
    supports = lambda *widest: [g.qubits for g in groups(program, every(program), *widest)]
    assert supports(3) == [(0, 1, 2), (3,), (0, 1, 2, 3)]
    assert supports(4) == supports() == [(0, 1, 2, 3)]


def test_strings_that_cancel_and_the_identity_are_not_measured():
    z, x, identity = Pauli(0, 1), Pauli(1, 0), Pauli(0, 0)
    output = Expectation((z, x, z, identity), (0.5, 2.0, -0.5, 3.0))
    assert terms(output) == {x: 2.0}
    program = program_of(1, [], [output])
    assert [group.basis for group in groups(program, every(program))] == [x]


@given(st.sets(st.integers(0, 80), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_outcomes_are_worth_the_product_of_the_signs_that_were_read(measured, seed):
    """On up to 81 qubits, of which some are measured, in any letters."""
    rng = np.random.default_rng(seed)
    qubits = sorted(measured)
    letters = dict(zip(qubits, rng.choice(list("XYZ"), len(qubits)), strict=True))
    some = sorted(rng.permutation(qubits)[: rng.integers(1, len(qubits) + 1)].tolist())
    block = tuple(rng.permutation(qubits)[:2].tolist())
    string = Pauli.from_letters([letters[q] for q in some], some)
    group = Group(Pauli.from_letters(letters.values(), qubits), [(1, string, -2.5)], [(2, block)])
    read = rng.integers(2, size=(7, len(qubits)))
    outcomes = [sum(int(bit) << i for i, bit in enumerate(row)) for row in read]
    found = group.values(pack(outcomes, len(qubits)), 6)
    for row, values in zip(read, found, strict=True):
        bit = dict(zip(qubits, row.tolist(), strict=True))
        expected = np.zeros(6)
        expected[1] = -2.5 * np.prod([(-1) ** bit[q] for q in some])
        expected[2 + sum(bit[q] << j for j, q in enumerate(block))] = 1
        np.testing.assert_array_equal(values, expected)


# --- shots

weights = st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=6)


@given(weights, st.integers(1, 1000))
def test_a_total_is_spread_whole_in_order_and_to_everyone(weights, each):
    total = each * len(weights)
    given_to = np.array(allocation(weights, total))
    assert given_to.sum() == total and given_to.min() >= 1
    assert (np.diff(given_to[np.argsort(weights, kind="stable")]) >= -1).all()


@given(st.lists(st.floats(1.0, 10.0), min_size=1, max_size=6), st.integers(20, 10**6))
def test_shots_are_in_proportion_to_weights_but_for_whole_numbers(weights, each):
    """Nobody's share is below one here, so each is its share rounded, up or down."""
    total = each * len(weights)
    exact = total * np.array(weights) / np.sum(weights)
    assert (np.abs(allocation(weights, total) - exact) < 1).all()


@pytest.mark.parametrize("seats", range(3, 9))
def test_few_parts_go_where_they_make_the_variance_of_the_sum_least(seats):
    """Against all ways to spread them; they are a rounding of the best, so within a tenth."""
    sizes = np.array([6.0, 3.0, 1.0])
    ways = [w for w in itertools.product(range(1, seats), repeat=3) if sum(w) == seats]
    variances = {way: (sizes**2 / np.array(way)).sum() for way in ways}
    best = min(variances.values())
    assert variances[tuple(allocation(sizes.tolist(), seats))] <= 1.1 * best


def test_the_weight_of_a_group_is_that_of_its_coefficients_and_one_for_a_block():
    z, zz, x = Pauli(0, 1), Pauli(0, 3), Pauli(1, 0)
    outputs = [Expectation((z, x), (-3.0, 1.0)), Expectation((zz,), (2.0,)), Probabilities((1,))]
    program = program_of(2, [], outputs)
    found = groups(program, every(program))
    assert [group.weight for group in found] == [3 + 2 + 1, 1]
    assert shots_of(found, 70, "weighted") == [120, 20]
    assert shots_of(found, 70, "uniform") == [70, 70]
    assert shots_of((), 70, "weighted") == []
