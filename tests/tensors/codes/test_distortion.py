"""Rank-two codes: the readout is the table, exactly, up to the proved number of values."""

from dataclasses import replace
from math import nextafter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from code_precision import BITS, holds, largest_exact_vocabulary
from factrank.errors import InputError
from factrank.tensors.codes.distortion import (
    argmax_code,
    circle,
    circle_margin,
    parabola_columns,
    parabola_rows,
    softmax_code,
    softmax_scale,
)
from factrank.tensors.codes.set_codes import set_code, set_margin
from strategies import dense_rank

CODES = ("circle", "parabola")
PRECISIONS = ("float32", "float64")


@st.composite
def tables(draw, least=1, most=40):
    """Rows with a value or -1, and how many values there are."""
    n_values = draw(st.integers(least, most))
    rows = draw(st.lists(st.integers(-1, n_values - 1), min_size=1, max_size=30))
    return np.array(rows), n_values


def one_hot(table, n_values):
    return np.asarray(table)[:, None] == np.arange(n_values)


@given(tables(), st.sampled_from([None, *CODES]), st.sampled_from(PRECISIONS))
def test_argmax_is_the_table(problem, name, precision):
    table, n_values = problem
    code, facts = argmax_code(table, n_values, name), table >= 0
    assert np.array_equal(code.argmax(precision)[facts], table[facts])
    count = holds(code, table, precision)
    assert count.exact
    assert count.n_rows == facts.sum()
    assert count.least_margin >= code.margin - 1e-5
    assert not code.left[~facts].any()


@given(tables(), st.sampled_from([None, *CODES]))
def test_the_rank_is_one_for_two_values_and_two_for_more(problem, name):
    table, n_values = problem
    n_used = len(np.unique(table[table >= 0]))
    rank = dense_rank(argmax_code(table, n_values, name).matrix())
    if n_used > 2:
        assert rank == 2
    else:
        assert rank <= (1 if name is None else 2)
        assert argmax_code(table, n_values).left.shape[1] == 1


@given(
    tables(least=2), st.floats(0.0, 1.0, exclude_min=True), st.sampled_from([None, *CODES]), st.sampled_from(PRECISIONS)
)
@example((np.array([0, -1, 1]), 2), 1e-6, "circle", "float32")
@example((np.array([0, -1, 1, 2]), 3), 1.0, "parabola", "float32")
def test_softmax_at_least_tau_is_the_table_with_its_empty_rows(problem, where, name, precision):
    table, n_values = problem
    least, most = (1 + 1e-6) / n_values, nextafter(1.0, 0.0)
    tau = min(max(least + where * (most - least), least), most)
    code = softmax_code(table, n_values, tau, name)
    assert np.array_equal(code.softmax_at_least(tau, precision), one_hot(table, n_values))
    assert holds(code, table, precision).exact


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("n_values", [2, 3, 7, 100, 1000])
def test_tau_next_to_both_ends(name, n_values):
    """In float64 every tau that is allowed works, up to the last place."""
    table = np.append(np.arange(n_values), -1)
    for tau in (nextafter(1 / n_values, 1.0), 0.5 + 1e-16 + 0.25 * (n_values == 2), nextafter(1.0, 0.0)):
        code = softmax_code(table, n_values, tau, name)
        assert holds(code, table, "float64").exact
        t = max(tau, 1 - tau)
        assert code.scale * code.margin > np.log((n_values - 1) * t / (1 - t))
        assert np.log2(code.scale) % 1 == 0


@pytest.mark.parametrize("tau", [0.0, 0.25, 1.0, -0.5, 1.5, float("nan")])
def test_tau_must_lie_between_one_over_the_values_and_one(tau):
    with pytest.raises(InputError, match="tau"):
        softmax_code(np.array([0, 1, 2]), 4, tau)


