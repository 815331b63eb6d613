"""Transformers in closed form: their certificates, and attempts to break them."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.factual_recall import factual_recall_form as recall_task
from factrank.families.factual_recall.certified_sizes import smallest_factual_recall
from factrank.families.factual_recall.factual_recall_form import construct_factual_recall
from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallTransformer, init_factual_recall
from factrank.families.factual_recall.proof.factual_recall_certificate import noise_contexts
from factrank.families.factual_recall.separation import separate
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout
from factrank.families.factual_recall.value_circuits import cut_to_rank, vote_circuit, votes_of
from factrank.nn.weights import on_device

FACTS = answer_sets(6, 4, 4, seed=0)
ATTENTION = FactualRecallShape(d_model=24, n_heads=2, d_qk=1, d_vo=4, length=8)
WITH_MLP = FactualRecallShape(d_model=24, n_heads=2, d_qk=2, d_vo=6, mlp_width=16, length=8)


@pytest.fixture(scope="module")
def attention():
    return construct_factual_recall(FACTS, ATTENTION, seed=1)


@pytest.fixture(scope="module")
def with_mlp():
    return construct_factual_recall(FACTS, WITH_MLP, seed=1)


@pytest.fixture(scope="module")
def leaky():
    """Noise takes a tenth of what heads read, and the certificate holds nevertheless."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall_task, "QUIET", 1.5)
        return construct_factual_recall(FACTS, ATTENTION, seed=1)


@eqx.filter_jit
def _logits(model, counts):
    return model.logits(counts)


def margins_in(model, noise: np.ndarray) -> np.ndarray:
    """The margin of every fact in each context of noise tokens, by the model itself: [contexts, facts]."""
    layout, (keys, queries, values) = model.layout, FACTS.triples.T
    every, found = np.arange(len(FACTS)), []
    for context in noise:
        counts = np.zeros((len(FACTS), layout.n_tokens), np.float32)
        np.add.at(counts, (slice(None), layout.first_noise + context), 1.0)
        counts[every, keys] = counts[every, layout.first_query + queries] = counts[:, layout.end] = 1.0
        with jax.default_matmul_precision("highest"):
            logits = np.array(_logits(on_device(model), counts), np.float64)
        own = logits[every, values]
        logits[every, values] = -np.inf
        found.append(own - logits.max(axis=1))
    return np.array(found)


def attacked(model, n_noise: int, rounds: int = 2) -> np.ndarray:
    """The least margin of each fact that a search for bad contexts finds: one token throughout, then exchanges."""
    pure = np.tile(np.arange(model.layout.n_noise)[:, None], (1, n_noise))
    drawn = np.random.default_rng(0).integers(model.layout.n_noise, size=(20, n_noise))
    seen = margins_in(model, np.vstack([pure, drawn]))
    least = seen.min(axis=0)
    context = np.vstack([pure, drawn])[seen.min(axis=1).argmin()]
    for at in range(min(rounds, n_noise)):
        tries = np.tile(context, (model.layout.n_noise, 1))
        tries[:, at] = np.arange(model.layout.n_noise)
        seen = margins_in(model, tries)
        least, context = np.minimum(least, seen.min(axis=0)), tries[seen.min(axis=1).argmin()]
    return least


@pytest.mark.parametrize("name", ["attention", "with_mlp", "leaky"])
def test_no_context_breaks_a_certificate(name, request):
    found = request.getfixturevalue(name)
    certificate = found.certificate
    assert certificate.certified
    assert certificate.reason == ""
    assert certificate.recall == 1.0
    least = attacked(found.model, ATTENTION.length - 3)
    assert least.min() >= certificate.proved_margin > 0
    assert certificate.margin >= certificate.proved_margin
    if name == "leaky":
        assert certificate["leak"] > 0.05
    else:
        assert certificate["leak"] < 1e-6
        assert least.min() == pytest.approx(certificate.margin, rel=1e-3)


def test_counts(attention, with_mlp):
    assert attention.certificate["parameters"] == ATTENTION.counted_parameters
    assert with_mlp.certificate["parameters"] == WITH_MLP.counted_parameters
    found = attention.certificate
    assert found["bits"] == FACTS.bits_by_query
    assert found["bits_per_parameter"] == pytest.approx(FACTS.bits_by_query / ATTENTION.counted_parameters)
    assert found["contexts"] == 8
    assert found.to_dict()["certified"] is True
    again = verify(attention.model, FACTS, length=ATTENTION.length, seed=1)
    assert again == found


def changed(model, **parts):
    names = list(parts)
    return eqx.tree_at(lambda tree: [getattr(tree, name) for name in names], model, [parts[name] for name in names])


def test_too_soft_attention_is_refused_and_breaks(attention):
    soft = changed(attention.model, w_k=attention.model.w_k * np.float32(0.05))
    found = verify(soft, FACTS, length=ATTENTION.length)
    assert not found.certified
    assert "not proved positive in every noise context (noise" in found.reason
    assert found["leak"] > 0.3
    assert attacked(soft, ATTENTION.length - 3).min() < 0  # and indeed some context breaks it


