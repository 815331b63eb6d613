"""One answer: verdicts with ties, contributions towards the competitor that is named, names that are nearly right."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.databases.close_spelling import MOST_COMPARED, close_names
from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError
from factrank.families.attention.attention_layer import PARTS, init_layer, layer_from_arrays
from factrank.families.attention.circuits.answers import Answer, answer
from factrank.families.attention.circuits.attribution import attribute as attribute_pair
from factrank.families.attention.layer_files import SavedLayer
from factrank.families.attention.layer_shape import LayerShape
from planted_layers import random_layer


def saved_with_logits(logits, facts):
    """A layer that answers every question with the same logits: its embeddings are 1, its heads are silent."""
    database = Database.from_facts(facts, multi=True)
    zero = jax.tree.map(jnp.zeros_like, init_layer(LayerShape(1, 1, 1, 1), *database.shape, key=0))
    parts = {part: getattr(zero, part) for part in PARTS}
    parts |= {"embedding": jnp.ones_like(zero.embedding), "unembedding": jnp.asarray([logits], jnp.float32)}
    layer = layer_from_arrays(zero.n_keys, **parts)
    return SavedLayer(layer, database)


FACTS = [("a", "q", "x"), ("a", "q", "y"), ("b", "q", "z"), ("c", "p", "u")]


@pytest.mark.parametrize(
    ("logits", "key", "verdict", "found", "competitor"),
    [
        ([1, 1, 1, 0], "a", "error", "x", "z"),  # the third of the tie is no fact
        ([1, 1, 0, 1], "a", "error", "x", "u"),
        ([1, 1, 0, 0], "a", "fact", "x", "y"),  # a tie of facts alone
        ([2, 1, 1, 1], "a", "fact", "x", "y"),
        ([1, 1, 1, 1], "b", "error", "x", "y"),
        ([0, 0, 1, 0], "b", "fact", "z", "x"),
        ([1, 1, 1, 1], "c", "hallucination", "x", "y"),
    ],
)
def test_ties_are_wrong_unless_all_are_facts(logits, key, verdict, found, competitor):
    result = answer(saved_with_logits(logits, FACTS), key, "q")
    assert (result.verdict, result.answer, result.competitor) == (verdict, found, competitor)
    assert result.margin == max(logits) - sorted(logits)[-2]
    assert result.tie == (result.margin == 0)
    assert result.direct == result.margin
    assert result.probability == pytest.approx(np.exp(max(logits)) / np.exp(logits).sum())


def test_contributions_are_towards_the_competitor():
    database = Database.from_facts([(f"k{at}", "q", f"v{at}") for at in range(5)])
    saved = SavedLayer(random_layer((6, 3, 2, 2), database.shape, seed=3), database)
    logits = np.asarray(saved.layer.tensor())
    for at in range(5):
        result = answer(saved, f"k{at}", "q", 0.3)
        order = np.argsort(-logits[at, 0]).tolist()
        first, second = order[:2]
        assert (result.answer, result.competitor) == (database.values[first], database.values[second])
        assert result.direct + sum(result.heads) == pytest.approx(result.margin, abs=1e-5)
        assert result.heads == attribute_pair(saved.layer, at, 0, first, second).heads
        assert result.confident == (result.probability >= 0.3)
        assert [value for value, _ in result.top] == [database.values[value] for value in order]


def test_mistakes_are_named():
    saved = saved_with_logits([1, 0, 0, 0], FACTS)
    assert isinstance(answer(saved, "a", "q"), Answer)
    for arguments, words in (
        (("q", "a"), "'q' is a query of this layer, not a key: the order is key, query"),
        (("Z", "q"), "'Z' is not a key of this layer; there are 3, such as 'a', 'b', 'c'"),
        (("A", "q"), "did you mean 'a'"),
        (("a", "q", 1.0), "tau must be between 0 and 1"),
    ):
        with pytest.raises(InputError, match=words):
            answer(saved, *arguments)


def test_close_names_are_found_in_large_vocabularies_with_bounded_work(monkeypatch):
    names = Vocabulary([*(f"node{at}" for at in range(MOST_COMPARED + 5000)), "Astrid"])
    compared = []

    def compare(wanted, among, **options):
        compared.append(len(among))
        return [name for name in among if sorted(name) == sorted(wanted)]

    monkeypatch.setattr(sys.modules["factrank.databases.close_spelling"], "get_close_matches", compare)
    assert close_names("ASTIRD", names) == ["Astrid"]
    assert compared == [MOST_COMPARED]
