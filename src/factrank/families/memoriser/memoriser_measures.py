r"""What is measured of a memoriser: every example, block by block, so that no more are in memory than a block.

    loss             mean cross-entropy, or mean squared error of real labels
    recall           share of examples whose class is strictly above all others, or whose error is at most `tolerance`
    recall_<tau>     share whose class has a probability of at least tau
    margin           least margin, at the end
    max_error        largest error of a real label
    explained        1 - loss / variance of the real labels; nan where they are all equal
    saturated        share of (example, head) whose largest attention weight exceeds the threshold `saturation`
    saturated_least, saturated_most  least and largest share of examples of a head
    saturated_any    share of examples with at least one such head

The number of blocks is that of the trial: lanes with fewer examples wait for those with more.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from factrank.experiments import tau_recall
from factrank.experiments.specs import Measures
from factrank.families.memoriser.examples import ExampleData, ExampleLayout, examples_at
from factrank.families.memoriser.memoriser import Memoriser
from factrank.readouts import cross_entropies, margins, probabilities

BLOCK = 1024
"""Examples that are looked at at once."""

Numbers = dict[str, Float[Array, ""]]


def losses_of(outputs: Float[Array, "batch outputs"], labels: Shaped[Array, " batch"]) -> Float[Array, " batch"]:
    """Cross-entropies of classes, or squared errors of real labels, in float32 at least."""
    return cross_entropies(outputs, labels) if _are_classes(labels) else _errors(outputs, labels) ** 2


def _errors(outputs: Float[Array, "batch 1"], labels: Float[Array, " batch"]) -> Float[Array, " batch"]:
    return outputs[:, 0].astype(jnp.promote_types(outputs.dtype, jnp.float32)) - labels


def _are_classes(labels: Shaped[Array, " batch"]) -> bool:
    return bool(jnp.issubdtype(labels.dtype, jnp.integer))


@dataclass(frozen=True)
class MemoriserExamination:
    """What is asked of which examples."""

    measures: Measures
    layout: ExampleLayout

    def check(self, model: Memoriser, data: ExampleData) -> Numbers:
        """The numbers of curves and of stopping."""
        return self._numbers(model, data, self._over_examples(model, data, whole=False))

    def measure(self, model: Memoriser, data: ExampleData) -> Numbers:
        """The numbers at the end."""
        totals = self._over_examples(model, data, whole=True)
        least = {name: totals[name] for name in ("margin",) if name in totals}
        return self._numbers(model, data, totals) | least

    def _over_examples(self, model: Memoriser, data: ExampleData, *, whole: bool) -> dict[str, Array]:
        """Counts, sums and extremes over all examples; margins for the whole alone."""
        classes = self.layout.n_classes is not None
        real = jnp.promote_types(model.w_q.dtype, jnp.float32)
        counted = ["recall", *(tau_recall(tau) for tau in self.measures.taus if classes)]
        start: dict[str, Array] = {"loss": jnp.zeros((), real)} | {name: jnp.zeros((), jnp.int32) for name in counted}
        if not classes:
            start["max_error"] = jnp.zeros((), real)
        elif whole:
            start["margin"] = jnp.full((), jnp.inf, real)
        if self.measures.saturation is not None:
            start |= {"saturated_any": jnp.zeros((), jnp.int32), "heads": jnp.zeros(len(model.w_q), jnp.int32)}

        def add(block: Int[Array, ""], totals: dict[str, Array]) -> dict[str, Array]:
            numbers = block * BLOCK + jnp.arange(BLOCK, dtype=jnp.int32)
            valid = numbers < data["n_examples"]
            found = self._ask(model, data, jnp.minimum(numbers, data["n_examples"] - 1), valid)
            return {name: _joined(name, total, found[name]) for name, total in totals.items()}

        n_blocks = (data["n_examples"] + (BLOCK - 1)) // BLOCK
        totals: dict[str, Array] = jax.lax.fori_loop(0, n_blocks, add, start)
        return totals

    def _ask(
        self, model: Memoriser, data: ExampleData, numbers: Int[Array, " block"], valid: Bool[Array, " block"]
    ) -> dict[str, Array]:
        """Counts, sums and extremes of a block; what is not valid counts for nothing."""
        queries, contexts, labels = examples_at(self.layout, data, numbers)
        weights, outputs = model.read(queries, contexts, data.get("n_tokens"))
        found: dict[str, Array] = {"loss": jnp.where(valid, losses_of(outputs, labels), 0).sum()}
        if self.layout.n_classes is None:
            errors = jnp.where(valid, jnp.abs(_errors(outputs, labels)), 0)
            found |= {"recall": _count(errors <= self.measures.tolerance, valid), "max_error": errors.max()}
        else:
            margin, probability = margins(outputs, labels[:, None]), probabilities(outputs, labels[:, None])
            for tau in self.measures.taus:
                found[tau_recall(tau)] = _count(probability >= tau, valid)
            margin = jnp.where(valid, margin.astype(found["loss"].dtype), jnp.inf)
            found |= {"recall": _count(margin > 0, valid), "margin": margin.min()}
        if self.measures.saturation is not None:
            saturated = (weights.max(axis=-1) > self.measures.saturation) & valid[:, None]
            found |= {"heads": saturated.sum(axis=0, dtype=jnp.int32), "saturated_any": _count(saturated.any(1), valid)}
        return found

    def _numbers(self, model: Memoriser, data: ExampleData, totals: dict[str, Array]) -> Numbers:
        """Shares and means; a share is a quotient of counts, which is 1 exactly when all are right."""
        real = totals["loss"].dtype
        total = data["n_examples"].astype(real)
        shares = {name: value.astype(real) / total for name, value in totals.items() if name.startswith("recall")}
        numbers: Numbers = {"loss": totals["loss"] / total, **shares}
        if self.layout.n_classes is None:
            variance = data["label_variance"]
            explained = 1 - numbers["loss"] / jnp.where(variance > 0, variance, jnp.nan)
            numbers |= {"max_error": totals["max_error"], "explained": explained}
        if self.measures.saturation is not None:
            by_head = totals["heads"].astype(real) / total
            numbers |= {
                "saturated": totals["heads"].astype(real).sum() / (total * len(model.w_q)),
                "saturated_least": by_head.min(),
                "saturated_most": by_head.max(),
                "saturated_any": totals["saturated_any"].astype(real) / total,
            }
        return numbers


def _count(right: Bool[Array, " block"], valid: Bool[Array, " block"]) -> Int[Array, ""]:
    return (right & valid).sum(dtype=jnp.int32)


def _joined(name: str, total: Array, found: Array) -> Array:
    """A number of all blocks so far, and of one more."""
    if name == "margin":
        return jnp.minimum(total, found)
    return jnp.maximum(total, found) if name == "max_error" else total + found