def test_a_noise_token_that_is_read_is_found(attention):
    """One noise token gets the embedding of a key: random contexts hardly show it, the proof and pure contexts do."""
    embedding = attention.model.embedding.copy()
    embedding[attention.model.layout.first_noise + 3] = embedding[0]
    found = verify(changed(attention.model, embedding=embedding), FACTS, length=ATTENTION.length, contexts=1)
    assert not found.certified
    assert found.proved_margin <= 0
    assert found.recalled < len(FACTS)  # the context that repeats it


def test_perturbed_weights(attention):
    """A small change of the values is survived, a large one ends the proof; what is proved holds either way."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(attention.model.w_o.shape).astype(np.float32)
    for size, holds in ((1e-6, True), (1e2, False)):
        model = changed(attention.model, w_o=attention.model.w_o + np.float32(size) * noise)
        found = verify(model, FACTS, length=ATTENTION.length)
        assert found.certified is holds
        assert attacked(model, ATTENTION.length - 3).min() >= found.proved_margin


def test_another_database_is_not_certified(attention):
    key, query, value = FACTS.triples[5]
    triples = FACTS.triples.copy()
    triples[5, 2] = query * 4 + (value + 1) % 4
    other = Database(triples, FACTS.keys, FACTS.queries, FACTS.values)
    found = verify(attention.model, other, length=ATTENTION.length)
    assert (found.certified, found.recalled) == (False, len(FACTS) - 1)
    assert found.reason.startswith("1 of 24 facts are not recalled; the margins of 1 facts")
    assert found.worst[:2] == (FACTS.keys[int(key)], FACTS.queries[int(query)])


def test_longer_sequences_need_a_new_proof(leaky):
    assert verify(leaky.model, FACTS, length=ATTENTION.length - 3).certified  # fewer noise tokens
    longer = verify(leaky.model, FACTS, length=1000)
    assert not longer.certified
    assert longer["leak"] > leaky.certificate["leak"]


def test_models_without_a_proof(attention):
    model = attention.model
    broken = changed(model, w_v=np.full_like(model.w_v, np.nan))
    assert "not a number" in verify(broken, FACTS).reason
    linear = replace(model, linear=True)
    assert "linear attention" in verify(linear, FACTS).reason
    random = init_factual_recall(ATTENTION, *FACTS.shape, key=0)
    found = verify(random, FACTS, length=ATTENTION.length)
    assert not found.certified
    assert found["leak"] > 0.1
    with pytest.raises(InputError, match="keys, queries and values"):
        verify(model, answer_sets(2, 2, 2, seed=0))
    with pytest.raises(InputError, match="length must be an integer of at least 3"):
        verify(model, FACTS, length=2)


@pytest.mark.parametrize(
    ("facts", "shape", "reading"),
    [
        (answer_sets(1, 1, 1, seed=0), FactualRecallShape(4, 1, 1, 1, length=3), "together"),  # one output, no noise
        (
            Database.from_facts([("a", "p", "x"), ("b", "p", "y"), ("b", "q", "x")]),
            FactualRecallShape(12, 1, 1, 3),
            None,
        ),
    ],
)
def test_edges(facts, shape, reading):
    """One of everything; a table with gaps whose queries share values."""
    found = construct_factual_recall(facts, shape, reading=reading)
    assert found.certified
    assert found["reading"] == "together"


def test_precisions():
    facts, shape = answer_sets(3, 2, 2, seed=0), FactualRecallShape(16, 2, 1, 4, length=6)
    wide = construct_factual_recall(facts, shape, precision="float64", reading="apart").certificate
    assert wide.certified
    assert wide.proved_margin == pytest.approx(wide.margin, rel=1e-6)
    assert not construct_factual_recall(facts, shape, precision="bfloat16", reading="apart").certified


def test_closed_forms_need_more(attention):
    """At the size of the logistic form the outer product fails; at a large d_model votes are enough."""
    assert not construct_factual_recall(FACTS, ATTENTION, seed=1, form="outer product").certified
    wide = FactualRecallShape(d_model=200, n_heads=2, d_qk=1, d_vo=6, length=8)
    for form in ("two-sided", "least squares"):
        found = construct_factual_recall(FACTS, wide, seed=1, form=form, reading="apart")
        assert (found.certified, found.form) == (True, form)


def test_votes():
    rng = np.random.default_rng(0)
    tokens, outputs = rng.standard_normal((6, 20)), rng.standard_normal((16, 20))
    of_keys, of_queries = votes_of(FACTS)
    assert of_keys.sum(axis=1).tolist() == [4] * 6
    np.testing.assert_array_equal(of_queries.sum(axis=1), FACTS.values_per_query)
    exact = vote_circuit(tokens, of_keys, outputs, "two-sided")  # independent tokens and outputs: exactly the votes
    np.testing.assert_allclose(tokens @ exact @ outputs.T, of_keys, atol=1e-9)
    slow = sum(np.outer(tokens[k], outputs[v]) for k, _, v in FACTS.triples)
    np.testing.assert_allclose(vote_circuit(tokens, of_keys, outputs, "outer product"), slow, atol=1e-9)
    [circuit] = cut_to_rank([exact], [25])  # rank 6 of 20, padded
    np.testing.assert_allclose(circuit.inward @ circuit.outward, exact, atol=1e-9)
    assert circuit.inward.shape == (20, 25)


def test_separation_by_cover():
    """All dichotomies of d + 1 points in general position are separable, none of far more than 2 (d + 1)."""
    rng = np.random.default_rng(0)
    for n_tokens, separable in ((9, True), (60, False)):
        tokens = rng.standard_normal((n_tokens, 8))
        found = separate(tokens[: n_tokens // 2], tokens[n_tokens // 2 :])
        assert (found is not None) is separable
        if found is not None:
            scores = tokens @ found.direction
            assert scores[:4].min() - scores[4:].max() == pytest.approx(found.gap)
            assert np.ptp(scores[:4]) == pytest.approx(found.spread, abs=1e-6)


def test_refusals():
    with pytest.raises(InputError, match="no hyperplane of the 4-dimensional"):
        construct_factual_recall(FACTS, FactualRecallShape(4, 2, 1, 2))
    with pytest.raises(InputError, match="two heads"):
        construct_factual_recall(FACTS, FactualRecallShape(24, 1, 1, 2), reading="apart")
    with pytest.raises(InputError, match="require softmax attention"):
        construct_factual_recall(FACTS, FactualRecallShape(24, 1, 1, 2, linear=True))
    several = Database.from_facts([("a", "p", "x"), ("a", "p", "y")], multi=True)
    with pytest.raises(InputError, match="functional"):
        construct_factual_recall(several, FactualRecallShape(24, 1, 1, 2))


def test_smallest_size():
    facts = answer_sets(3, 2, 2, seed=1)

    def family(size: int) -> FactualRecallShape:
        return FactualRecallShape(16, 2, 1, size, length=6)

    found = smallest_factual_recall(facts, family, guess=4, most=16, reading="apart")
    assert found is not None
    assert found.found.certified
    assert found.stored == 16 * 2 * found.size
    assert found.stored_per_fact == found.stored / 6
    if found.failed is not None:
        assert found.failed == found.size - 1
        assert not construct_factual_recall(facts, family(found.failed), reading="apart").certified
    assert smallest_factual_recall(facts, lambda size: FactualRecallShape(2, 2, 1, size), most=2) is None


def test_contexts_of_the_forward_pass(attention):
    tried = noise_contexts(attention.model, 5, 3, 0)
    assert (tried.sum(axis=1) == 5).all()
    assert tried.max(axis=1)[3:].tolist() == [5, 5, 5]
    layout = attention.model.layout
    assert tried[:, : layout.first_noise].sum() == tried[:, layout.end :].sum() == 0


@pytest.mark.parametrize("through_mlp", [False, True])
def test_what_overflows_and_is_not_read(through_mlp):
    """One noise token writes more than float32 holds where the unembedding is 0: infinity times 0 is not a number."""
    facts = answer_sets(2, 1, 2, structure="structured", seed=0)
    layout = FactualRecallLayout(2, 1, 2, n_noise=400)
    bad, first_value = layout.end - 1, int(facts.triples[0, 2])

    def model(unread: float) -> FactualRecallTransformer:
        embedding, width = np.zeros((layout.n_tokens, 6), np.float32), 1 if through_mlp else 0
        embedding[[0, 1, 2, layout.end], [0, 1, 2, 2]] = 1
        embedding[layout.first_noise : layout.end, 3] = embedding[bad, 4] = 1
        w_q, w_k, w_v, w_o = (np.zeros(size, np.float32) for size in ((1, 6, 1), (1, 6, 1), (1, 6, 3), (1, 3, 6)))
        w_q[0, 2, 0], w_k[0, 3, 0] = 1, -2
        w_v[0, 0, first_value] = w_v[0, 1, 1 - first_value] = w_v[0, 4, 2] = 1
        w_o[0, 0, 0] = w_o[0, 1, 1] = 1e20
        w_o[0, 2, 4 if through_mlp else 5] = 1e20 if through_mlp else unread
        w_in, w_out, unembedding = np.zeros((6, width)), np.zeros((width, 6)), np.zeros((6, 2))
        if through_mlp:
            w_in[4, 0], w_out[0, 5] = 1.0, unread / 1e20
        unembedding[0, 0] = unembedding[1, 1] = 1
        rest = (part.astype(np.float32) for part in (w_in, np.zeros(width), w_out, unembedding))
        return FactualRecallTransformer(embedding, w_q, w_k, w_v, w_o, *rest, layout)

    assert verify(model(1e20), facts).certified
    found = verify(model(3e38), facts)
    assert not found.certified
    assert not found.proved_margin > 0


def test_what_cannot_be_verified_is_refused(attention):
    model = attention.model
    with pytest.raises(InputError, match="contexts must be an integer of at least 1"):
        verify(model, FACTS, contexts=0)
    with pytest.raises(InputError, match="seed must be an integer of at least 0"):
        verify(model, FACTS, seed=-1)
    with pytest.raises(InputError, match="the model's layout has"):
        verify(changed(model, embedding=np.asarray(model.embedding)[:-1]), FACTS)
