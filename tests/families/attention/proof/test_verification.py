"""Certificates: certified means checked and proved; whatever is changed beyond the margin is found."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.special import softmax

from attention_proofs import forward_margins, prove
from exact_layers import margin, numbered, parabola_layer, random_table, sets_layer
from factrank.certificates.certificate import Certificate, certificate_from_json
from factrank.databases.database import Database
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.attention_arrays import model_from_arrays
from factrank.families.attention.attention_layer import AttentionLayer, draw_layer, layer_from_arrays
from factrank.families.attention.layer_files import load_layer, save_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import (
    PairTransformer,
    TransformerShape,
    draw_transformer,
    init_transformer,
)
from factrank.families.attention.proof.attention_prover import AttentionProver
from factrank.nn.part_arrays import to_arrays
from slow_layers import slow_layer_tensor, slow_transformer_tensor

PRECISIONS = ["float64", "float32", "bfloat16"]
LINEAR = {"attention": "linear"}
TABLE = random_table(np.random.default_rng(7), 6, 3, 7, share=0.8)


def changed(layer, part, at, by):
    """The layer with one weight moved."""
    weights = getattr(layer, part).copy()
    weights[at] += by
    return eqx.tree_at(lambda layer: getattr(layer, part), layer, weights)


@pytest.mark.optimised
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_planted_layer_is_certified(precision):
    layer = parabola_layer(TABLE, precision)
    found = verify(layer, TABLE)
    assert found.certified
    assert (found.facts, found.recalled, found.margin, found.proved_margin) == (len(TABLE), len(TABLE), 1, 1)
    assert (found.arithmetic, found.precision, found.reason) == ("exact integers", precision, "")
    assert found.worst in TABLE
    assert found.database == TABLE.fingerprint
    assert verify(jax.tree.map(np.copy, layer), TABLE) == found


def test_recalled_is_not_certified():
    """The margin is one unit in the last place: some other order of evaluation could lose it."""
    layer = parabola_layer(TABLE)
    tiny = np.spacing(np.float32(1))
    unembedding = np.zeros((6, 7), np.float32)
    unembedding[0] = 1 / 3
    facts = numbered([(k, q, 0) for k in range(6) for q in range(3)], (6, 3, 7))
    unembedding[0, 0] += tiny
    embedding = layer.embedding.copy()
    embedding[:6] = np.abs(embedding[:6]) * 0.1 + 0.1
    close = eqx.tree_at(lambda layer: (layer.unembedding, layer.embedding), layer, (unembedding, embedding))
    found = verify(close, facts)
    assert found.recalled == found.facts == 18
    assert found.margin > 0 >= found.proved_margin
    assert not found.certified
    assert found.arithmetic == "running error bound"
    assert "18 facts are not proved positive" in found.reason


@pytest.mark.parametrize(("part", "at", "by"), [("embedding", (0, 0), 0.6), ("unembedding", (0, 3), 8.0)])
def test_a_weight_moved_beyond_the_margin_breaks_the_certificate(part, at, by):
    facts = numbered([(k, q, 3) for k in range(4) for q in range(2)], (4, 2, 7))
    layer = parabola_layer(facts)
    assert verify(layer, facts).certified
    moved = verify(changed(layer, part, at, by), facts)
    if part == "embedding":  # y = 0.6 is closer to 1 than to 0, for one fact
        assert (moved.recalled, moved.certified) == (7, False)
        assert moved.worst == ("k0", "q0", "v3")
        assert "1 of 8 facts are not recalled" in moved.reason
    else:  # U is 2 x_v, which meets y = x_f = 0: nothing changes but the weights
        assert moved.certified
    within = verify(changed(layer, "embedding", (0, 0), 0.25), facts)
    assert (within.certified, within.arithmetic) == (True, "running error bound")
    assert 0.49 < within.proved_margin <= within.margin == 0.5


def test_soft_attention_is_proved_by_the_error_bound():
    for score, certified in ((30, True), (12, True), (1, False)):
        found = verify(parabola_layer(TABLE, score=score), TABLE)
        assert (found.arithmetic, found.certified) == ("running error bound", certified)
        assert found.proved_margin < found.margin + 1e-6


def test_one_wrong_fact_is_named():
    layer = parabola_layer(TABLE)
    triples = TABLE.triples.copy()
    triples[4, 2] = (triples[4, 2] + 1) % 7
    other = Database(triples, *TABLE.vocabularies)
    found = verify(layer, other)
    assert (found.recalled, found.certified) == (len(TABLE) - 1, False)
    assert found.worst not in TABLE
    assert found.worst in other
    assert found.margin == found.proved_margin < 0


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 2), (3, 1, 2)])
def test_small_tables(shape):
    facts = numbered([(k, q, (k + q) % shape[2]) for k in range(shape[0]) for q in range(shape[1])], shape)
    found = verify(parabola_layer(facts), facts)
    assert found.certified
    assert found.margin == found.proved_margin == (np.inf if shape[2] == 1 else 1)
    assert certificate_from_json(found.to_json(), found) == found


def test_no_facts():
    nothing = numbered([], (1, 1, 2))
    empty = verify(parabola_layer(nothing), nothing)
    assert (empty.certified, empty.facts, empty.worst, empty.margin) == (True, 0, None, np.inf)
    assert empty.details == {"silent_fibers": 1, "answered": 1, "hallucinations": 0}


def test_sets_of_values_are_certified_as_a_whole():
    chosen = np.random.default_rng(1).random((5, 2, 6)) < 0.4
    facts = numbered(np.argwhere(chosen), chosen.shape)
    layer = sets_layer(facts)
    found = verify(layer, facts)
    assert (found.certified, found.margin, found.arithmetic) == (True, 1, "exact integers")
    dropped = Database(facts.triples[1:], *facts.vocabularies)
    assert not verify(layer, dropped).certified


@pytest.mark.parametrize(
    ("kind", "cells", "grid"), [("layer", 2**22, None), ("layer", 40, 40), ("shared", 40, None), ("shared", 40, 40)]
)
def test_the_forward_pass_is_that_of_the_formula(kind, cells, grid, monkeypatch):
    """The layers of blocks have fewer tokens and give the same logits, of facts and of silent fibers."""
    if grid is not None:
        monkeypatch.setattr("factrank.families.attention.proof.forward_pass.GRID_GAIN", 0)
        monkeypatch.setattr("factrank.families.attention.proof.forward_pass.GRID_CELLS", grid)
    monkeypatch.setattr("factrank.families.attention.proof.forward_pass.BLOCK_CELLS", cells)
    shape = (5, 2, 3, 2)
    if kind == "layer":
        layer = draw_layer(LayerShape(*shape), *TABLE.shape, rng=np.random.default_rng(0))
    else:
        options = TransformerShape(*shape, layer_norm=True, positions=True, share_tokens=True)
        layer = draw_transformer(options, TABLE.shape, rng=np.random.default_rng(0), query_rows=[0, 3, 6])
    confident = eqx.tree_at(lambda model: model.unembedding, layer, layer.unembedding * 3)
    tensor = (slow_layer_tensor if kind == "layer" else slow_transformer_tensor)(confident)
    found = verify(confident, TABLE)
    keys, queries, values = TABLE.triples.T
    expected = [margin(tensor[k, q], [v]) for k, q, v in zip(keys, queries, values, strict=True)]
    np.testing.assert_allclose(forward_margins(confident, TABLE), expected, atol=1e-4)
    silent = np.ones((6, 3), bool)
    silent[keys, queries] = False
    assert found["silent_fibers"] == found["answered"] == silent.sum() == 18 - len(TABLE) > 0
    assert found["hallucinations"] == (softmax(tensor[silent], axis=1).max(axis=1) >= 0.95).sum()


def test_silent_fibers_that_are_too_many_are_not_counted(monkeypatch):
    layer = parabola_layer(TABLE)
    found = verify(layer, TABLE)
    assert found["silent_fibers"] == found["answered"] == 18 - len(TABLE)
    monkeypatch.setattr("factrank.families.attention.proof.forward_pass.MOST_SILENT_CELLS", 10)
    uncounted = verify(layer, TABLE)
    assert uncounted == replace(found, details=found.details | {"answered": None, "hallucinations": None})
    assert certificate_from_json(uncounted.to_json(), found) == uncounted


def transformer_of(layer, **options):
    shape = TransformerShape(
        *(getattr(layer.shape, name) for name in ("d_model", "n_heads", "d_qk", "d_vo")), **options
    )
    drawn = to_arrays(init_transformer(shape, layer.n_keys, layer.n_queries, layer.n_values, key=0))
    heads = {f"blocks.0.{name}": part for name, part in to_arrays(layer).items() if name.startswith("w_")}
    ends = {name: getattr(layer, name) for name in ("embedding", "unembedding")}
    return model_from_arrays(shape, (layer.n_keys, layer.n_queries, layer.n_values), {**drawn, **heads, **ends})


def test_transformers():
    layer = parabola_layer(TABLE)
    plain = transformer_of(layer)
    assert isinstance(plain, PairTransformer)
    assert replace(verify(plain, TABLE), weights="") == replace(verify(layer, TABLE), weights="")
    for options, reason in (
        ({"layer_norm": True, "mlp_width": 2}, "layer norm and an MLP"),
        (LINEAR, "linear attention"),
    ):
        found = prove(transformer_of(layer, **options), TABLE)
        assert (found.holds, found.arithmetic, found.margin) == (False, "none", -np.inf)
        assert f"transformer with {reason}" in found.reason


def test_what_is_no_number_is_not_certified():
    layer = changed(parabola_layer(TABLE), "unembedding", (0, 0), np.nan)
    found = verify(layer, TABLE)
    assert (found.certified, found.arithmetic) == (False, "none")
    assert "not a number" in found.reason


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="the layer has 6 keys"):
        verify(parabola_layer(TABLE), numbered([(0, 0, 0)], (1, 1, 1)))
    layer = parabola_layer(TABLE)
    mixed = AttentionLayer(*(getattr(layer, name) for name in ("embedding", "w_q", "w_k", "w_v", "w_o")),
        layer.unembedding.astype(np.float64), n_keys=6)  # fmt: skip
    with pytest.raises(InputError, match="the same precision"):
        verify(mixed, TABLE)


# ---------------------------------------------------------------- the certificate itself


def test_certificates_are_kept_and_compared(tmp_path):
    layer = parabola_layer(TABLE)
    found = verify(layer, TABLE)
    save_layer(tmp_path / "layer.safetensors", layer, TABLE, notes={"certificate": found.to_json()})
    saved = load_layer(tmp_path / "layer.safetensors")
    stored = certificate_from_json(saved.notes["certificate"], found)
    assert stored == found
    assert verify(saved.layer, saved.database).differences(stored) == ()
    moved = verify(changed(layer, "embedding", (0, 0), 0.25), TABLE)
    assert moved.differences(stored) == ("weights", "arithmetic", "proved_margin")
    assert replace(found, recalled=0, margin=2.0).differences(found) == ("recalled", "margin")
    soft = replace(found, arithmetic="running error bound")
    assert replace(soft, margin=1.0000001).differences(soft) == ()
    assert replace(found, database="other", facts=3).differences(found) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[]", "exactly the fields"),
        ('{"certified": true}', "exactly the fields"),
    ],
)
def test_texts_that_are_no_certificates(text, message):
    with pytest.raises(InputError, match=message):
        certificate_from_json(text, verify(parabola_layer(TABLE), TABLE))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("certified", 1),
        ("facts", -1),
        ("recalled", True),
        ("margin", "1"),
        ("worst", ["a", "b"]),
        ("answered", 0.5),
        ("arithmetic", "magic"),
        ("precision", "float16"),
        ("weights", None),
    ],
)
def test_certificates_with_a_wrong_field_name_it(name, value):
    text = json.dumps(verify(parabola_layer(TABLE), TABLE).to_dict() | {name: value})
    with pytest.raises(InputError, match=f"{name} in the certificate"):
        certificate_from_json(text, verify(parabola_layer(TABLE), TABLE))


def test_certificate_is_frozen_data():
    found = verify(parabola_layer(TABLE), TABLE)
    assert isinstance(found, Certificate)
    with pytest.raises(AttributeError):
        found.certified = False


def test_margins_of_two_machines_may_differ_within_the_proof():
    certificate = replace(verify(parabola_layer(TABLE), TABLE), arithmetic="running error bound", proved_margin=0.5)
    assert certificate.differences(replace(certificate, margin=0.99 * certificate.margin)) == ()
    assert certificate.differences(replace(certificate, margin=0.4)) == ("margin",)
    exact = replace(certificate, arithmetic="exact integers")
    assert exact.differences(replace(exact, margin=0.99 * exact.margin)) == ("margin",)


@pytest.mark.optimised
def test_parts_multiply_tokens_first():
    """W_V W_O U, formed first, would round to another answer: no certificate covers that, so `parts` must not do it."""
    n_keys, big = 12, 2.0**23
    facts = Database.from_facts([*((f"k{key}", "q", "x") for key in range(n_keys)), ("z", "q", "y")])
    embedding = np.zeros((n_keys + 2, 3), np.float32)
    embedding[:n_keys], embedding[-1] = [big, big - 1, 0], [0, 0, 1]
    w_q, w_k = (np.array([[[0], [0], [weight]]], np.float32) for weight in (128, -1))
    w_v, w_o = np.zeros((1, 3, 8), np.float32), np.zeros((1, 8, 3), np.float32)
    w_v[0, :2, 0], w_o[0, 0, 0] = [1, -1], 1
    unembedding = np.array([[47, 31], [0, 0], [0, 1]], np.float32)
    parts = {"embedding": embedding, "w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o, "unembedding": unembedding}
    layer = layer_from_arrays(n_keys + 1, **parts)
    assert verify(layer, facts).certified
    with jax.default_matmul_precision("highest"):
        np.testing.assert_array_equal(np.asarray(layer.parts().total()), np.asarray(layer.tensor()))


# ---------------------------------------------------------------- models that are not what they seem


class Turned(AttentionLayer):
    """A layer whose forward pass is not that of its weights."""

    def logits(self, keys, queries):
        return 0.5 * super().logits(keys, queries)

    def tensor(self):
        return 0.5 * super().tensor()


def test_a_subclass_with_a_forward_pass_of_its_own_is_not_certified():
    layer = parabola_layer(TABLE)
    assert verify(layer, TABLE).certified
    parts = {name: getattr(layer, name) for name in ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding", "n_keys")}
    found = verify(Turned(**parts), TABLE)
    assert not found.certified
    assert "the class Turned" in found.reason


def test_a_forward_pass_below_the_proved_bound_refutes_the_proof(monkeypatch):
    layer = parabola_layer(TABLE)
    lower = forward_margins(layer, TABLE) * 0.999
    monkeypatch.setattr(AttentionProver, "forward", lambda _, block: lower[block.rows])
    found = verify(layer, TABLE)
    assert not found.certified
    assert f"{len(TABLE)} margins are below their proved bounds" in found.reason


def test_values_of_one_fiber_may_lead_by_different_margins():
    """The forward pass has one margin for the fiber; a larger bound of one of its facts refutes nothing."""
    heads = {name: np.zeros((1, 1, 1), np.float32) for name in ("w_q", "w_k", "w_v", "w_o")}
    unembedding = np.array([[3, 1, 0]], np.float32)
    layer = layer_from_arrays(1, embedding=np.array([[0], [1]], np.float32), unembedding=unembedding, **heads)
    facts = numbered([(0, 0, 0), (0, 0, 1)], (1, 1, 3))
    assert prove(layer, facts).bounds[0] > 2
    found = verify(layer, facts)
    assert found.certified, found.reason
    assert found.margin == 1