def test_errors_name_the_row_and_what_was_expected():
    with pytest.raises(InputError, match="row 1: expected a value from 0 to 2, or -1 for no fact; got 3"):
        argmax_code(np.array([0, 3]), 3)
    with pytest.raises(InputError, match="row 0"):
        softmax_code(np.array([-2]), 3, 0.5)
    with pytest.raises(InputError, match="at most two values; the table has 3"):
        argmax_code(np.array([0, 1, 2]), 3, "line")
    with pytest.raises(InputError, match="circle, parabola or line"):
        argmax_code(np.array([0]), 3, "set")
    with pytest.raises(InputError, match="n_values"):
        argmax_code(np.array([-1]), 0)
    with pytest.raises(InputError, match="row 1: expected values"):
        set_code([{0}, {1, 5}], 5)
    with pytest.raises(InputError, match="2 rows, the table 1"):
        holds(argmax_code(np.array([0, 1]), 3), np.array([0]))
    with pytest.raises(InputError, match="holds"):
        largest_exact_vocabulary("line", "float32")


@pytest.mark.parametrize("name", [None, *CODES])
@pytest.mark.parametrize("tau", [None, 0.6])
def test_an_altered_code_is_found_out(name, tau):
    table = np.array([0, 4, 2, 1, 3]) if name else np.array([0, 3, 0, 3, 3])
    code = argmax_code(table, 5, name) if tau is None else softmax_code(table, 5, tau, name)
    assert holds(code, table).n_errors == 0
    for row in range(len(table)):
        altered = code.left.copy()
        altered[row] *= -1
        assert holds(replace(code, left=altered), table).n_errors >= 1
    other = table.copy()
    other[2] = 3 - other[2]
    assert holds(code, other).n_errors == 1
    flat = replace(code, left=0 * code.left)
    assert holds(flat, table).n_errors == len(table), "ties are errors"


# -------------------------------------------------------------------- precision


