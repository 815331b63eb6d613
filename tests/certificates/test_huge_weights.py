"""Weights that overflow: certificates are refused with a reason, and nothing warns."""

from dataclasses import replace

import numpy as np
import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.databases.sample_tables import sample
from factrank.experiments.models.verification import verify
from factrank.families.attention.searching import construct
from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import init_factual_recall
from factrank.families.memoriser.examples.examples import RandomExamples
from factrank.families.memoriser.memoriser import init_memoriser
from factrank.families.memoriser.memoriser_shape import MemoriserShape


def filled(model, part, number):
    """The model with one part full of a number, which its precision may hold as infinity."""
    old = np.asarray(getattr(model, part))
    with np.errstate(over="ignore"):
        return replace(model, **{part: np.full(old.shape, number).astype(old.dtype)})


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
@pytest.mark.parametrize("number", [1e200, 1.7e308, np.nan])
def test_attention_layers(precision, number):
    facts = sample("astrid")
    layer = construct(facts, precision, only="binary", budget=0.0).model
    for part in ("embedding", "w_q", "unembedding"):
        found = verify(filled(layer, part, number), facts)
        assert not found.certified
        reason = "so large that intermediate results may overflow|are infinite or not a number|are not recalled"
        assert any(words in found.reason for words in reason.split("|"))


@pytest.mark.parametrize("part", ["embedding", "w_q", "unembedding"])
def test_models_of_sequences(part):
    facts = uniform(4, 2, 4, seed=0)
    shape = FactualRecallShape(d_model=8, n_heads=1, d_qk=2, d_vo=2, n_noise=3)
    model = init_factual_recall(shape, *facts.shape, key=0)
    assert not verify(filled(model, part, np.inf), facts, length=6, contexts=1).certified


@pytest.mark.parametrize("part", ["embedding", "w_q", "decoder_bias"])
def test_memorisers(part):
    examples = RandomExamples(n_examples=6, context_size=3, d_input=4, n_classes=2)
    model = init_memoriser(MemoriserShape(n_heads=2, d_model=3, d_qk=2, d_vo=2), 4, examples.n_outputs, key=0)
    assert not verify(filled(model, part, np.inf), examples).certified
