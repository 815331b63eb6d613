"""Set-valued tables: each value of a fiber above all others, by codes that survive the precision."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_tables import slow_margins, with_sets
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered, uniform
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms import set_valued
from factrank.families.attention.forms.building import block_layers
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.forms.registry import CONSTRUCTIONS
from factrank.families.attention.forms.set_valued import SetValued
from factrank.nn.part_arrays import to_arrays
from factrank.readouts.recall_report import recall
from factrank.tensors.codes import set_margin
from strategies import as_database, tensors

PRECISIONS = ("float64", "float32", "bfloat16")
form = SetValued()


def built(database, precision="float32"):
    return form.build(database, precision, FormSearch()).layer


@pytest.mark.parametrize(("precision", "width"), [("float64", 4), ("float32", 4), ("bfloat16", 16)])
def test_every_fact_is_recalled(precision, width):
    """Two values of 16: the circle needs 2m = 4 numbers, but its margin is too small for bfloat16."""
    database = with_sets(60, 3, 16, 2, seed=0)
    layer = built(database, precision)
    assert (layer.shape.d_vo, layer.shape.d_model) == (width, 3 * width + 1)
    assert layer.shape == form.shape(database, precision)
    found = recall(layer, database)
    assert found.recall == 1.0
    least = (4 * np.sin(np.pi / 16) ** 2) ** 2  # neighbours on both sides
    assert found.margin == pytest.approx(1.0 if width == 16 else least, rel=1e-3)


@settings(max_examples=40)
@given(tensors(functional=False, empty=False, most=7), st.sampled_from(PRECISIONS))
def test_all_sets_stand_above_all_others(tensor, precision):
    database = as_database(tensor)
    assert (slow_margins(built(database, precision), database) > 1e-3).all()


def test_margins_are_those_of_the_code():
    """The least product of 4 sin^2(half the angle) over values outside the set, where one range has all values."""
    facts = [(0, 0, 0), (0, 0, 3), (1, 0, 1), (2, 0, 5), (2, 0, 6)] + [(3 + v, 0, v) for v in range(9)]
    keys, queries, values = (uniform(12, 1, 9, seed=0)).vocabularies
    database = Database(np.array(facts), keys, queries, values)

    def margin(members):
        angles = [2 * np.pi * v / 9 for v in range(9)]
        return min(
            np.prod([2 - 2 * np.cos(angles[v] - angles[s]) for s in members]) for v in range(9) if v not in members
        )

    found = slow_margins(built(database, "float64"), database)
    np.testing.assert_allclose(found[:3], [margin({0, 3}), margin({1}), margin({5, 6})], rtol=1e-9)


def test_disjoint_ranges_share_heads_and_sets_of_everything_work():
    facts = [(k, 0, v) for k in range(5) for v in range(3)] + [
        (k, 1, 3 + (k + j) % 8) for k in range(8) for j in (0, 2)
    ]
    database = Database(np.array(facts), *uniform(8, 2, 12, seed=0).vocabularies)
    for precision in PRECISIONS:
        layer = built(database, precision)
        assert (slow_margins(layer, database) > 0.01).all()
        assert len({row.tobytes() for row in np.asarray(layer.w_q, dtype=np.float64)}) == 1


def test_larger_tables_fall_back_to_integers():
    database = with_sets(30, 2, 150, 3, seed=1)
    widths = [form.shape(database, precision).d_model for precision in PRECISIONS]
    assert all(narrow <= wide for narrow, wide in pairwise(widths))
    layer = built(database, "bfloat16")
    parts = to_arrays(layer).values()
    assert all((part == np.rint(part.astype(np.float32))).all() for part in parts)
    assert slow_margins(layer, database).min() == 1.0


def test_functional_tables_and_refusals():
    database = uniform(9, 3, 40, seed=0)
    assert (slow_margins(built(database), database) > 0).all()
    assert slow_margins(built(database, "bfloat16"), database).min() == 2.0
    empty = database.select(keys=[], compact=False)
    assert "no facts" in CONSTRUCTIONS["set-valued"].refusal(empty, "float32")
    with pytest.raises(InputError, match="set-valued: the database has no facts"):
        form.build(empty, "float32", FormSearch())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_fibers_with_hundreds_of_values_take_indicators(precision):
    """600 values of 1,300 for one key: 4^600 is no float64, and the circle is not even tried."""
    facts = [(0, 0, v) for v in range(600)] + [(1 + v, 0, v) for v in range(600, 1300)] + [(0, 1, 1300), (1, 1, 1301)]
    database = numbered(np.array(facts), (1301, 2, 1302))
    shape = form.shape(database, precision)
    assert (shape.d_model, shape.n_heads) == (1300 + 1 + 2, 1)
    assert form.refusal(database, precision) is None


def test_a_range_of_large_sets_takes_the_circle_from_no_other():
    """Its own circle would need a bias of 4^30, but it takes indicators, so that pairs of 20 values stay on theirs."""
    rng = np.random.default_rng(0)
    large = [(0, 0, v) for v in range(30)] + [(1 + v, 0, v) for v in range(100)]
    pairs = [(k, 1, 100 + v) for k in range(60) for v in rng.choice(20, 2, replace=False)]
    database = numbered(np.array(large + pairs), (101, 2, 120))
    layer = built(database)
    assert layer.shape.d_model == 100 + 4 + 2
    assert layer.shape == form.shape(database, "float32")
    assert verify(layer, database).certified


def test_the_size_of_a_layer_is_known_without_its_codes():
    facts = [(0, 0, v) for v in range(60)] + [(1 + v, 0, v) for v in range(10_000)]
    database = numbered(np.array(facts), (10_001, 1, 10_000))
    tracemalloc.start()
    assert form.shape(database, "float32").d_vo == 10_000
    assert tracemalloc.get_traced_memory()[1] < 50_000_000  # the code itself takes 800 MB
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("precision", "most", "n_values"), [("float32", 2, 116), ("float32", 3, 48), ("bfloat16", 1, 9)]
)
def test_the_circle_is_left_before_rounding_takes_its_margin(precision, most, n_values):
    """Sets of neighbours, in one range: the last size that the circle holds is certified, the next is wider."""

    def neighbours(size):
        return numbered(np.array([(k, 0, (k + j) % size) for k in range(size) for j in range(most)]), (size, 1, size))

    layer = built(neighbours(n_values), precision)
    assert layer.shape.d_vo == 2 * most
    assert verify(layer, neighbours(n_values)).certified
    assert form.shape(neighbours(n_values + 1), precision).d_vo > 2 * most


@given(members=st.sets(st.integers(0, 30), min_size=1, max_size=6), n_values=st.integers(31, 60))
@settings(max_examples=60)
def test_the_bound_on_margins_that_needs_no_sets(members, n_values):
    assert set_margin([members], n_values) <= set_valued._margin_at_most(len(members), n_values)


def test_ranges_that_no_circle_can_hold_are_sized_without_listing_their_sets(monkeypatch):
    """Listing the sets of millions of fibers takes minutes and gigabytes; here their sizes are enough."""
    database = with_sets(400, 2, 2_000, 3, seed=0)
    expected = form.shape(database, "float32")
    monkeypatch.setattr(set_valued._Fibers, "numbered", property(lambda _: pytest.fail("the sets were listed")))
    assert form.shape(database, "float32") == expected
    layer = built(database)
    assert layer.shape == expected
    assert recall(layer, database).recall == 1.0


def test_words_are_written_in_pieces(monkeypatch):
    database = with_sets(60, 3, 16, 2, seed=0)
    whole = to_arrays(built(database))
    monkeypatch.setattr(block_layers, "WRITTEN_CELLS", 10)
    for name, part in to_arrays(built(database)).items():
        np.testing.assert_array_equal(part, whole[name])
