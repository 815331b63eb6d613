r"""Diagnosis: why a layer does not recall a database, by the failure signatures of Wong 2025 (arXiv 2502.05076).

1. `storage`: d_vo too small for the database. 2. `distortion`: argmax right, softmax>=tau not. 3. `routing`: starved
attention. A fact that argmax gets wrong is put down to routing when some attention weights in [0, 1], one per head,
would make it right with circuits and direct path as they are, and to storage when none would (`routing`).

Beside storage stand the sizes that bear on it: the largest rank that the shape allows the layer's tensor, against a
certified lower bound of the database's effective rank, and against the rule of thumb

$$R \approx \min\Bigl( \min(K, Q) + 1,\; \frac{n \log_2 V}{2.6\,(K + Q + V - 3)} \Bigr)$$

(trained logits of rank R hold about 2.6 bits per free number), which is typical for random tables and proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from jaxtyping import Int

from factrank.databases import Database
from factrank.models import LayerTensor
from factrank.models.layer_bounds import layer_rank_bounds
from factrank.readouts.blocks import Model
from factrank.readouts.fibers import fiber_sizes, fibers_of
from factrank.readouts.parts import Layer, has_shares, parts_of
from factrank.readouts.recall import DEFAULT_TAU, FactMargins, Recall, margins_of, recall
from factrank.readouts.routing import routable
from factrank.tensors import ZeroOneTensor
from factrank.tensors.effective import rank_one_bound
from factrank.tensors.forster import two_value_bound
from factrank.tensors.zero_one import Core

EXPLAINS = 0.25
"""A cause is named when it explains this share of the wrong facts; mending a lesser one would change little."""

DISTORTED = 0.05
"""Distortion is named from this share of the facts on; below it single facts are weak, not the readout as such."""

MOST_PROGRAMS = 200
"""Wrong facts examined by linear programs, milliseconds each; a share is then known to about 0.03."""

MOST_INTERVALS = 4000
"""Wrong facts examined where there is one head: intersecting intervals is far cheaper."""

MOST_FACTS_FOR_SIGNS = 200_000
"""Facts up to which Forster's bound on the effective rank is computed: seconds at this size."""

BITS_PER_FREE_NUMBER = 2.6
"""What trained logits of low rank were seen to hold."""


@dataclass(frozen=True)
class Finding:
    """One failure signature: its name, what it means here, and the numbers that show it."""

    name: str
    text: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Diagnosis:
    """The findings, none for a layer that holds the database; a summary; and the recall they rest on."""

    findings: tuple[Finding, ...]
    text: str
    recall: Recall

    def to_dict(self) -> dict[str, Any]:
        """Findings and summary as plain data."""
        plain = [{"name": f.name, "text": f.text, "numbers": dict(f.numbers)} for f in self.findings]
        return {"text": self.text, "findings": plain}


def diagnose(layer: Model, database: Database, tau: float = DEFAULT_TAU) -> Diagnosis:
    """Name what keeps the layer from recalling the database."""
    found, facts = recall(layer, database, tau), margins_of(layer, database)
    findings = [*_wrong_facts(layer, database, facts), *_distortion(database, facts, found)]
    state = (
        f"{found.n_facts:,} facts: argmax gets {found.recall:.2%} right, softmax>={tau:g} {found.recall_tau:.2%}; "
        f"least margin {found.margin:.3g}."
    )
    verdict = "; ".join(finding.name for finding in findings)
    return Diagnosis(tuple(findings), f"{state} {f'Found: {verdict}.' if verdict else 'Nothing is wrong.'}", found)


# -------------------------------------------------------------------- distortion


def _distortion(database: Database, facts: FactMargins, found: Recall) -> list[Finding]:
    """Facts that argmax gets right and softmax>=tau does not, though their fiber has few enough values for it."""
    weak = (facts.margins > 0) & (facts.probabilities < found.tau) & (fiber_sizes(database) * found.tau <= 1)
    if not weak.any() or weak.mean() < DISTORTED:
        return []
    sufficient = log(max(database.n_values - 1, 1) * found.tau / (1 - found.tau))
    least, median = float(facts.margins[weak].min()), float(np.median(facts.margins[weak]))
    text = (
        f"{weak.mean():.1%} of the facts are right under argmax but below probability {found.tau:g}: "
        f"the median margin of these is {median:.3g}."
    )
    if database.functional:
        text += (
            f" A margin of {sufficient:.3g} always suffices: logits {sufficient / least:.3g} times as large would do."
        )
    numbers = {
        "share": float(weak.mean()),
        "recall": found.recall,
        "recall_tau": found.recall_tau,
        "least_margin": least,
        "median_margin": median,
        "sufficient_margin": sufficient,
    }
    return [Finding("distortion", text, numbers)]


# -------------------------------------------------------------------- wrong facts: storage or routing


