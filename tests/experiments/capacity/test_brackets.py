"""Which sizes are tried: the true threshold always lies between two sizes that were tried, near enough."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.capacity.brackets import Sizes, bracket, is_monotone


@st.composite
def sizes(draw, most=5000):
    least = draw(st.integers(1, most))
    guess = draw(st.integers(least, most))
    greatest = draw(st.integers(guess, most))
    resolution = draw(st.sampled_from([1, 1.01, 1.1, 1.5, 4]))
    spread = draw(st.sampled_from([4, 1.3, 1.05]))
    return Sizes(guess, least, greatest, draw(st.integers(1, 9)), resolution, spread)


def searched(plan, holds, failing=frozenset()):
    """The outcomes of a whole search, the sizes that failed, and the sizes of each round."""
    outcomes, failed, rounds = {}, [], []
    while asked := plan.next(outcomes, failed):
        assert len(asked) <= plan.probes
        assert asked == sorted(set(asked))
        assert all(plan.least <= size <= plan.most for size in asked)
        assert not set(asked) & (set(outcomes) | set(failed))  # nothing twice
        rounds.append(asked)
        failed += [size for size in asked if size in failing]
        outcomes |= {size: holds(size) for size in asked if size not in failing}
        assert len(rounds) < 2000
    return outcomes, failed, rounds


def bisection(threshold, least, most):
    """The textbook: double from the least size, then halve; the largest whole number that holds."""
    if least > threshold:
        return None
    lower = least
    while lower * 2 <= min(threshold, most):
        lower *= 2
    upper = min(lower * 2, most + 1)
    while upper > lower + 1:
        middle = (lower + upper) // 2
        lower, upper = (middle, upper) if middle <= threshold else (lower, middle)
    return lower


@given(sizes(), st.integers(0, 6000))
def test_the_threshold_lies_between_two_sizes_that_were_tried(plan, threshold):
    outcomes, _, _ = searched(plan, lambda size: size <= threshold)
    lower, upper = bracket(outcomes)
    assert is_monotone(outcomes)
    if threshold < plan.least:
        assert (lower, upper) == (None, plan.least)
    elif threshold >= plan.most:
        assert (lower, upper) == (plan.most, None)
    else:
        assert outcomes[lower] is True
        assert outcomes[upper] is False
        assert lower <= threshold < upper
        assert upper == lower + 1 or upper <= plan.resolution * lower


@given(st.integers(1, 9), st.integers(1, 3000), st.integers(1, 3000))
def test_the_finest_resolution_is_that_of_bisection(probes, guess, threshold):
    outcomes, _, _ = searched(Sizes(guess, 1, 3000, probes, 1), lambda size: size <= threshold)
    assert bracket(outcomes)[0] == bisection(threshold, 1, 3000)


def test_one_probe_at_a_time_is_bisection_by_ratios():
    _, _, rounds = searched(Sizes(10, probes=1, resolution=1), lambda size: size <= 100)
    assert [size for asked in rounds for size in asked] == [10, 20, 40, 80, 160, 113, 95, 104, 99, 101, 100]


@given(sizes(most=300), st.sets(st.integers(1, 300)))
def test_outcomes_need_not_be_monotone(plan, holding):
    """Whatever comes, the ends are neighbours among what was tried, one holds and the other does not."""
    outcomes, _, _ = searched(plan, lambda size: size in holding)
    lower, upper = bracket(outcomes)
    assert lower == max((size for size in outcomes if size in holding), default=None)
    assert upper is None or upper not in holding
    if lower is None:
        assert not outcomes[plan.least]
    elif upper is None:
        assert outcomes[plan.most]
    else:
        assert not any(lower < size < upper for size in outcomes)
        assert plan.is_narrow(lower, upper)
    held = sorted(outcomes.items())
    assert is_monotone(outcomes) == ([met for _, met in held] == sorted((met for _, met in held), reverse=True))


@given(sizes(most=300), st.integers(0, 300), st.sets(st.integers(1, 300)))
def test_sizes_that_fail_are_not_tried_again(plan, threshold, failing):
    outcomes, failed, _ = searched(plan, lambda size: size <= threshold, failing)
    lower, upper = bracket(outcomes)
    assert not set(outcomes) & failing
    if not failed and lower is not None and upper is not None:
        assert plan.is_narrow(lower, upper)
    assert (lower or 0) <= threshold < (upper or inf)


def test_the_last_round_tries_no_more_than_the_resolution_needs():
    plan = Sizes(100, probes=8, resolution=1.1)
    assert len(plan.next({100: True, 200: False})) == 7  # 2^(1/8) < 1.1
    assert plan.next({100: True, 120: False}) == [110]
    assert plan.next({100: True, 110: False}) == []
    assert plan.next({100: True, 101: False}) == []


def test_rounds_stay_near_what_is_known():
    """A size that fails costs all its steps, so that a round goes at most 4 times as far as what is known."""
    plan = Sizes(64, probes=4)
    assert plan.next({}) == [32, 51, 81, 128]
    assert plan.next({128: True}) == [181, 256, 362, 512]
    assert plan.next({32: False}) == [8, 11, 16, 23]
    assert Sizes(2, probes=4).next({1: False}) == []
    assert Sizes(1, probes=4).next({1: True, 2: True}) == [3, 4, 6, 8]
    near = Sizes(20, probes=3, spread=1.44)
    assert near.next({}) == [17, 20, 24]
    assert near.next({24: True}) == [27, 31, 35]
    assert near.next({17: False}) == [12, 13, 15]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"guess": 0}, "guess"),
        ({"guess": 5, "least": 6}, "least 6, guess 5"),
        ({"guess": 5, "most": 4}, "most 4"),
        ({"guess": 5, "probes": 0}, "probes"),
        ({"guess": 5, "resolution": 0.9}, "resolution"),
        ({"guess": 5, "resolution": float("nan")}, "resolution"),
        ({"guess": 5, "spread": 1}, "spread"),
        ({"guess": 5, "spread": True}, "spread"),
    ],
)
def test_sizes_that_make_no_sense(changes, problem):
    with pytest.raises(InputError, match=problem):
        Sizes(**changes)


def test_a_search_ends_at_exactly_its_resolution():
    plan = Sizes(guess=100, resolution=1.25)
    assert plan.next({80: True, 100: False}) == []
    assert plan.next({80: True, 101: False}) != []
