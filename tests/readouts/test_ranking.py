"""Ranks of held-out facts: a slow reference, an example by hand, known facts, unknown names, every form of a model."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import factrank
from factrank.databases import Database, Splits
from factrank.errors import InputError
from factrank.readouts import evaluation_blocks as blocks
from factrank.readouts import ranking
from planted_layers import Table, numbered, random_facts, random_layer

SHAPE = (3, 2, 5)
triple = st.tuples(*(st.integers(0, size - 1) for size in SHAPE))
levels = st.sampled_from([-jnp.inf, -1.0, 0.0, 0.5, 0.5, jnp.inf, jnp.nan])
"""Few levels, so that many logits are equal."""


def slow_rank(scores, value, left_out):
    """Place of a value among the others, one comparison at a time: the mean of its best and its worst place."""
    own = -np.inf if np.isnan(scores[value]) else scores[value]
    best = worst = 1
    for other, score in enumerate(scores):
        if other != value and other not in left_out:
            best += np.isnan(score) or score > own
            worst += np.isnan(score) or score >= own
    if np.isposinf(own):  # NaN at another value counts as infinity, so here it is a tie
        best -= sum(np.isnan(s) for w, s in enumerate(scores) if w != value and w not in left_out)
    return (best + worst) / 2


@given(
    table=st.lists(levels, min_size=30, max_size=30),
    own=st.sets(triple, max_size=8),
    held_out=st.sets(triple, min_size=1, max_size=8),
    more=st.sets(triple, max_size=8),
    filtered=st.booleans(),
)
@settings(max_examples=80)
def test_ranks_agree_with_a_slow_reference(table, own, held_out, more, filtered):
    logits = np.array(table, dtype=np.float32).reshape(SHAPE)
    carried = _Carrier(Table(jnp.asarray(logits)), numbered(sorted(own), SHAPE))
    found = ranking(carried, numbered(sorted(held_out), SHAPE), numbered(sorted(more), SHAPE), filtered=filtered)
    known = own | held_out | more if filtered else set()
    expected = []
    for key, query, value in sorted(held_out):
        left_out = {v for k, q, v in known if (k, q) == (key, query)} - {value}
        expected.append(slow_rank(logits[key, query], value, left_out))
    assert found.ranks.realistic.tolist() == expected
    assert found.mrr == pytest.approx(np.mean([1 / rank for rank in expected]))
    assert found.metrics.mean_rank == pytest.approx(np.mean(expected))
    assert found.hits == {k: pytest.approx(np.mean([rank <= k for rank in expected])) for k in (1, 3, 10)}
    assert (found.ranks.optimistic <= found.ranks.pessimistic).all()
    assert (found.ranks.pessimistic <= found.ranks.candidates).all()
    for query, metrics in found.by_query.items():
        mine = [rank for rank, (_, q, _) in zip(expected, sorted(held_out), strict=True) if query == f"q{q}"]
        assert (metrics.n_facts, metrics.mrr) == (len(mine), pytest.approx(np.mean([1 / rank for rank in mine])))


class _Carrier:
    """A model with the facts that it was trained on, as a trained or loaded model has them."""

    def __init__(self, model, database):
        self.model, self.database = model, database


def test_an_example_by_hand():
    """Scores 0.5 0.5 0.9 0.1 0.5: three share the places 2 to 4 (realistic 3); without the 0.9 they share 1 to 3."""
    layer = Table(jnp.array([[[0.5, 0.5, 0.9, 0.1, 0.5]]]))
    shape = (1, 1, 5)
    first, best = numbered([(0, 0, 0)], shape), numbered([(0, 0, 2)], shape)
    raw = ranking(layer, first)
    assert (raw.ranks.optimistic[0], raw.ranks.pessimistic[0], raw.ranks.realistic[0]) == (2, 4, 3)
    assert (raw.mrr, raw.hits) == (pytest.approx(1 / 3), {1: 0.0, 3: 1.0, 10: 1.0})
    filtered = ranking(layer, first, best)
    assert (filtered.ranks.optimistic[0], filtered.ranks.pessimistic[0], filtered.mrr) == (1, 3, 0.5)
    assert filtered.ranks.candidates.tolist() == [4]
    assert filtered.metrics.chance == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert ranking(layer, first, best, filtered=False).mrr == raw.mrr
    both = ranking(layer, numbered([(0, 0, 0), (0, 0, 2)], shape))  # held-out values do not compete with each other
    assert both.ranks.realistic.tolist() == [2.0, 1.0]
    assert repr(both) == "RankingReport(2 facts, filtered: MRR 0.750, Hits@1 50.0%, Hits@3 100%, Hits@10 100%)"


def test_equal_logits_are_in_the_middle_and_a_certified_layer_is_first():
    facts = random_facts((4, 3, 7), 9, most=2)
    level = ranking(Table(jnp.zeros((4, 3, 7))), facts, filtered=False)
    assert set(level.ranks.realistic.tolist()) == {4.0}
    made = factrank.construct(facts)
    assert ranking(made, facts).hits[1] == ranking(made, facts).mrr == 1.0


def test_blocks_do_not_matter(monkeypatch):
    facts, known = random_facts((7, 5, 6), 23, most=3), random_facts((7, 5, 6), 30, seed=1, most=3)
    layer = random_layer((6, 2, 3, 2), (7, 5, 6))
    whole = ranking(layer, facts, known)
    monkeypatch.setattr(blocks, "BLOCK_CELLS", 100)
    assert ranking(layer, facts, [known]).ranks.realistic.tolist() == whole.ranks.realistic.tolist()


def test_names_are_matched_and_unknown_ones_refused_or_skipped():
    train = Database.from_facts([("Oslo", "in", "Norway"), ("Lima", "in", "Peru"), ("Lima", "near", "Norway")])
    test = Database.from_facts([("Oslo", "in", "Peru"), ("Cusco", "in", "Peru"), ("Oslo", "near", "Chile")])
    made = factrank.construct(train)
    with pytest.raises(
        InputError, match=r"does not know all names.*1 of 2 keys \('Cusco'\); 1 of 2 values \('Chile'\)"
    ):
        ranking(made, test)
    found = ranking(made, test, skip_unknown=True)
    assert (list(found.facts), found.n_unknown) == ([("Oslo", "in", "Peru")], 2)
    assert found.ranks.candidates.tolist() == [1]  # Norway is known, and the layer has two values
    with pytest.raises(InputError, match="no facts to rank: the model does not know a name of any of 1 facts"):
        ranking(made, Database.from_facts([("Cusco", "in", "Peru")]), skip_unknown=True)
    splits = Splits({"train": train, "test": test})  # with shared names, every name has a row
    shared = ranking(factrank.construct(splits["train"]), splits["test"], splits.everything)
    assert (len(shared.facts), shared.n_unknown) == (3, 0)


def test_what_cannot_be_ranked():
    layer = Table(jnp.zeros(SHAPE))
    with pytest.raises(InputError, match=r"^no facts to rank$"):
        ranking(layer, numbered([], SHAPE))
    with pytest.raises(InputError, match="the layer has 3 keys, 2 queries, 5 values, but the database has"):
        ranking(layer, numbered([(0, 0, 0)], (3, 2, 4)))
    with pytest.raises(InputError, match="expected a model that reads facts"):
        ranking("layer", numbered([(0, 0, 0)], SHAPE))


def test_layers_in_bfloat16_and_plain_data():
    facts = random_facts((4, 3, 7), 9)
    found = ranking(factrank.construct(facts, precision="bfloat16"), facts)
    assert found.to_dict() == {
        "facts": 9,
        "mrr": 1.0,
        "hits_at_1": 1.0,
        "hits_at_3": 1.0,
        "hits_at_10": 1.0,
        "mean_rank": 1.0,
        "chance": found.metrics.chance,
        "filtered": True,
        "unknown": 0,
        "by_query": [{"query": query, **metrics.to_dict()} for query, metrics in found.by_query.items()],
    }
    assert "Ranks of 9 held-out facts" in found._repr_html_()