def _wrong_facts(layer: Model, database: Database, facts: FactMargins) -> list[Finding]:
    """What the facts that argmax gets wrong are put down to."""
    broken = np.isnan(facts.margins)
    wrong = np.flatnonzero(~(facts.margins > 0) & ~broken)
    findings = []
    if broken.any():
        text = f"{broken.mean():.1%} of the facts have logits that are not numbers, as after a diverged training."
        findings.append(Finding("not a number", text, {"share": float(broken.mean())}))
    if not len(wrong):
        return findings
    share = len(wrong) / database.n_facts
    if not has_shares(layer):
        text = (
            f"{share:.1%} of the facts are wrong; this model has no circuits with attention weights beside them, "
            "so that storage and routing cannot be told apart."
        )
        return [*findings, Finding("undecided", text, {"share": share})]
    parts = parts_of(layer)
    examined = _evenly(wrong, MOST_INTERVALS if len(parts.circuits) == 1 else MOST_PROGRAMS)
    could, chance = _routable_shares(parts, database, examined)
    evidence = {"share": share, "examined": float(len(examined)), "routable": could, "chance": chance}
    bounds, least = layer_rank_bounds(layer.shape, *database.shape), effective_rank_at_least(database)
    if 1 - could >= EXPLAINS or least > bounds.upper.value:
        sizes = {
            "d_vo": float(layer.shape.d_vo),
            "n_heads": float(layer.shape.n_heads),
            "circuit_rank": float(bounds.circuit_rank),
            "layer_rank_at_most": float(bounds.upper.value),
            "effective_rank_at_least": float(least),
            "effective_rank_typical": typical_trained_rank(database),
        }
        findings.append(_storage(layer, {**evidence, **sizes}))
    if could >= EXPLAINS:
        findings.append(_routing(layer, evidence))
    return findings


def _storage(layer: Layer, evidence: dict[str, float]) -> Finding:
    most, least = evidence["layer_rank_at_most"], evidence["effective_rank_at_least"]
    text = (
        f"{evidence['share']:.1%} of the facts are wrong. No attention weights would make "
        f"{1 - evidence['routable']:.1%} of the {int(evidence['examined']):,} examined right: the circuits do not hold "
        f"them, with d_vo = {layer.shape.d_vo} (heads: {layer.shape.n_heads}), which write to "
        f"{evidence['circuit_rank']:.0f} dimensions. A layer of this shape has rank {most:.0f} at most; a random "
        f"database of this size typically needs {evidence['effective_rank_typical']:.3g}."
    )
    if least > most:
        text += f" This database has effective rank {least:.0f} at least: no weights of this shape can hold it."
    return Finding(
        "storage", text, {**evidence, "d_vo": float(layer.shape.d_vo), "n_heads": float(layer.shape.n_heads)}
    )


def _routing(layer: Layer, evidence: dict[str, float]) -> Finding:
    text = (
        f"{evidence['share']:.1%} of the facts are wrong. Other attention weights would make "
        f"{evidence['routable']:.1%} of the {int(evidence['examined']):,} examined right (against "
        f"{evidence['chance']:.1%} for a value taken at random): the circuits can express them, the scores with "
        f"d_qk = {layer.shape.d_qk} do not select them."
    )
    return Finding("routing", text, {**evidence, "d_qk": float(layer.shape.d_qk)})


def _routable_shares(
    parts: LayerTensor, database: Database, examined: Int[np.ndarray, " examined"]
) -> tuple[float, float]:
    """The share of the examined facts that some attention makes right, and the same for another value instead."""
    pairs, values = database.triples[examined, :2], database.triples[examined, 2]
    could = routable(parts, pairs, fibers_of(database)[examined])
    shift = 1 + np.arange(len(examined)) % max(database.n_values - 1, 1)  # every other value in turn
    chance = routable(parts, pairs, ((values + shift) % database.n_values)[:, None])
    return float(could.mean()), float(chance.mean())


def _evenly(facts: Int[np.ndarray, " wrong"], most: int) -> Int[np.ndarray, " examined"]:
    """At most so many of the facts, evenly spread."""
    return facts[np.unique(np.linspace(0, len(facts) - 1, min(most, len(facts))).astype(np.int64))]


# -------------------------------------------------------------------- sizes


def effective_rank_at_least(database: Database) -> int:
    """A certified lower bound of the effective rank, by cheap methods alone: values in use, and Forster's bound."""
    if not len(database):
        return 0
    tensor = Core.of(ZeroOneTensor.of(database)).tensor
    least = rank_one_bound(tensor).value
    if not tensor.determined[2] or len(tensor) > MOST_FACTS_FOR_SIGNS:
        return least
    return two_value_bound(tensor, least) or least


def typical_trained_rank(database: Database) -> float:
    """The rule of thumb for the effective rank of a random database of this size; names without facts do not count."""
    used = database.compact()
    free = max(sum(used.shape) - 3, 1)
    return float(min(min(used.n_keys, used.n_queries) + 1.0, used.bits / (BITS_PER_FREE_NUMBER * free)))
