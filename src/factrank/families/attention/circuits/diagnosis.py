r"""Diagnose why a layer does not recall a database, by the failure signatures of Wong 2025 (arXiv 2502.05076).

A fact that argmax gets wrong is *routable* if some attention weights in [0, 1], one per head, would make it right while
circuits and direct path stay fixed (`best_routing`). Other values are sometimes routable by chance. If r is the
routable fraction of the wrong facts and c the routable fraction of other values in their place, attention explains
$(r - c) / (1 - c)$ of the errors and the circuits explain the rest:

1. `routing`: starved attention; the circuits store the facts, but the scores do not select them.
2. `storage`: the circuits do not store the facts, and the shape is too small: d_vo or the number of heads.
3. `unstored`: the circuits do not store the facts, although the shape is large enough.
4. `distortion`: argmax is right, softmax>=tau is not.

The shape is provably too small if the largest rank of its tensors is below a certified lower bound on the effective
rank of the database. By a rule of thumb, it is too small if the tensor that the heads write, of rank at most
$\min(K, Q)\, c$ with c the dimension of their output space (`layer_bounds`), has less than twice the rank

$$R \approx \min\Bigl( \min(K, Q) + 1,\; \frac{n \log_2 V}{2.6\,(K + Q + V - 3)} \Bigr)$$

that trained logits of free rank typically need for a random table (about 2.6 bits per number). No layer below twice
this rank recalled all facts of the random tables in our experiments. This is an observation, not a proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from jaxtyping import Int

from factrank.databases import Database
from factrank.display import Shown
from factrank.families.attention.circuits.best_routing import routable
from factrank.families.attention.circuits.layer_parts import Layer, has_shares, parts_of
from factrank.families.attention.layer_bounds import layer_rank_bounds
from factrank.families.attention.layer_tensor import LayerTensor
from factrank.readouts import (
    DEFAULT_TAU,
    AnyModel,
    FactMargins,
    ReadsFacts,
    RecallReport,
    fiber_sizes,
    fibers_of,
    margins_of,
    percent,
    recall,
    with_facts,
)
from factrank.tensors.bounds.lower import rank_one_bound, two_value_bound
from factrank.tensors.core import Core, ZeroOneTensor

EXPLAINS = 0.25
"""A cause is reported if it explains at least this fraction of the wrong facts; fixing a lesser one changes little."""

ROOM = 2.0
"""Layers whose heads have less than this multiple of the typical rank never stored a random table in experiments."""

MOSTLY_RIGHT = 0.5
"""Distortion is reported only if argmax is right on at least this fraction of the facts, corrected for chance."""

DISTORTED = 0.05
"""Distortion is reported if it affects at least this fraction of the facts."""

MOST_PROGRAMS = 200
"""Most wrong facts to examine by linear programs (milliseconds each); fractions are accurate to about 0.03."""

MOST_INTERVALS = 4000
"""Most wrong facts to examine if there is one head: intersecting intervals is much cheaper."""

MOST_FACTS_FOR_SIGNS = 200_000
"""Most facts for which Forster's bound on the effective rank is computed; it takes seconds at this size."""

BITS_PER_FREE_NUMBER = 2.6
"""Bits per number that trained logits of low rank stored in experiments."""


@dataclass(frozen=True)
class Finding:
    """One failure signature: its name, an explanation, and the numbers behind it."""

    name: str
    text: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Diagnosis(Shown):
    """Findings (none if the layer stores the database), a summary, and the recall they are based on."""

    findings: tuple[Finding, ...]
    text: str
    recall: RecallReport

    def __repr__(self) -> str:
        return f"Diagnosis({self.text})"

    def to_dict(self) -> dict[str, Any]:
        """Return findings and summary as plain data."""
        plain = [{"name": f.name, "text": f.text, "numbers": dict(f.numbers)} for f in self.findings]
        return {"text": self.text, "findings": plain}


