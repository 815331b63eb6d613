"""Shared tokens: one row for a name that is key and query, and every fact recalled with the margin of the words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_tables import UNICODE, slow_margins, strict_winners
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError
from factrank.families.attention.forms.shared_tokens import shared_token_model, shared_token_refusal, shared_token_shape
from factrank.readouts.recall_report import recall
from strategies import as_database, tensors

PRECISIONS = ("float64", "float32", "bfloat16")


def renamed(database, n_shared):
    """The same facts; the last keys are the first queries."""
    n_shared = min(n_shared, database.n_keys, database.n_queries)
    keys = Vocabulary.numbered("t", database.n_keys)
    queries = [*keys[database.n_keys - n_shared :], *(f"q{i}" for i in range(n_shared, database.n_queries))]
    return Database(database.triples, keys, Vocabulary(queries), database.values), n_shared


@pytest.mark.parametrize("precision", PRECISIONS)
def test_recall_is_complete(precision):
    """Among the facts are such as (t, t, v), where key and query are one token."""
    database, n_shared = renamed(uniform(20, 6, 30, 100, seed=0), 4)
    model = shared_token_model(database, precision)
    found = recall(model, database)
    assert (found.recall, found.margin, found.hallucinations) == (1.0, 2.0, 0)
    assert len(model.embedding) == 20 + 6 - n_shared
    stored = sum(
        np.size(part) for part in (model.embedding, model.unembedding, *vars(model.blocks[0]).values()) if np.ndim(part)
    )
    assert stored == shared_token_shape(database).parameters(*database.shape, n_shared)


@settings(max_examples=30)
@given(tensors(functional=True, empty=False), st.integers(0, 6), st.sampled_from(PRECISIONS))
def test_margins_whatever_is_shared(tensor, n_shared, precision):
    database, _ = renamed(as_database(tensor), n_shared)
    model = shared_token_model(database, precision)
    assert (slow_margins(model, database) >= 2).all()
    if len(np.unique(database.triples[:, 2])) > 1:
        assert strict_winners(model, database) == 0


def test_unicode():
    assert slow_margins(shared_token_model(UNICODE, "float32"), UNICODE).min() == 2


def test_sizes():
    """d_model = (Q + 1) b + Q; sign vectors for 4 shared tokens and one for all other queries: 3 signs."""
    database, _ = renamed(uniform(20, 6, 30, seed=0), 4)
    shape = shared_token_shape(database)
    assert (shape.d_model, shape.n_heads, shape.d_qk, shape.d_vo) == (7 * 5 + 6, 6, 3, 5)


def test_refusals():
    many, _ = renamed(uniform(5, 60, 9, seed=0), 2)
    assert "60 queries are not exact in bfloat16" in shared_token_refusal(many, "bfloat16")
    assert shared_token_refusal(many, "float32") is None
    with pytest.raises(InputError, match=r"shared tokens: .* not exact"):
        shared_token_model(many, "bfloat16")
    several = Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True)
    assert "several values" in shared_token_refusal(several, "float32")
