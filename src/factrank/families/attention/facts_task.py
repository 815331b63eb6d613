r"""The task of training a model on the facts of a database: cross-entropy, recall and margins.

$$\mathrm{loss} = -\frac1n \sum_{(k,q,v) \in D} \log \mathrm{softmax}(L[k,q,:])_v$$

If most (key, query) pairs have a fact, the logits of all pairs are computed from value tables without a gather, and
pairs without a fact get weight 0. Otherwise, and for batches, only pairs with facts are computed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TypedDict, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Epoch, Metrics, Reading, tau_recall
from factrank.experiments.specs import EpochsTo, Trial
from factrank.families.attention.attention_layer import AttentionLayer, draw_layer
from factrank.families.attention.further_measures import further_measures
from factrank.families.attention.layer_measures import Hallucinations
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import (
    PairTransformer,
    TransformerShape,
    draw_transformer,
    shared_rows,
)
from factrank.readouts import fibers_of, margins, probabilities

PairModel = AttentionLayer | PairTransformer
GRID_FRACTION = 0.5
"""If at least this fraction of pairs has a fact, computing all pairs is cheaper than a gather (twice as fast at 1)."""


class FactRows(TypedDict):
    """One row per fact or, on the grid, per pair; `fibers` are the values of its fiber, `weights` are 0 or 1.

    These are NumPy arrays while on the host.
    """

    keys: Int[Array, " n"]
    queries: Int[Array, " n"]
    values: Int[Array, " n"]
    fibers: Int[Array, "n m"]
    weights: Float[Array, " n"]


class FactData(TypedDict):
    """Inputs of the loss of one trial."""

    rows: FactRows
    score_scale: Float[Array, ""]


@dataclass(frozen=True, eq=False)
class FactsTask:
    """Training of one model on one database."""

    trial: Trial
    database: Database

    def __post_init__(self) -> None:
        if not len(self.database):
            raise InputError("the database has no facts to train on")
        if not isinstance(self.trial.model, LayerShape | TransformerShape):
            raise InputError(f"facts must be read by a LayerShape or TransformerShape; got {self.trial.model!r}")

    @property
    def on_grid(self) -> bool:
        """Whether the logits of all pairs are computed."""
        n_pairs = self.database.n_keys * self.database.n_queries
        full_batch = self.trial.training.batch_size is None
        return full_batch and self.database.functional and len(self.database) >= GRID_FRACTION * n_pairs

    @property
    def signature(self) -> Hashable:
        """Key of the compiled program: the model, the sizes, how logits are computed, and the measures."""
        trial = self.trial
        # all other measures are computed later, on the host
        measured = trial.taus, trial.measure(Hallucinations), trial.measure(EpochsTo)
        rows = "grid" if self.on_grid else fibers_of(self.database).shape
        return "facts", trial.model, self.database.shape, rows, trial.training.batch_size, measured, self._n_tokens

    @property
    def _n_tokens(self) -> int | None:
        """Number of embedding rows, if keys and queries share tokens."""
        return None if self._query_rows is None else max(self.database.n_keys, max(self._query_rows) + 1)

    @property
    def _query_rows(self) -> list[int] | None:
        model = self.trial.model
        if not isinstance(model, TransformerShape) or not model.share_tokens:
            return None
        return shared_rows(tuple(self.database.keys), tuple(self.database.queries))

    @property
    def frozen(self) -> tuple[str, ...]:
        """Parts that the trial does not train."""
        return self.trial.training.frozen

    def init(self, rng: np.random.Generator) -> PairModel:
        """Return the model before training, without its score scale."""
        model = self.trial.model
        if isinstance(model, LayerShape):
            return draw_layer(model, *self.database.shape, rng=rng, dtype=self._real)
        rows, model = self._query_rows, cast("TransformerShape", model)
        return draw_transformer(model, self.database.shape, rng=rng, dtype=self._real, query_rows=rows)

    def data(self) -> FactData:
        """Return the facts as arrays, and the score scale."""
        rows = self._grid_rows() if self.on_grid else self._fact_rows()
        scale = np.array(self.trial.training.score_scale, dtype=self._real)
        return cast("FactData", {"rows": rows, "score_scale": scale})

    def batches(self, data: FactData, key: PRNGKeyArray, epoch: Epoch) -> Int[Array, "steps batch"]:  # noqa: ARG002
        """Return a random order of the facts in rows of `batch_size`, padded by repeating its start.

        If there is no batch size, returns one empty row, which stands for all facts.
        """
        wanted, n_facts = self.trial.training.batch_size, data["rows"]["keys"].shape[0]
        if wanted is None:
            return jnp.zeros((1, 0), dtype=jnp.int32)
        size = min(wanted, n_facts)
        n_steps = -(-n_facts // size)
        return jnp.resize(jax.random.permutation(key, n_facts), (n_steps, size))

    def loss(self, model: PairModel, data: FactData, batch: Int[Array, " batch"]) -> Float[Array, ""]:
        """Return the mean cross-entropy of a batch."""
        rows = data["rows"]
        if batch.size:
            rows = cast("FactRows", jax.tree.map(lambda column: column[batch], rows))
        return _cross_entropy(self._logits(model, data, rows), rows)

    def check(self, model: PairModel, data: FactData) -> Metrics:
        """Return loss and recalls over all facts."""
        logits = self._logits(model, data, data["rows"])
        return self._recalls(logits, data["rows"])

    def measure(self, model: PairModel, data: FactData) -> Metrics:
        """Return loss, recalls, and the smallest and median margin over all facts."""
        rows = data["rows"]
        logits = self._logits(model, data, rows)
        margin = jnp.where(rows["weights"] > 0, margins(logits, rows["fibers"]), jnp.nan)
        return self._recalls(logits, rows) | {
            "margin": jnp.min(margin, where=rows["weights"] > 0, initial=jnp.inf),
            "median_margin": jnp.nanmedian(margin),
        }

    def exact(self, numbers: dict[str, float]) -> dict[str, float]:
        """Return the metrics with recalls rounded to exact fractions of the facts; float32 only approximates them."""
        n = len(self.database)
        fractions = {name: round(value * n) / n for name, value in numbers.items() if _is_fraction(name, value)}
        return numbers | fractions

    def finish(
        self, model: PairModel, numbers: Mapping[str, float]
    ) -> tuple[PairModel, dict[str, float], list[Reading]]:
        """Return the model with its score scale folded in, and the further measures of the trial."""
        scale = self.trial.training.score_scale
        scaled = model if scale == 1 else model.scaled_scores(scale)
        return scaled, *further_measures(self.trial, self.database, scaled, numbers)

    # ---------------------------------------------------------------- rows and logits

    @property
    def _real(self) -> str:
        return "float64" if self.trial.training.precision == "float64" else "float32"

    def _fact_rows(self) -> FactRows:
        keys, queries, values = self.database.triples.T
        fibers, weights = fibers_of(self.database), np.ones(len(keys), dtype=np.float32)
        rows = {"keys": keys, "queries": queries, "values": values, "fibers": fibers, "weights": weights}
        return cast("FactRows", rows)

    def _grid_rows(self) -> FactRows:
        n_keys, n_queries, _ = self.database.shape
        keys, queries = np.indices((n_keys, n_queries), dtype=np.int32).reshape(2, -1)
        values, weights = np.zeros(len(keys), dtype=np.int32), np.zeros(len(keys), dtype=np.float32)
        at = self.database.triples[:, 0].astype(np.int64) * n_queries + self.database.triples[:, 1]
        values[at], weights[at] = self.database.triples[:, 2], 1
        rows = {"keys": keys, "queries": queries, "values": values, "fibers": values[:, None], "weights": weights}
        return cast("FactRows", rows)

    def _logits(self, model: PairModel, data: FactData, rows: FactRows) -> Float[Array, "n values"]:
        scaled = model.scaled_scores(data["score_scale"])
        if self.on_grid:
            return scaled.tensor().reshape(-1, model.n_values)
        return scaled.logits(rows["keys"], rows["queries"])

    def _recalls(self, logits: Float[Array, "n values"], rows: FactRows) -> dict[str, Float[Array, ""]]:
        right = {"recall": margins(logits, rows["fibers"]) > 0}
        probability = probabilities(logits, rows["fibers"])
        probability = probability.astype(jnp.promote_types(probability.dtype, jnp.float32))  # bfloat16 would round tau
        right |= {tau_recall(tau): probability >= tau for tau in self.trial.taus}
        weights = rows["weights"]
        fractions = {name: (weights * is_right).sum() / weights.sum() for name, is_right in right.items()}
        return {"loss": _cross_entropy(logits, rows), **fractions}


def _is_fraction(name: str, value: float) -> bool:
    return name.startswith("recall") and isfinite(value)


def _cross_entropy(logits: Float[Array, "n values"], rows: FactRows) -> Float[Array, ""]:
    own = jnp.take_along_axis(logits, rows["values"][:, None], axis=1)[:, 0]
    weights = rows["weights"]
    return (weights * (jax.nn.logsumexp(logits, axis=1) - own)).sum() / weights.sum()
