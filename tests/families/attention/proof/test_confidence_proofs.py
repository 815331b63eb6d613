"""Claims about probabilities and abstention: proved for sound layers, refused for every layer with one flaw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import factrank
from factrank import Database, construct, verify
from factrank.certificates import ConfidenceClaim, certify
from factrank.errors import InputError
from factrank.experiments.models import Constructed
from factrank.families.attention.forms.building import completed, scaled, with_reserved
from factrank.families.attention.layer_files import SavedLayer
from factrank.families.attention.proof import AttentionProver, silent_pairs

FACTS = [("Ann", "born", "Rome"), ("Ann", "lives", "Oslo"), ("Bob", "born", "Lima"), ("Cid", "lives", "Rome")]
SETS = [*FACTS, ("Bob", "born", "Oslo")]


@pytest.fixture(scope="module")
def facts() -> Database:
    """Four facts, two pairs without one."""
    return Database.from_facts(FACTS)


@pytest.fixture(scope="module")
def abstaining(facts: Database) -> Constructed:
    """A layer with a reserved value."""
    return construct(facts, abstain="unknown", only="parabola")


@pytest.fixture(scope="module")
def quiet(facts: Database) -> Constructed:
    """A layer that ties where there is no fact."""
    return construct(facts, abstain="quiet", only="binary")


def logits_of(layer: Any, kind: type) -> np.ndarray:
    """The logits of every pair in plain NumPy, head after head."""
    w = {name: np.asarray(getattr(layer, name)).astype(kind) for name in ("embedding", "w_q", "w_k", "w_v", "w_o")}
    keys, queries = w["embedding"][: layer.n_keys], w["embedding"][layer.n_keys :]
    stream = np.repeat(queries[None], len(keys), axis=0)
    for w_q, w_k, w_v, w_o in zip(*(w[name] for name in ("w_q", "w_k", "w_v", "w_o")), strict=True):
        at = (queries @ w_q) / kind(np.sqrt(w_q.shape[1]))
        scores = (keys @ w_k) @ at.T - ((queries @ w_k) * at).sum(axis=1)
        with np.errstate(over="ignore"):
            weight = (1 / (1 + np.exp(-scores)))[..., None]
        stream = stream + weight * (keys @ w_v @ w_o)[:, None] + (1 - weight) * (queries @ w_v @ w_o)
    return np.asarray(stream @ np.asarray(layer.unembedding).astype(kind))


def probabilities(layer: Any, kind: type = np.float64) -> np.ndarray:
    """Softmax of the logits."""
    z = logits_of(layer, kind)
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("precision", ["float32", "float64", "bfloat16"])
def test_every_fact_has_the_probability(facts: Database, precision: Any) -> None:
    """The same size as without tau; an independent softmax agrees."""
    plain, found = (construct(facts, precision, only="binary", tau=tau) for tau in (None, 0.999))
    assert found.certified
    assert found.parameters == plain.parameters
    assert found.certificate.confidence is not None
    keys, queries, values = facts.triples.T
    for kind in (np.float32, np.float64):
        least = probabilities(found.model, kind)[keys, queries, values].min()
        assert least >= found.certificate.confidence.proved_probability >= 0.999


def test_scaling_is_exact_and_keeps_the_exact_proof(facts: Database) -> None:
    """Margins are multiplied by the power of two, bit for bit."""
    plain = construct(facts, only="parabola")
    for exponent in (-3, 5, 60):
        found = certify(AttentionProver(scaled(plain.model, exponent), facts))
        assert found.arithmetic == "exact integers"
        assert found.proved_margin == plain.certificate.proved_margin * 2.0**exponent
    for exponent in (127, 2000, -150):
        with pytest.raises(InputError, match="cannot be multiplied"):
            scaled(plain.model, exponent)


def test_no_certificate_if_scaling_may_overflow(facts: Database) -> None:
    """The weights are finite, but sums might not be."""
    layer = scaled(construct(facts, only="parabola").model, 125)
    found = certify(AttentionProver(layer, facts, ConfidenceClaim(0.95)))
    assert not found.certified
    assert "overflow" in found.reason


def test_a_claim_just_above_the_probability_is_refused(facts: Database) -> None:
    """At tau itself minus the error bound it is proved, and above what is proved it is not."""
    layer = scaled(construct(facts, only="parabola").model, 1)
    least = certify(AttentionProver(layer, facts, ConfidenceClaim(0.5))).confidence
    assert least is not None
    assert certify(AttentionProver(layer, facts, ConfidenceClaim(least.proved_probability))).certified
    over = certify(AttentionProver(layer, facts, ConfidenceClaim(float(np.nextafter(least.proved_probability, 1)))))
    assert not over.certified
    assert not certify(AttentionProver(layer, facts, ConfidenceClaim(least.probability + 1e-4))).certified


def test_the_reserved_value_answers_every_other_pair(facts: Database, abstaining: Constructed) -> None:
    """By an independent softmax; the facts in the file have no such value."""
    assert abstaining.certified
    assert abstaining.data.n_facts == facts.n_facts
    found = probabilities(abstaining.model)
    reserved = abstaining.data.values.index("unknown")
    keys, queries = np.divmod(silent_pairs(abstaining.data), facts.n_queries)
    assert len(keys) == 2
    assert (found[keys, queries, reserved] >= 0.95).all()
    assert abstaining["plain"]["parameters"] < abstaining.parameters


def test_no_certificate_for_a_single_hallucination(
    facts: Database, abstaining: Constructed, quiet: Constructed
) -> None:
    """One pair without a fact gets the code of a value: recall stays, the claim falls."""
    for found in (abstaining, quiet):
        for key, query in np.column_stack(np.divmod(silent_pairs(found.data), facts.n_queries)).tolist():
            edited = (
                completed(found.data, ConfidenceClaim(0.95, "unknown", "unknown"))
                if found is abstaining
                else found.data
            )
            more = np.array([[key, query, 0]])
            kept = edited.triples[~((edited.triples[:, 0] == key) & (edited.triples[:, 1] == query))]
            made_up = replace(edited, triples=np.concatenate([kept, more]).astype(np.int32))
            form = "parabola" if found is abstaining else "binary"
            layer = scaled(construct(made_up, only=form).model, 4)
            claim = found.certificate.confidence
            assert claim is not None
            refuted = certify(AttentionProver(layer, found.data, claim.claim))
            assert refuted.recalled == facts.n_facts
            assert not refuted.certified
            assert "a pair without a fact" in refuted.reason


def test_quiet_is_proved_only_below_tau(facts: Database, quiet: Constructed) -> None:
    """Three values tie: the probability is a third at most, and with two values for a fiber two thirds."""
    assert quiet.certified
    confidence = quiet.certificate.confidence
    assert confidence is not None
    assert confidence.silent_probability == pytest.approx(1 / 3, abs=1e-5)
    sets = [("Ann", "born", "Rome"), ("Ann", "born", "Oslo"), ("Bob", "born", "Lima"), ("Bob", "died", "Rome")]
    sets += [("Cid", "died", "Oslo"), ("Ann", "died", "Lima")]
    both = construct(Database.from_facts(sets, multi=True), abstain="quiet", only="set-valued").certificate
    assert both.certified
    assert both.confidence is not None
    assert both.confidence.silent_probability == pytest.approx(2 / 3, abs=1e-5)
    assert not certify(AttentionProver(quiet.model, replace(facts), ConfidenceClaim(0.6, "quiet"))).reason
    two = Database.from_facts([("Ann", "born", "Rome"), ("Bob", "born", "Oslo"), ("Bob", "died", "Oslo")])
    layer = construct(two, tau=0.51, only="binary").model
    assert not certify(AttentionProver(layer, two, ConfidenceClaim(0.50005, "quiet"))).certified


def test_the_values_of_a_pair_share_their_probability() -> None:
    """Two values of a pair have half each; together they have tau."""
    table = Database.from_facts(SETS, multi=True)
    found = construct(table, tau=0.95, only="set-valued")
    assert found.certified
    assert verify(found).certified
    bob = probabilities(found.model)[table.keys.index("Bob"), table.queries.index("born")]
    assert bob.max() < 0.6
    assert bob[[table.values.index("Lima"), table.values.index("Oslo")]].sum() >= 0.95


def test_a_value_named_unknown_is_no_abstention() -> None:
    """The reserved value gets another name, and a table that uses the reserved name is refused."""
    table = Database.from_facts([*FACTS, ("Bob", "lives", "unknown")])
    found = construct(table, abstain="unknown", only="parabola")
    assert found.certified
    assert found.reserved == "unknown (no fact)"
    assert factrank.answer(found, "Bob", "lives").verdict == "fact"
    assert factrank.answer(found, "Cid", "born").verdict == "abstention"
    plain = construct(Database.from_facts(FACTS), abstain="unknown", only="parabola")
    with pytest.raises(InputError, match="reserves for pairs without a fact"):
        verify(plain, Database.from_facts([*FACTS, ("Bob", "lives", "unknown")]))


def test_recall_counts_abstentions_apart(abstaining: Constructed) -> None:
    """A confident reserved value is no hallucination; without the claim it would be."""
    report = factrank.recall(abstaining)
    assert (report.hallucinations, report.abstentions, report.recall_tau) == (0, 2, 1.0)
    bare = factrank.recall(abstaining.model, abstaining.data)
    assert (bare.hallucinations, bare.abstentions) == (2, None)
    assert "abstentions" not in bare.to_dict()


def test_edits_keep_the_claim(abstaining: Constructed) -> None:
    """A deleted fact and the other queries of a new key get the reserved value, and all is proved again."""
    saved = abstaining.to_saved()
    assert isinstance(saved, SavedLayer)
    edited = factrank.edit(saved, [("Ann", "born"), ("Dan", "lives", "Kyiv"), ("Cid", "lives", "Lima")])
    assert edited.certificate.certified
    assert (edited.n_set, edited.n_deleted, edited.n_unchanged) == (2, 1, 0)
    assert edited.certificate.confidence is not None
    assert edited.certificate.confidence.claim == saved.claim
    for pair, verdict in {
        ("Ann", "born"): "abstention",
        ("Dan", "born"): "abstention",
        ("Dan", "lives"): "fact",
    }.items():
        assert factrank.answer(edited.saved, *pair).verdict == verdict
    with pytest.raises(InputError, match="delete the fact instead"):
        factrank.edit(saved, [("Ann", "born", "unknown")])
    with pytest.raises(InputError, match="no fact for"):
        factrank.edit(saved, [("Bob", "lives")])


def test_a_forged_claim_is_refuted(facts: Database) -> None:
    """A file whose certificate claims more than its weights keep."""
    saved = construct(facts, tau=0.95, only="binary").to_saved()
    forged = replace(saved, layer=scaled(saved.layer, -3))
    assert not verify(forged).certified
    named = verify(construct(facts, only="binary").model, with_reserved(facts, None), tau=0.6)
    assert named.confidence is not None
    with pytest.raises(InputError, match="needs tau"):
        verify(construct(facts, only="binary").model, facts, abstain="quiet")