def test_the_rules_are_the_largest_that_their_inequalities_allow():
    from flint import arb, ctx, fmpq

    for precision, bits in BITS.items():
        most = largest_exact_vocabulary("parabola", precision)
        assert 3 * (most // 2) ** 2 <= 2**bits < 3 * ((most + 1) // 2) ** 2
        for readout, times in (("argmax", 8), ("softmax", 16)):
            most = largest_exact_vocabulary("circle", precision, readout)
            with ctx.workprec(200):
                rule = arb(times) / (arb(2) ** bits - 8)
                assert 2 * arb.sin_pi_fmpq(fmpq(1, most)) ** 2 > rule
                assert 2 * arb.sin_pi_fmpq(fmpq(1, most + 1)) ** 2 < rule
    assert largest_exact_vocabulary("parabola", "float32") == 4729
    assert largest_exact_vocabulary("circle", "float32") == 6433
    assert largest_exact_vocabulary("parabola", "float64") == 109_588_317
    assert largest_exact_vocabulary("circle", "float64") == 149_078_413


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_circle_codes_are_rounded_once(n_values, value):
    from flint import arb, ctx, fmpq

    cosine, sine = circle(np.array([value]), n_values)[0].tolist()
    with ctx.workprec(200):
        exact = arb.sin_cos_pi_fmpq(fmpq(2 * (value % n_values), n_values))
        for stored, true in zip((sine, cosine), exact, strict=True):
            assert abs(arb(stored) - true) <= abs(true) * arb(2) ** -53 * (1 + arb(2) ** -60)
        if n_values > 1:
            assert 0 <= 2 * arb.sin_pi_fmpq(fmpq(1, n_values)) ** 2 - arb(circle_margin(n_values)) < 1e-15


@pytest.mark.parametrize("name", CODES)
def test_float32_is_exact_for_all_values_up_to_the_rule(name):
    """Every comparison of every value with every other, at the largest number of values."""
    n_values = largest_exact_vocabulary(name, "float32")
    everything = np.arange(n_values)
    assert holds(argmax_code(everything, n_values, name), everything, "float32").exact
    n_values = largest_exact_vocabulary(name, "float32", "softmax")
    table = np.append(everything[:n_values:4], -1)
    for tau in (1.01 / n_values, 0.999999):
        assert holds(softmax_code(table, n_values, tau, name), table, "float32").exact


def test_float32_fails_well_beyond_the_rule():
    n_values, near = 20_000, np.arange(4_000, 4_400)
    assert holds(argmax_code(near, n_values, "circle"), near, "float32").n_errors > 0
    n_values, high = 40_000, np.arange(39_000, 39_400)
    assert holds(argmax_code(high, n_values, "parabola"), high, "float32").n_errors > 0


@pytest.mark.parametrize("name", CODES)
def test_float64_is_exact_on_neighbours_at_the_rule(name):
    """The closest rivals of v are v - 1 and v + 1; with them a sample of others, at 10^8 values and more."""
    n_values = largest_exact_vocabulary(name, "float64")
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.integers(2, n_values - 2, 300), [1, n_values - 2, n_values // 2, n_values // 8]])
    rows = circle(values, n_values) if name == "circle" else parabola_rows(values, n_values)
    columns = circle if name == "circle" else parabola_columns
    winning = np.einsum("ij,ij->i", rows, columns(values, n_values))
    for rivals in (values - 1, values + 1, rng.permutation(values)):
        losing = np.einsum("ij,ij->i", rows, columns(rivals, n_values))
        assert np.all((winning > losing) | (rivals == values))


def test_the_scale_is_the_least_power_of_two_with_room_for_rounding():
    scale = softmax_scale(5, 0.5, 1.0)
    assert scale * 1.0 >= 2 * (np.log(4) + 1) > scale / 2


# -------------------------------------------------------------------- sets


@given(st.integers(1, 3), st.integers(7, 30), st.integers(0, 2**32 - 1))
def test_sets_are_the_largest_entries_of_a_matrix_of_rank_2m(m, n_values, seed):
    rng = np.random.default_rng(seed)
    sets = [rng.choice(n_values, rng.integers(0, m + 1), replace=False).tolist() for _ in range(8)]
    sets += [[(i + j) % n_values for j in range(m)] for i in range(2 * m + 1)]
    code = set_code(sets, n_values)
    matrix = code.matrix()
    assert dense_rank(matrix) == code.left.shape[1] == 2 * m
    for row, members in zip(matrix, sets, strict=True):
        if members:
            assert set(np.argsort(row)[-len(members) :].tolist()) == set(members)
            assert np.ptp(row[members]) < 1e-10
    for precision, rounding in (("float64", 1e-11), ("float32", 1e-4)):
        count = holds(code, sets, precision)
        assert count.exact or code.margin < rounding
        assert count.n_rows == sum(map(bool, sets))
        assert abs(count.least_margin - code.margin) < rounding
    assert not holds(replace(code, left=-code.left), sets).exact


@given(st.integers(1, 25), st.integers(0, 2**32 - 1))
def test_the_margin_of_sets_is_the_least_product_over_all_values_outside(n_values, seed):
    rng = np.random.default_rng(seed)
    sets = [rng.choice(n_values, rng.integers(0, n_values + 1), replace=False).tolist() for _ in range(5)]
    products = [
        np.prod([4 * np.sin(np.pi * (v - s) / n_values) ** 2 for s in members])
        for members in sets
        for v in set(range(n_values)) - set(members)
        if members
    ]
    assert set_margin(sets, n_values) == pytest.approx(min(products, default=np.inf), rel=1e-9)


def test_one_value_per_row_is_the_circle_twice():
    table = np.array([3, 0, 2])
    sets = set_code([{3}, {0}, {2}], 5)
    assert np.allclose(sets.matrix(), 2 * argmax_code(table, 5, "circle").matrix())
    assert sets.margin == pytest.approx(2 * circle_margin(5))


def test_no_rows_and_whole_rows():
    assert set_code([], 4).matrix().shape == (0, 4)
    assert set_code([set(), set()], 4).matrix().tolist() == [[0.0] * 4] * 2
    assert holds(set_code([range(4), []], 4), [range(4), []]).exact
    assert holds(argmax_code(np.array([], dtype=np.int64), 4), np.array([], dtype=np.int64)).n_rows == 0
