"""Kruskal ranks against brute force, planted dependencies, known answers, and what random subsets do and do not say."""

from itertools import combinations
from math import comb, log

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.families.memoriser.ranks import kruskal
from factrank.families.memoriser.ranks.assumptions import check_assumptions, queries_of
from factrank.families.memoriser.ranks.kruskal import (
    SubsetSample,
    context_ranks,
    general_position,
    kruskal_rank,
    sample_subsets,
)

SMALL = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))


def small_integers(spec):
    n, d, seed = spec
    return np.random.default_rng(seed).integers(-2, 3, size=(n, d)).astype(np.float64)


def independent(rows):
    """Of so small whole numbers the Gram determinant is a whole number, and rounding leaves it far from 1/2."""
    return round(np.linalg.det(rows @ rows.T)) != 0


def slow_kruskal_rank(vectors):
    """Straight from the definition."""
    sizes = range(1, len(vectors) + 1)
    every = (all(independent(vectors[list(s)]) for s in combinations(range(len(vectors)), k)) for k in sizes)
    return next((k - 1 for k, good in zip(sizes, every, strict=True) if not good), len(vectors))


@given(SMALL)
def test_small_sets_are_exact(spec):
    vectors = small_integers(spec)
    found = kruskal_rank(vectors)
    assert found.exact
    assert found.upper == slow_kruskal_rank(vectors)
    assert found.rank == np.linalg.matrix_rank(vectors)
    assert found.general_position == (found.upper == min(vectors.shape))
    assert general_position(vectors).holds == found.general_position
    if found.witness is not None:
        assert len(found.witness) == found.upper + 1
        assert not independent(vectors[list(found.witness)])


@given(SMALL, st.integers(-100, 100))
def test_lengths_do_not_matter(spec, power):
    vectors = small_integers(spec)
    lengths = 10.0 ** (power * np.linspace(-1, 1, len(vectors)))
    assert kruskal_rank(vectors * lengths[:, None]).upper == kruskal_rank(vectors).upper


@given(SMALL, st.integers(1, 3))
def test_without_trying_all_the_bounds_hold(spec, most):
    vectors = small_integers(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kruskal, "EVERY_SUBSET", most)
        found = kruskal_rank(vectors, subsets=3)
        patch.setattr(kruskal, "MOST_PAIRED", 2)
        unpaired = kruskal_rank(vectors, subsets=3)
    for bounds in (found, unpaired):
        assert bounds.lower <= slow_kruskal_rank(vectors) <= bounds.upper
        assert (bounds.sample is None) == bounds.exact
        if bounds.witness is not None:
            assert not independent(vectors[list(bounds.witness)])


def test_known_answers():
    points = np.linspace(-1, 1, 9)
    for vectors, answer in (
        (np.eye(7), 7),
        (np.vander(points, 4), 4),  # every 4 rows are a Vandermonde matrix of different points
        (np.vstack([np.eye(4), np.ones(4)]), 4),
        (np.vstack([np.eye(4), [1, 1, 0, 0]]), 2),
        (np.eye(5)[[0, 1, 2, 3, 4, 2]], 1),
        (np.vstack([np.eye(3), np.zeros(3)]), 0),
        (np.ones((1, 3)), 1),
    ):
        found = kruskal_rank(vectors)
        assert (found.lower, found.upper) == (answer, answer)


def test_a_planted_dependency_of_many_is_found_and_thinned():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(120, 24))
    vectors[:60] = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 24))
    found = kruskal_rank(vectors, subsets=200)
    assert (found.rank, found.upper) == (24, 5)
    assert max(found.witness) < 60
    for one in found.witness:  # it is a circuit: less is independent
        rest = [i for i in found.witness if i != one]
        assert np.linalg.matrix_rank(vectors[rest]) == len(rest)
    assert found.at_least(5) is None
    assert found.at_least(6) is False
    assert found.at_least(2) is True


def test_a_rare_dependency_is_not_met_and_the_stated_share_is_honest():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(200, 20))
    vectors[3] = vectors[50] - vectors[100] + vectors[150]
    found = kruskal_rank(vectors, subsets=300)
    share = np.prod([(20 - i) / (200 - i) for i in range(4)])  # of the 20-subsets that hold all four
    assert (found.lower, found.upper) == (2, 20)
    assert found.sample.size == 20
    assert share < found.sample.share_below
    assert found.sample.share_below == pytest.approx(1 - (0.01 / 20) ** (1 / 300))  # for all sizes up to the rank
    met = sample_subsets(vectors, 199, subsets=5)
    assert met.dependent == 5


def test_the_confidence_is_that_of_the_formula():
    sample = sample_subsets(np.eye(30), 4, subsets=500, confidence=0.99)
    assert sample.dependent == 0
    assert sample.share_below == pytest.approx(1 - 0.01 ** (1 / 500))
    assert sample.share_below < log(100) / 500
    halves = np.repeat(np.eye(2), 50, axis=0)
    sample = sample_subsets(halves, 2, subsets=500, confidence=0.99)
    assert sample.independent_share == pytest.approx(50 / 99, abs=0.1)
    assert 49 / 99 < sample.share_below < 0.6
    assert sample_subsets(halves, 3, subsets=5).share_below == 1