def diagnose(given: AnyModel, database: Database | None = None, tau: float = DEFAULT_TAU) -> Diagnosis:
    """Diagnose why a layer does not recall a database.

    Arguments:
        given: a layer, or a trained, constructed or loaded object that contains one.
        database: the facts; defaults to the facts of `given`.
        tau: the probability above which an answer is confident.

    >>> from factrank import construct
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> [finding.name for finding in diagnose(construct(facts)).findings]
    ['distortion']
    """
    layer, database = with_facts(given, database)
    found, facts = recall(given, database, tau), margins_of(layer, database)
    findings = [*_wrong_facts(layer, database, facts), *_distortion(database, facts, found)]
    state = (
        f"{found.n_facts:,} facts: argmax gets {percent(found.recall)} right, softmax>={tau:g} "
        f"{percent(found.recall_tau)}; least margin {found.margin:.3g}."
    )
    verdict = "Nothing is wrong." if found.recall_tau == 1 else "Argmax is right on every fact."
    if findings:
        verdict = f"Found: {'; '.join(finding.name for finding in findings)}."
    return Diagnosis(tuple(findings), f"{state} {verdict}", found)


def _distortion(database: Database, facts: FactMargins, found: RecallReport) -> list[Finding]:
    """Report facts that argmax gets right and softmax>=tau does not, if their fiber is small enough for tau."""
    weak = (facts.margins > 0) & (facts.probabilities < found.tau) & (fiber_sizes(database) * found.tau <= 1)
    by_chance = 1 / max(database.n_values, 2)
    if not weak.any() or weak.mean() < DISTORTED or _above(found.recall, by_chance) < MOSTLY_RIGHT:
        return []
    sufficient = log(max(database.n_values - 1, 1) * found.tau / (1 - found.tau))
    least, median = float(facts.margins[weak].min()), float(np.median(facts.margins[weak]))
    text = (
        f"{percent(float(weak.mean()))} of the facts are right under argmax but below probability {found.tau:g}: "
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


def _above(share: float, chance: float) -> float:
    """Return how much of the gap between chance and 1 a fraction covers."""
    return max(share - chance, 0.0) / (1 - chance) if chance < 1 else 0.0


def _wrong_facts(layer: ReadsFacts, database: Database, facts: FactMargins) -> list[Finding]:
    broken = np.isnan(facts.margins)
    wrong = np.flatnonzero(~(facts.margins > 0) & ~broken)
    findings = []
    if broken.any():
        missing = float(broken.mean())
        text = f"{percent(missing)} of the facts have NaN logits, as after diverged training."
        findings.append(Finding("not a number", text, {"share": missing}))
    if not len(wrong):
        return findings
    share = len(wrong) / database.n_facts
    if not has_shares(layer):
        text = (
            f"{percent(share)} of the facts are wrong. This model does not decompose into circuits and attention "
            "weights, so storage and routing errors cannot be distinguished."
        )
        return [*findings, Finding("undecided", text, {"share": share})]
    evidence = {"share": share, **_routed(parts_of(layer), database, wrong)}
    sizes = _sizes(layer, database)
    too_small = sizes["effective_rank_at_least"] > sizes["layer_rank_at_most"]
    if 1 - evidence["by_routing"] >= EXPLAINS or too_small:
        small = too_small or sizes["heads_rank_at_most"] < ROOM * sizes["effective_rank_typical"]
        findings.append((_storage if small else _unstored)({**evidence, **sizes}))
    if evidence["by_routing"] >= EXPLAINS:
        findings.append(_routing(layer, evidence))
    return findings


def _storage(numbers: dict[str, float]) -> Finding:
    most, least = numbers["layer_rank_at_most"], numbers["effective_rank_at_least"]
    text = (
        f"{_not_held(numbers)} With d_vo = {numbers['d_vo']:.0f} and {numbers['n_heads']:.0f} "
        f"head{'s' if numbers['n_heads'] > 1 else ''} the shape is too small: the heads write to a space "
        f"of dimension {numbers['circuit_rank']:.0f}, so their tensor has rank at most "
        f"{numbers['heads_rank_at_most']:.0f}; a random table of this size typically needs rank "
        f"{numbers['effective_rank_typical']:.3g}, and a layer at least {ROOM:.0f} times that."
    )
    if least > most:
        text = (
            f"{_not_held(numbers)} The effective rank of this database is at least {least:.0f}, the rank of a layer of "
            f"this shape at most {most:.0f}: no weights of this shape can store it."
        )
    return Finding("storage", text, numbers)


def _unstored(numbers: dict[str, float]) -> Finding:
    text = (
        f"{_not_held(numbers)} By a rule of thumb the shape is large enough: the tensor of the heads may have rank "
        f"{numbers['heads_rank_at_most']:.0f}, a random table of this size typically needs "
        f"{numbers['effective_rank_typical']:.3g}. These weights do not store the facts: train longer, from other "
        "seeds or with more heads."
    )
    return Finding("unstored", text, numbers)


def _not_held(numbers: dict[str, float]) -> str:
    return (
        f"{percent(numbers['share'])} of the facts are wrong. Other attention weights would make "
        f"{percent(numbers['routable'])} of the {numbers['examined']:,.0f} examined right (compared with "
        f"{percent(numbers['chance'])} of other values in their place): the circuits do not store them."
    )


def _routing(layer: Layer, evidence: dict[str, float]) -> Finding:
    text = (
        f"{percent(evidence['share'])} of the facts are wrong. Other attention weights would make "
        f"{percent(evidence['routable'])} of the {evidence['examined']:,.0f} examined right (compared with "
        f"{percent(evidence['chance'])} of other values in their place): the circuits store them, but the scores "
        f"with d_qk = {layer.shape.d_qk} do not select them."
    )
    return Finding("routing", text, {**evidence, "d_qk": float(layer.shape.d_qk)})


def _routed(parts: LayerTensor, database: Database, wrong: Int[np.ndarray, " wrong"]) -> dict[str, float]:
    """Return the routable fraction of the wrong facts, and of other values in their place."""
    most = MOST_INTERVALS if len(parts.circuits) == 1 else MOST_PROGRAMS
    examined = _evenly(wrong, most)
    could = float(routable(parts, database.triples[examined, :2], fibers_of(database)[examined]).mean())
    rounds = max(min(most // len(examined), database.n_values - 1), 1)  # few facts: compare with several values
    again = np.tile(examined, rounds)
    round_, place = np.divmod(np.arange(len(again)), len(examined))
    shift = 1 + (round_ + place) % max(database.n_values - 1, 1)  # every other value in turn
    others = (database.triples[again, 2] + shift) % database.n_values
    chance = float(routable(parts, database.triples[again, :2], others[:, None]).mean())
    return {
        "examined": float(len(examined)),
        "routable": could,
        "chance": chance,
        "by_routing": _above(could, chance),
    }


def _evenly(facts: Int[np.ndarray, " wrong"], most: int) -> Int[np.ndarray, " examined"]:
    return facts[np.unique(np.linspace(0, len(facts) - 1, min(most, len(facts))).astype(np.int64))]


def _sizes(layer: Layer, database: Database) -> dict[str, float]:
    """Return the ranks that the shape allows on names with facts, and the ranks that the database needs."""
    used = database.compact().shape
    bounds = layer_rank_bounds(layer.shape, *used)
    return {
        "d_vo": float(layer.shape.d_vo),
        "n_heads": float(layer.shape.n_heads),
        "circuit_rank": float(bounds.circuit_rank),
        "heads_rank_at_most": float(min(min(used[:2]) * bounds.circuit_rank, bounds.upper.value)),
        "layer_rank_at_most": float(bounds.upper.value),
        "effective_rank_at_least": float(effective_rank_at_least(database)),
        "effective_rank_typical": typical_trained_rank(database),
    }


def effective_rank_at_least(database: Database) -> int:
    """Return a certified lower bound on the effective rank by cheap methods: values in use, and Forster's bound."""
    if not len(database):
        return 0
    tensor = Core.of(ZeroOneTensor.of(database)).tensor
    least = rank_one_bound(tensor).value
    if not tensor.determined[2] or len(tensor) > MOST_FACTS_FOR_SIGNS:
        return least
    return two_value_bound(tensor, least) or least


def typical_trained_rank(database: Database) -> float:
    """Estimate the effective rank of a random database of this size; names without facts do not count."""
    used = database.compact()
    free = max(sum(used.shape) - 3, 1)
    return float(min(min(used.n_keys, used.n_queries) + 1.0, used.bits / (BITS_PER_FREE_NUMBER * free)))
