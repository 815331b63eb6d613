"""Measures of a memoriser over all examples, evaluated block by block to limit memory.

    loss             mean cross-entropy, or mean squared error of real labels
    recall           fraction of examples whose class has strictly the largest logit, or with error at most `tolerance`
    recall_<tau>     fraction of examples whose class has probability at least tau
    margin           smallest margin, only at the end
    max_error        largest error of a real label
    explained        1 - loss / variance of the real labels; NaN when they are all equal
    saturated        fraction of (example, head) with an attention weight above the threshold `saturation`
    saturated_least, saturated_most  smallest and largest fraction over the heads
    saturated_any    fraction of examples with at least one saturated head

Each trial runs as many blocks as it needs: lanes with fewer examples wait for lanes with more.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from factrank.experiments import tau_recall
from factrank.families.memoriser.examples import ExampleData, ExampleLayout, examples_at
from factrank.families.memoriser.memoriser import Memoriser
from factrank.readouts import cross_entropies, margins, probabilities

BLOCK = 1024
"""Number of examples evaluated together."""

Numbers = dict[str, Float[Array, ""]]


def losses_of(outputs: Float[Array, "batch outputs"], labels: Shaped[Array, " batch"]) -> Float[Array, " batch"]:
    """Return the cross-entropies of classes, or the squared errors of real labels, in at least float32."""
    return cross_entropies(outputs, labels) if _are_classes(labels) else _errors(outputs, labels) ** 2


def _errors(outputs: Float[Array, "batch 1"], labels: Float[Array, " batch"]) -> Float[Array, " batch"]:
    return outputs[:, 0].astype(jnp.promote_types(outputs.dtype, jnp.float32)) - labels


def _are_classes(labels: Shaped[Array, " batch"]) -> bool:
    return bool(jnp.issubdtype(labels.dtype, jnp.integer))


@dataclass(frozen=True)
class MemoriserExamination:
    """Which measures to compute: thresholds of softmax>=tau and of saturation, and the tolerance of real labels."""

    taus: tuple[float, ...]
    saturation: float | None
    tolerance: float
    layout: ExampleLayout

    def check(self, model: Memoriser, data: ExampleData) -> Numbers:
        """Return the measures used for curves and for stopping."""
        return self._numbers(model, data, self._over_examples(model, data, whole=False))

    def measure(self, model: Memoriser, data: ExampleData) -> Numbers:
        """Return the final measures."""
        totals = self._over_examples(model, data, whole=True)
        least = {name: totals[name] for name in ("margin",) if name in totals}
        return self._numbers(model, data, totals) | least

    def _over_examples(self, model: Memoriser, data: ExampleData, *, whole: bool) -> dict[str, Array]:
        """Return counts, sums and extremes over all examples, including margins if `whole`."""
        classes = self.layout.n_classes is not None
        real = jnp.promote_types(model.w_q.dtype, jnp.float32)
        counted = ["recall", *(tau_recall(tau) for tau in self.taus if classes)]
        start: dict[str, Array] = {"loss": jnp.zeros((), real)} | {name: jnp.zeros((), jnp.int32) for name in counted}
        if not classes:
            start["max_error"] = jnp.zeros((), real)
        elif whole:
            start["margin"] = jnp.full((), jnp.inf, real)
        if self.saturation is not None:
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
        """Return counts, sums and extremes over one block, ignoring invalid examples."""
        queries, contexts, labels = examples_at(self.layout, data, numbers)
        weights, outputs = model.read(queries, contexts, data.get("n_tokens"))
        found: dict[str, Array] = {"loss": jnp.where(valid, losses_of(outputs, labels), 0).sum()}
        if self.layout.n_classes is None:
            errors = jnp.where(valid, jnp.abs(_errors(outputs, labels)), 0)
            found |= {"recall": _count(errors <= self.tolerance, valid), "max_error": errors.max()}
        else:
            margin, probability = margins(outputs, labels[:, None]), probabilities(outputs, labels[:, None])
            for tau in self.taus:
                found[tau_recall(tau)] = _count(probability >= tau, valid)
            margin = jnp.where(valid, margin.astype(found["loss"].dtype), jnp.inf)
            found |= {"recall": _count(margin > 0, valid), "margin": margin.min()}
        if self.saturation is not None:
            saturated = (weights.max(axis=-1) > self.saturation) & valid[:, None]
            found |= {"heads": saturated.sum(axis=0, dtype=jnp.int32), "saturated_any": _count(saturated.any(1), valid)}
        return found

    def _numbers(self, model: Memoriser, data: ExampleData, totals: dict[str, Array]) -> Numbers:
        """Return fractions and means; a fraction is a quotient of counts, so it is exactly 1 if all are correct."""
        real = totals["loss"].dtype
        total = data["n_examples"].astype(real)
        fractions = {name: value.astype(real) / total for name, value in totals.items() if name.startswith("recall")}
        numbers: Numbers = {"loss": totals["loss"] / total, **fractions}
        if self.layout.n_classes is None:
            variance = data["label_variance"]
            explained = 1 - numbers["loss"] / jnp.where(variance > 0, variance, jnp.nan)
            numbers |= {"max_error": totals["max_error"], "explained": explained}
        if self.saturation is not None:
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
    if name == "margin":
        return jnp.minimum(total, found)
    return jnp.maximum(total, found) if name == "max_error" else total + found