def test_the_confidence_holds_for_all_sizes_at_once():
    for sizes in (1, 7, 60):
        none = SubsetSample(5, 100, 0, None, 0.95, sizes=sizes)
        assert none.share_below == pytest.approx(1 - (0.05 / sizes) ** (1 / 100))
        some = SubsetSample(5, 100, 3, (0,), 0.95, sizes=sizes)
        p = some.share_below  # so many or fewer of 100 draws are met with probability 0.05 / sizes, if it is the share
        fewer = sum(comb(100, k) * p**k * (1 - p) ** (100 - k) for k in range(4))
        assert fewer == pytest.approx(0.05 / sizes)


def test_a_dependent_set_that_one_search_met_is_known_to_all():
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((60, 12))
    vectors[2] = vectors[0] + vectors[1]
    assert kruskal_rank(vectors, subsets=60, seed=5).upper == 12  # random 12-subsets miss the three
    found = check_assumptions(vectors, None, context_size=11, subsets=60, seed=5)
    assert found.at_context_size.dependent == 1  # an 11-subset has them
    assert found.queries_verdict == "fails"
    assert (found.queries.lower, found.queries.upper, found.queries.witness) == (2, 2, (0, 1, 2))
    assert found.queries.sample is None
    found = kruskal_rank(vectors, subsets=60, seed=5, known=(7, 2, 1, 0, 30))
    assert (found.lower, found.upper, found.witness) == (2, 2, (0, 1, 2))
    assert general_position(vectors, subsets=60, seed=5).holds is None
    assert general_position(vectors, subsets=60, seed=5, known=(7, 2, 1, 0)).witness == (0, 1, 2)
    for known in ((0, 1), (0, 1, 60), (0, 0, 1), ()):
        with pytest.raises(InputError, match="the known set must"):
            kruskal_rank(vectors, known=known)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 40))
def test_verdicts_samples_and_kruskal_ranks_agree(seed, size, subsets):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-3, 4, size=(14, 6)).astype(np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kruskal, "EVERY_SUBSET", 20)
        found = check_assumptions(vectors, context_size=size, subsets=subsets, seed=seed % 1000)
    verdict = found.queries_verdict
    assert (verdict == "fails") == (found.queries.upper < size)
    assert (verdict == "proved") == (found.queries.lower >= size)
    if found.at_context_size.dependent:
        assert verdict == "fails"


def test_the_tolerance_is_relative_and_follows_the_type():
    close = np.array([[1.0, 0.0], [1.0, 1e-6]])
    assert kruskal_rank(close).upper == 2
    assert kruskal_rank(close.astype(np.float32)).upper == 1
    assert kruskal_rank(close, tolerance=1e-5).upper == 1
    assert kruskal_rank(1e-200 * close).upper == 2


def test_exact_dependence_is_found_in_every_type():
    rng = np.random.default_rng(3)
    for _ in range(20):
        vectors = rng.normal(size=(5, 8))
        vectors[4] = vectors[0] + vectors[1] - 2 * vectors[2] + 0.3 * vectors[3]
        found = kruskal_rank(vectors.astype(np.longdouble))
        assert (found.upper, found.tolerance) == (4, kruskal_rank(vectors).tolerance)
    whole = rng.integers(-9, 10, size=(5, 8))
    whole[4] = whole[0] + whole[1]
    for kind in (np.int8, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.longdouble):
        assert kruskal_rank(whole.astype(kind)).witness == (0, 1, 4)


def test_half_formats_share_the_rule_of_float32():
    vectors = np.random.default_rng(4).normal(size=(40, 8, 128))
    for kind in (np.float16, ml_dtypes.bfloat16, np.float32):
        contexts = vectors.astype(kind)
        found = check_assumptions(contexts[:, 0], contexts, subsets=20)
        assert found.queries.tolerance == pytest.approx(8 * 128 * 2.0**-23)
        assert found.proved  # whatever the format, random vectors are independent
    assert kruskal_rank(vectors[:, 0].astype(np.int8)[:3] + 1).tolerance == pytest.approx(8 * 128 * 2.0**-52)


def test_means_are_not_rounded_to_half():
    """Queries that lie in a plane stay there: rounding the sums to float16 would lift them out of it."""
    rng = np.random.default_rng(6)
    contexts = (rng.integers(-3, 4, size=(9, 5, 2)) @ rng.integers(-3, 4, size=(2, 8))).astype(np.float16)
    assert kruskal_rank(queries_of(contexts, with_mean=True)).rank == 2


@given(st.integers(0, 2**32 - 1))
def test_context_ranks(seed):
    contexts = np.random.default_rng(seed).integers(-1, 2, size=(4, 3, 4)).astype(np.float64)
    assert context_ranks(contexts).tolist() == [np.linalg.matrix_rank(context) for context in contexts]


