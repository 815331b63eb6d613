"""Examples of real token vectors: what a specification builds, and what it refuses."""

from dataclasses import fields

import numpy as np
import pytest

from factrank.checkpoints.token_representations import representations
from factrank.errors import InputError
from factrank.families.memoriser.assumption_measures import assumption_measures
from factrank.families.memoriser.examples.token_examples import TokenExamples


def test_the_query_is_the_token_that_is_read_out():
    contexts = representations("passage", "gpt2", "attention", seed=3, context_size=6, examples=9)
    spec = TokenExamples("passage", "gpt2", "attention", n_examples=9, context_size=6, seed=3)
    built = spec.build()
    assert np.array_equal(built.contexts, contexts)
    assert np.array_equal(built.queries, contexts[:, -1])
    first = TokenExamples("passage", "bert", "attention", n_examples=9, context_size=6).build()
    assert np.array_equal(first.queries, first.contexts[:, 0])


def test_the_mean_of_the_context_may_be_added():
    plain, added = (
        TokenExamples("passage", "bert", "positions", query=query, n_examples=12, context_size=5).build()
        for query in ("token", "token + mean")
    )
    assert np.allclose(added.queries, plain.queries + plain.contexts.mean(axis=1))
    assert assumption_measures(plain, 50, 0)["query_rank"] == 1  # [CLS] is one vector in all examples
    assert assumption_measures(added, 50, 0)["query_rank"] > 5


def test_seeds_draw_models_and_labels():
    first, again, other = (
        TokenExamples("passage", "bert", "attention", n_examples=5, seed=seed).build() for seed in (1, 1, 2)
    )
    assert first == again
    assert not np.allclose(first.contexts, other.contexts)
    assert not np.allclose(first.labels, other.labels)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_examples": 0}, "n_examples"),
        ({"context_size": 0}, "context_size"),
        ({"seed": -1}, "seed"),
        ({"pretrained": True, "family": "gpt2"}, "BERT"),
        ({"pretrained": 1}, "pretrained must be True or False; got 1"),
        ({"pretrained": "no"}, "pretrained must be True or False; got 'no'"),
        ({"source": "nope"}, "source must be one of digits, passage, uniform; got 'nope'"),
        ({"source": []}, "source must be one of"),
        ({"source": "digits"}, "family must be one of vit for digits; got 'bert'"),
        ({"family": "none"}, "family must be one of bert, gpt2 for passage; got 'none'"),
        ({"family": "t5"}, "got 't5'"),
        ({"stage": "nope"}, "stage must be one of embedding, positions, attention, block; got 'nope'"),
        ({"query": ["token"]}, "query must be one of token, token . mean"),
    ],
)
def test_what_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        made_unchecked(given)


def made_unchecked(given):
    """What a file may say: types are not checked before the specification does."""
    spec = object.__new__(TokenExamples)
    for field in fields(TokenExamples):
        object.__setattr__(spec, field.name, ({"source": "passage"} | given).get(field.name, field.default))
    spec.__post_init__()


def test_the_pretrained_encoder_reads_the_passage():
    assert TokenExamples("passage", pretrained=True) != TokenExamples("passage")
    assert TokenExamples("uniform", "none") != TokenExamples("uniform", "vit")


def test_digits_have_seventeen_tokens_and_that_is_measured():
    pytest.importorskip("sklearn", reason="extra 'audit' is not installed: pip install 'factrank[audit]'")
    examples = TokenExamples("digits", "vit", n_examples=20).build()
    assert assumption_measures(examples, 5, 0)["context_size"] == examples.contexts.shape[1] == 17
