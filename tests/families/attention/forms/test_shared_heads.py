"""Shared heads: recall and margins over ranges that are equal, disjoint or overlap; classes by colours; grouping."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_tables import UNICODE, in_eight_bits, slow_margins, strict_winners, with_ranges
from factrank.databases.generators.random_tables import disjoint, numbered, uniform
from factrank.databases.sample_tables import sample
from factrank.families.attention.forms.binary_codes import BinaryCodes, bits_for
from factrank.families.attention.forms.building.colouring import coloured, overlap_graph
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.forms.shared_heads import SharedHeads, best_plan, grouped_by_range, plan_of, ranges_of
from factrank.readouts.recall_report import recall
from strategies import as_database, tensors

shared = SharedHeads()
QUICK = FormSearch(seconds=0.003)


def built(database, precision="float32"):
    return shared.build(database, precision, QUICK).layer


@pytest.mark.parametrize(("n_ranges", "n_heads"), [(12, 1), (4, 3), (1, 12)])
def test_heads_are_the_colours_of_the_overlap_graph(n_ranges, n_heads):
    """300 keys, 12 queries: 12 disjoint ranges need 1 head, 4 distinct ones 3, a common one 12."""
    database = with_ranges(n_ranges)
    layer = built(database)
    assert layer.shape.n_heads == n_heads
    assert layer.shape.d_model == 12 * 5 + n_ranges
    found = recall(layer, database)
    assert (found.recall, found.margin) == (1.0, 2.0)


@pytest.mark.parametrize("name", ["astrid", "elements"])
def test_samples(name):
    database = sample(name)
    layer = built(database, "bfloat16")
    found = recall(layer, database)
    assert (found.recall, found.margin, found.hallucinations) == (1.0, 2.0, 0)
    assert layer.parameters <= BinaryCodes().shape(database, "bfloat16").parameters(*database.shape)


@settings(max_examples=25)
@given(tensors(functional=True, empty=False), st.sampled_from(["float64", "float32", "bfloat16"]))
def test_all_facts_are_recalled_and_nothing_is_invented(tensor, precision):
    database = as_database(tensor)
    layer = built(database, precision)
    assert (slow_margins(layer, database) >= 2).all()
    if min(len(values) for values in ranges_of(database).values()) > 1:
        assert strict_winners(layer, database) == 0
    assert layer.parameters <= shared.shape(database, precision).parameters(*database.shape)


@settings(max_examples=25)
@given(tensors(functional=True, empty=False, most=5), st.integers(0, 9))
def test_every_grouping_and_colouring_recalls(tensor, seed):
    """Also those that are not the smallest: ranges apart, with random orders of colouring."""
    from factrank.families.attention.forms.binary_codes import built_with_words

    database = as_database(tensor)
    plan = plan_of(database, grouped_by_range(database), FormSearch(0.001, seed))
    layer = built_with_words(database, plan, "float32", "shared-heads").layer
    assert (slow_margins(layer, database) >= 2).all()
    widths = sum(bits_for(len(values)) for values in ranges_of(database).values())
    silent = len(ranges_of(database)) < database.n_queries
    n_ranges = len({values.tobytes() for values in ranges_of(database).values()})
    assert layer.shape.d_model == widths + n_ranges + silent


def test_eight_bits_and_unicode():
    for database in (disjoint(40, 5, 6, seed=2), UNICODE):
        found = recall(in_eight_bits(built(database)), database)
        assert (found.recall, found.margin) == (1.0, 2.0)


def test_overlapping_ranges_are_taken_together_where_words_get_no_longer():
    """Three ranges of 7 within 8 values: one constant coordinate instead of three."""
    facts = [(k, q, (k if k != q else 7)) for k in range(8) for q in range(3)]
    database = numbered(np.array(facts), (8, 3, 8))
    plan = best_plan(database, QUICK)
    assert len(grouped_by_range(database)) == 3
    assert len(plan.groups) == 1
    assert plan.shape.d_model == 3 * 3 + 1
    layer = built(database)
    assert slow_margins(layer, database).min() == 2


def test_editing_data_tell_where_every_fact_lies():
    database = with_ranges(2, n_keys=6, n_queries=4, size=5)
    made = shared.build(database, "float32", QUICK)
    words = made.editing["groups"]
    for key, query, value in database.triples.tolist():
        group = words[made.editing["queries"]["group"][query]]
        start, bits = made.editing["queries"]["start"][query], group["bits"]
        place = group["values"].index(value)
        word = [1 if place >> bit & 1 else -1 for bit in range(bits)]
        assert made.layer.embedding[key, start : start + bits].tolist() == word
        assert made.layer.unembedding[group["output"] : group["output"] + bits, value].tolist() == word
        assert made.layer.unembedding[group["constant"], value] == made.editing["bias"]


# -------------------------------------------------------------------- colouring


@given(tensors(functional=True, empty=False))
def test_overlaps_and_ranges_against_sets(tensor):
    database = as_database(tensor)
    ranges = ranges_of(database)
    for query, values in ranges.items():
        assert values.tolist() == sorted({v for _, q, v in database.triples.tolist() if q == query})
    overlaps, clique = overlap_graph(list(ranges.values()), [1] * len(ranges), database.n_values)
    sets = [set(values.tolist()) for values in ranges.values()]
    for a, b in combinations(range(len(sets)), 2):
        assert overlaps[a, b] == overlaps[b, a] == bool(sets[a] & sets[b])
    assert clique == max(sum(v in values for values in sets) for v in range(database.n_values))


def test_queries_of_a_group_overlap():
    """Two groups of two and three queries, ranges {0, 1} and {2}."""
    overlaps, clique = overlap_graph([np.array([0, 1]), np.array([2])], [2, 3], 4)
    group = np.array([0, 0, 1, 1, 1])
    np.testing.assert_array_equal(overlaps, (group[:, None] == group) & ~np.eye(5, dtype=bool))
    assert clique == 3


@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_colours_differ_where_ranges_overlap(n, random):
    overlaps = np.zeros((n, n), dtype=bool)
    for a, b in combinations(range(n), 2):
        overlaps[a, b] = overlaps[b, a] = random.random() < 0.5
    colours = coloured(overlaps, 1, 0.001, np.random.default_rng(0))
    assert not (overlaps & (colours[:, None] == colours)).any()
    assert set(colours.tolist()) == set(range(colours.max() + 1))


def test_random_orders_repair_what_the_first_colouring_missed():
    """A larger graph with a planted colouring by 5 colours: never more colours than the first attempt."""
    rng = np.random.default_rng(0)
    planted = rng.integers(5, size=60)
    overlaps = np.triu((rng.random((60, 60)) < 0.5) & (planted[:, None] != planted), 1)
    overlaps |= overlaps.T
    first, more = (coloured(overlaps, 5, seconds, np.random.default_rng(1)) for seconds in (0.0, 0.2))
    assert more.max() <= first.max()


def test_many_queries_have_a_class_for_each_that_share_a_value():
    database = uniform(3, 400, 50, seed=0)
    shape = shared.shape(database, "float32")
    assert shape.n_heads >= np.bincount(np.concatenate(list(ranges_of(database).values()))).max()
