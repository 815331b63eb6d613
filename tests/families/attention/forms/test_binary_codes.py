"""Binary codes: recall, exact margins, counts of parameters, 8-bit weights; routing and layout behind them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_tables import SMALLEST, UNICODE, in_eight_bits, rounded, slow_margins, strict_winners
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.families.attention.forms.binary_codes import BinaryCodes, bits_for, code_words
from factrank.families.attention.forms.building.block_layers import best_width
from factrank.families.attention.forms.building.query_routing import (
    SATURATION,
    STRENGTHS,
    block_routing,
)
from factrank.families.attention.forms.construction import Construction, FormSearch
from factrank.families.attention.forms.registry import CONSTRUCTIONS
from factrank.nn.part_arrays import to_arrays
from factrank.nn.precision import dtype_of
from factrank.readouts.recall_report import recall
from strategies import as_database, tensors

PRECISIONS = ("float64", "float32", "bfloat16")
binary = BinaryCodes()


def built(database, precision="float32"):
    return binary.build(database, precision, FormSearch()).layer


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_fact_is_recalled_with_margin_two(precision):
    database = uniform(60, 9, 40, 300, seed=1)
    layer = built(database, precision)
    found = recall(layer, database)
    assert (found.recall, found.margin, found.hallucinations) == (1.0, 2.0, 0)
    assert {part.dtype for part in to_arrays(layer).values()} == {dtype_of(precision)}


@settings(max_examples=25)
@given(tensors(functional=True, empty=False), st.sampled_from(PRECISIONS))
def test_margins_are_twice_the_distances_of_words(tensor, precision):
    database = as_database(tensor)
    layer = built(database, precision)
    used = np.unique(database.triples[:, 2])
    words = code_words(np.arange(len(used)), bits_for(len(used)))
    nearest = [min((2.0 * (w != word).sum() for w in words if (w != word).any()), default=np.inf) for word in words]
    unused = len(used) < database.n_values
    expected = np.array(nearest)[np.searchsorted(used, database.triples[:, 2])]
    expected = np.minimum(expected, 2 * words.shape[1] + 1 if unused else np.inf)
    np.testing.assert_array_equal(slow_margins(layer, database), expected)
    if len(used) > 1:
        assert strict_winners(layer, database) == 0
    assert layer.shape == binary.shape(database, precision)


@settings(max_examples=25)
@given(tensors(functional=True, empty=False), st.sampled_from(["float32", "bfloat16"]))
def test_eight_bit_integers_hold_all_weights(tensor, precision):
    layer = built(as_database(tensor), precision)
    for name, part in to_arrays(in_eight_bits(layer)).items():
        np.testing.assert_array_equal(part, getattr(layer, name).astype(np.float32))


def test_a_layer_in_eight_bits_recalls_all():
    database = uniform(40, 6, 500, seed=3)
    found = recall(in_eight_bits(built(database)), database)
    assert (found.recall, found.margin) == (1.0, 2.0)


def test_counts():
    """d_model = Q b + 1 where a one-hot code of the query makes it Q b + Q: 13.8 parameters per fact at this size."""
    database = uniform(2000, 12, 500, seed=0)
    K, Q, V = database.shape
    b = 9
    shape = binary.shape(database, "float32")
    assert (shape.d_model, shape.n_heads, shape.d_qk, shape.d_vo) == (Q * b + 1, Q, 1, b)
    assert shape.parameters(K, Q, V) == (K + Q + V) * (Q * b + 1) + Q * (Q * b + 1) * (2 + 2 * b)
    one_hot = (K + Q) * Q * (b + 1) + Q * (b + 1) * V + Q * Q * (b + 1) * (2 + 2 * b)
    assert round(one_hot / database.n_facts, 1) == 13.8
    assert round(shape.parameters(K, Q, V) / database.n_facts, 1) == 12.5


@pytest.mark.parametrize("database", SMALLEST)
def test_smallest_tables(database):
    for precision in PRECISIONS:
        margins = slow_margins(built(database, precision), database)
        assert margins.min() == (np.inf if database.n_values == 1 else 2.0)


def test_unicode_and_equal_names():
    assert slow_margins(built(UNICODE), UNICODE).min() == 2


def test_names_without_facts_stay_silent():
    database = uniform(6, 5, 9, seed=0).select(keys=["k1", "k3"], queries=["q1", "q4"], compact=False)
    layer = built(database)
    shape = layer.shape
    bits = bits_for(len(np.unique(database.triples[:, 2])))
    assert (shape.n_heads, shape.d_model) == (2, 2 * bits + 2)
    assert (slow_margins(layer, database) >= 2).all()
    assert strict_winners(layer, database) == 0


def test_changing_a_fact_touches_the_row_of_its_key_alone():
    database = uniform(30, 4, 5, seed=0)
    changed = database.triples.copy()
    changed[17, 2] = (changed[17, 2] + 1) % 5
    before, after = (to_arrays(built(db)) for db in (database, Database(changed, *database.vocabularies)))
    rows = np.flatnonzero((before.pop("embedding") != after.pop("embedding")).any(axis=1))
    assert rows.tolist() == [changed[17, 0]]
    assert all((before[name] == after[name]).all() for name in before)


def test_refusals():
    several = Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True)
    empty = uniform(2, 2, 2, seed=0).select(keys=[], compact=False)
    for name in ("binary", "shared-heads"):
        form = CONSTRUCTIONS[name]
        assert isinstance(form, Construction)
        for database, reason in ((several, "several values"), (empty, "no facts")):
            assert reason in form.refusal(database, "float32")
            with pytest.raises(InputError, match=f"{name}: .*{reason}"):
                form.build(database, "float32", FormSearch())
    with pytest.raises(InputError, match="precision must be one of"):
        dtype_of("float16")
    with pytest.raises(InputError, match="finite number of seconds"):
        FormSearch(seconds=-1.0)
    with pytest.raises(InputError, match="seed"):
        FormSearch(seed=-1)


# -------------------------------------------------------------------- routing and layout


@given(st.integers(1, 5), st.integers(1, 8), st.sampled_from(PRECISIONS), st.randoms(use_true_random=False))
def test_scores_are_exactly_saturated(n_constants, n_queries, precision, random):
    """Every class, every query: + or - the product of the strengths, also where several queries share a constant."""
    classes = np.array([random.randrange(-1, n_queries) for _ in range(n_queries)])
    constants = np.array([random.randrange(n_constants) for _ in range(n_queries)]) + n_queries
    firsts = {int(c): q for q, c in reversed(list(enumerate(constants.tolist())))}
    own = np.array([-1 if firsts[int(constants[q])] == q else q for q in range(n_queries)])
    tokens, w_q, w_k = block_routing(classes, constants, own, n_queries + n_constants, precision)
    strength = STRENGTHS[precision][0] * STRENGTHS[precision][1]
    scores = (tokens @ w_q[..., 0].T) * -(tokens @ w_k[..., 0].T)
    wanted = np.where(classes[:, None] == np.arange(len(w_q)), strength, -strength)
    np.testing.assert_array_equal(scores, wanted)
    assert not w_k[:, :n_queries].any()  # where keys keep their data they are not read
    for part in (tokens, w_q, w_k):
        np.testing.assert_array_equal(rounded(part, precision), part)
        assert np.abs(part).max(initial=0) <= 127


@pytest.mark.parametrize(("precision", "smallest"), [("float64", 2.0**-1074), ("float32", 2.0**-149)])
def test_saturation_is_beyond_subnormals(precision, smallest):
    """exp(-c) is less than half of the smallest positive number, so that it is rounded to 0."""
    assert -SATURATION[precision] < np.log(smallest) - np.log(2)
    assert np.prod(STRENGTHS[precision]) > 1.05 * SATURATION[precision]


def test_one_hot_routing_and_two_bases():
    rows = block_routing(np.arange(3), np.arange(2, 5), np.full(3, -1), 5, "float32")
    np.testing.assert_array_equal(rows.tokens, np.eye(5)[2:])
    with pytest.raises(InputError, match="query 1 needs its own coordinate"):
        block_routing(np.array([0, 1]), np.array([2, 2]), np.array([-1, -1]), 3, "float32")


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_the_best_width_is_the_best(copied):
    def cost(width):
        return sum(-(-c // width) * (1 + width) for c in copied)

    assert cost(best_width(np.array(copied))) == min(cost(w) for w in range(1, max(copied) + 1))
