r"""Diagnosis: why a layer does not recall a database, by the failure signatures of Wong 2025 (arXiv 2502.05076).

A fact that argmax gets wrong *can be routed* when some attention weights in [0, 1], one per head, would make it right
with circuits and direct path as they are (`routing`). So can other values, by chance; with the shares r of the wrong
facts and c of other values in their place, the part $(r - c) / (1 - c)$ is put down to attention, the rest to what the
circuits hold:

1. `routing`: starved attention; the circuits hold the facts, the scores do not select them.
2. `storage`: the circuits do not hold them, and the shape is too small: d_vo or the heads are too few.
3. `unstored`: these weights do not hold them, though the shape has room.
4. `distortion`: argmax is right, softmax>=tau is not.

The shape is too small for certain when the largest rank of its tensors is below a certified lower bound of the
database's effective rank. By a rule of thumb it is too small when the part of the tensor that the heads write, whose
rank is at most $\min(K, Q)\, c$ with c the dimensions that they write to (`layer_bounds`), has less than twice the rank

$$R \approx \min\Bigl( \min(K, Q) + 1,\; \frac{n \log_2 V}{2.6\,(K + Q + V - 3)} \Bigr)$$

that free logits typically need for a random table (they hold about 2.6 bits per number): of the layers that we trained
on random tables, none below twice this rank recalled all facts. It proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from jaxtyping import Int

from factrank.databases import Database
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
"""A cause is named when it explains this share of the wrong facts; mending a lesser one would change little."""

ROOM = 2.0
"""Heads whose part has less than so many times the typical rank were never seen to hold a random table."""

MOSTLY_RIGHT = 0.5
"""Distortion means that argmax is right: it is named when it is on this share of the facts, chance taken off."""

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
    recall: RecallReport

    def to_dict(self) -> dict[str, Any]:
        """Findings and summary as plain data."""
        plain = [{"name": f.name, "text": f.text, "numbers": dict(f.numbers)} for f in self.findings]
        return {"text": self.text, "findings": plain}


def diagnose(given: AnyModel, database: Database | None = None, tau: float = DEFAULT_TAU) -> Diagnosis:
    """Name what keeps a layer from recalling a database: the one given, else the one that came with the layer."""
    layer, database = with_facts(given, database)
    found, facts = recall(layer, database, tau), margins_of(layer, database)
    findings = [*_wrong_facts(layer, database, facts), *_distortion(database, facts, found)]
    state = (
        f"{found.n_facts:,} facts: argmax gets {percent(found.recall)} right, softmax>={tau:g} "
        f"{percent(found.recall_tau)}; least margin {found.margin:.3g}."
    )
    return Diagnosis(tuple(findings), f"{state} {_verdict(findings, found)}", found)


def _verdict(findings: list[Finding], found: RecallReport) -> str:
    if findings:
        return f"Found: {'; '.join(finding.name for finding in findings)}."
    return "Nothing is wrong." if found.recall_tau == 1 else "Argmax is right on every fact."


# -------------------------------------------------------------------- distortion


def _distortion(database: Database, facts: FactMargins, found: RecallReport) -> list[Finding]:
    """Facts that argmax gets right and softmax>=tau does not, though their fiber has few enough values for it."""
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
    """How much of what chance leaves over a share covers."""
    return max(share - chance, 0.0) / (1 - chance) if chance < 1 else 0.0


# -------------------------------------------------------------------- wrong facts: storage or routing


def _wrong_facts(layer: ReadsFacts, database: Database, facts: FactMargins) -> list[Finding]:
    """What the facts that argmax gets wrong are put down to."""
    broken = np.isnan(facts.margins)
    wrong = np.flatnonzero(~(facts.margins > 0) & ~broken)
    findings = []
    if broken.any():
        missing = float(broken.mean())
        text = f"{percent(missing)} of the facts have logits that are not numbers, as after a diverged training."
        findings.append(Finding("not a number", text, {"share": missing}))
    if not len(wrong):
        return findings
    share = len(wrong) / database.n_facts
    if not has_shares(layer):
        text = (
            f"{percent(share)} of the facts are wrong; this model has no circuits with attention weights beside them, "
            "so that storage and routing cannot be told apart."
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
        f"of dimension {numbers['circuit_rank']:.0f}, so that their part has rank "
        f"{numbers['heads_rank_at_most']:.0f} at most; a random table of this size typically needs "
        f"{numbers['effective_rank_typical']:.3g}, and layers {ROOM:.0f} times that or more."
    )
    if least > most:
        text = (
            f"{_not_held(numbers)} This database has effective rank {least:.0f} at least, a layer of this shape rank "
            f"{most:.0f} at most: no weights of this shape can hold it."
        )
    return Finding("storage", text, numbers)


def _unstored(numbers: dict[str, float]) -> Finding:
    text = (
        f"{_not_held(numbers)} The shape leaves room, by a rule of thumb: the part of the heads may have rank "
        f"{numbers['heads_rank_at_most']:.0f}, a random table of this size typically needs "
        f"{numbers['effective_rank_typical']:.3g}. It is these weights that do not hold the facts: train longer, from "
        "other seeds or with more heads."
    )
    return Finding("unstored", text, numbers)


def _not_held(numbers: dict[str, float]) -> str:
    return (
        f"{percent(numbers['share'])} of the facts are wrong. Of the {numbers['examined']:,.0f} examined, other "
        f"attention weights would make {percent(numbers['routable'])} right, and of other values in their place "
        f"{percent(numbers['chance'])}: the circuits do not hold them."
    )


def _routing(layer: Layer, evidence: dict[str, float]) -> Finding:
    text = (
        f"{percent(evidence['share'])} of the facts are wrong. Other attention weights would make "
        f"{percent(evidence['routable'])} of the {evidence['examined']:,.0f} examined right (against "
        f"{percent(evidence['chance'])} for other values in their place): the circuits can express them, the scores "
        f"with d_qk = {layer.shape.d_qk} do not select them."
    )
    return Finding("routing", text, {**evidence, "d_qk": float(layer.shape.d_qk)})


def _routed(parts: LayerTensor, database: Database, wrong: Int[np.ndarray, " wrong"]) -> dict[str, float]:
    """The share of the wrong facts that some attention makes right, and the same for other values in their place."""
    most = MOST_INTERVALS if len(parts.circuits) == 1 else MOST_PROGRAMS
    examined = _evenly(wrong, most)
    could = float(routable(parts, database.triples[examined, :2], fibers_of(database)[examined]).mean())
    rounds = max(min(most // len(examined), database.n_values - 1), 1)  # few facts are compared with several values
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
    """At most so many of the facts, evenly spread."""
    return facts[np.unique(np.linspace(0, len(facts) - 1, min(most, len(facts))).astype(np.int64))]


# -------------------------------------------------------------------- sizes


def _sizes(layer: Layer, database: Database) -> dict[str, float]:
    """What the shape allows on the names that have facts, and what the database needs."""
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