def test_the_assumptions_on_planted_contexts():
    rng = np.random.default_rng(2)
    contexts = rng.normal(size=(12, 4, 6))
    good = check_assumptions(queries_of(contexts), contexts)
    assert good.proved
    assert not good.refuted
    assert (good.metrics()["assumptions_proved"], good.metrics()["assumptions_refuted"]) == (1, 0)
    assert good.failing_context is None
    assert (good.size_verdict, good.queries_verdict, good.contexts_verdict) == ("proved", "proved", "proved")
    assert good.metrics()["full_context_share"] == 1

    contexts[7, 3] = contexts[7, 0] + contexts[7, 1]
    one_bad = check_assumptions(queries_of(contexts), contexts)
    assert (one_bad.contexts_verdict, one_bad.least_context_rank, one_bad.full_contexts) == ("fails", 3, 11)
    assert one_bad.failing_context == 7
    assert (one_bad.refuted, one_bad.proved) == (True, False)
    assert one_bad.tokens.holds is False  # by chance a dependency of three among 48 tokens is hardly met
    assert one_bad.tokens.witness == (28, 29, 31)
    assert one_bad.queries_verdict == "proved"

    contexts[:, 0] = contexts[0, 0]  # one [CLS] for all
    same = check_assumptions(queries_of(contexts), contexts)
    assert (same.queries_verdict, same.queries.upper, same.at_context_size.independent_share) == ("fails", 1, 0)
    assert same.tokens.holds is False
    told_apart = check_assumptions(queries_of(contexts, with_mean=True), contexts)
    assert told_apart.queries_verdict == "proved"

    wide = check_assumptions(rng.normal(size=(5, 3)), context_size=3)
    assert (wide.size_verdict, wide.contexts_verdict, wide.refuted) == ("fails", "not tested", True)
    few = check_assumptions(rng.normal(size=(2, 8)), context_size=3)
    assert few.queries_verdict == "fails"
    assert few.at_context_size is None


def test_what_is_not_refuted_is_not_proved():
    rng = np.random.default_rng(7)
    contexts = rng.normal(size=(60, 8, 12))
    found = check_assumptions(queries_of(contexts), contexts, subsets=20)
    assert found.queries_verdict == "not refuted"
    assert (found.refuted, found.proved) == (False, False)
    assert (found.metrics()["assumptions_refuted"], found.metrics()["assumptions_proved"]) == (0, 0)
    untested = check_assumptions(contexts[0])
    assert (untested.refuted, untested.proved) == (False, False)


def test_more_tokens_than_dimensions_fail_but_may_be_in_general_position():
    contexts = np.random.default_rng(8).normal(size=(2, 4, 3))
    found = check_assumptions(queries_of(contexts), contexts)
    assert (found.contexts_verdict, found.failing_context, found.tokens.holds) == ("fails", 0, True)
    contexts[1, :, 2] = 0
    found = check_assumptions(queries_of(contexts), contexts)
    assert (found.failing_context, found.tokens.holds) == (0, False)
    assert found.tokens.witness == (4, 5, 6)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: kruskal_rank(np.full((2, 2), np.nan)), "must be finite; got nan in vector 0"),
        (lambda: kruskal_rank(np.ones((0, 2))), "got shape"),
        (lambda: kruskal_rank(np.eye(2), tolerance=0.0), "tolerance must be between 0 and 1"),
        (lambda: kruskal_rank(np.eye(2), tolerance=1e-16), "at least d eps = 4.4e-16"),
        (lambda: kruskal_rank(np.eye(2), subsets=0), "subsets must be at least 1"),
        (lambda: kruskal_rank(np.eye(2), seed=-1), "seed must be at least 0; got -1"),
        (lambda: sample_subsets(np.eye(2), 1, seed=-1), "seed must be at least 0; got -1"),
        (lambda: general_position(np.eye(2), seed=-1), "seed must be at least 0; got -1"),
        (lambda: kruskal_rank(np.eye(2, dtype=np.longdouble) * np.longdouble("1e400")), "must be finite; got inf"),
        (lambda: kruskal_rank(np.eye(2), confidence=1.0), "confidence must be between"),
        (lambda: sample_subsets(np.eye(2), 3), "from 1 to the number of vectors, 2; got 3"),
        (lambda: queries_of(np.ones((2, 3, 4)), 3), "within the 3 tokens"),
        (lambda: check_assumptions(np.eye(3), np.ones((2, 2, 3)), context_size=3), "context_size is 3"),
        (lambda: check_assumptions(np.eye(3), context_size=0), "at least 1"),
        (lambda: check_assumptions(np.eye(3), np.ones((2, 2, 4))), "the same dimension; got 3 and 4"),
        (lambda: check_assumptions(np.eye(3), np.ones((0, 2, 3))), r"contexts, tokens, dimension.; got"),
    ],
)
def test_mistakes_are_named(attempt, message):
    with pytest.raises(InputError, match=message):
        attempt()
