"""Certificates of the factual recall task: that a one-layer transformer recalls every fact in every noise context.

Two parts that share no code. The model's own forward pass, in its own precision, answers every fact in some contexts:
random ones, and the noise tokens that attention suppresses least, each repeated. `factual_recall_proof` bounds the
margins in all contexts and all orders of evaluation, in float64. A model is certified when both find every fact
recalled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.certificates import ARITHMETIC, ArithmeticUsed, MarginBounds, Proof, Prover, RowBlock, storage
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.factual_recall.factual_recall_proof import FactualRecallProver
from factrank.families.factual_recall.factual_recall_shape import SHORTEST
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallTransformer
from factrank.families.factual_recall.proved_pooling import PlainSequence, Pooling
from factrank.nn import on_device, require_sizes
from factrank.readouts import margins

LENGTH = 32
"""Tokens of a sequence, unless said otherwise."""

SATURATED = 1e-3
"""The share that noise may take of what a head reads up to which attention counts as saturated."""


@dataclass(frozen=True, eq=False)
class SequenceProver(Prover):
    """What `certify` needs of a model that recalls facts from sequences with noise.

    The certificate holds for sequences of at most `length` tokens: one key, one query, noise tokens in any choice and
    with any repetitions, and the end token. Its `recalled` and `margin` are over the contexts that were tried, its
    `proved_margin` over all; its `parameters` are 2 H d (d_qk + d_vo) + 2 m d, and its `leak` is the largest fraction
    that noise can take of what a head reads, over heads and facts.

    Arguments:
        model: trained or constructed.
        data: functional, with as many keys, queries and values as the model.
        length: T, with T - 3 noise tokens.
        contexts: number of random contexts to try, and as many with one noise token throughout.
        seed: of the random ones.
    """

    model: FactualRecallTransformer
    data: Database
    length: int = LENGTH
    contexts: int = 4
    seed: int = 0
    fixed = ("parameters", "length")

    def __post_init__(self) -> None:
        require_factual_recall(self.model, self.data, self.length)
        require_sizes({"contexts": self.contexts})
        require_sizes({"seed": self.seed}, least=0)

    @property
    def forward_cells(self) -> int:
        """The counts of tokens, the logits or the hidden layer."""
        layout = self.model.layout
        return int(max(layout.n_tokens, layout.n_outputs, self.model.w_in.shape[1]))

    @property
    def bound_cells(self) -> int:
        """Logits or hidden layers, of three kinds, in blocks of half the size."""
        return 2 * 3 * int(max(self.model.unembedding.shape[1], self.model.w_in.shape[1]))

    @cached_property
    def tried(self) -> Float[np.ndarray, "contexts tokens"]:
        """Counts of noise tokens in the contexts of the forward pass."""
        return noise_contexts(self.model, self.length - SHORTEST, self.contexts, self.seed)

    @cached_property
    def _placed(self) -> FactualRecallTransformer:
        return on_device(self.model)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """The least margin of each fact over the contexts, in the model's own forward pass and precision."""
        layout, every = self.model.layout, np.arange(len(block.padded))
        keys, queries, values = self.data.triples[block.padded].T
        found = np.full(len(every), inf)
        for context in self.tried:
            counts = np.tile(context, (len(every), 1))
            counts[every, keys] = counts[every, layout.first_query + queries] = 1.0
            counts[:, layout.end] = 1.0
            margin = np.asarray(_margins(self._placed, jnp.asarray(counts), jnp.asarray(values[:, None])), np.float64)
            found = np.minimum(found, np.where(np.isnan(margin), -inf, margin))
        return found[: len(block.rows)]

    def obstacle(self) -> str:
        """Linear attention, weights that are not finite, or a subclass."""
        if type(self.model) is not FactualRecallTransformer:  # a subclass may compute something else
            return f"no proof is known for a model of the class {type(self.model).__name__}"
        if self.model.linear:
            return "no proof is known for linear attention, whose weights are not shares"
        if not all(np.isfinite(part).all() for part in self._parts):
            return "some weights are infinite or not a number"
        return ""

    @cached_property
    def _parts(self) -> PlainSequence:
        return PlainSequence(
            *(np.asarray(getattr(self.model, name)).astype(np.float64) for name in PlainSequence._fields)
        )

    @cached_property
    def _bounds(self) -> FactualRecallProver:
        n_noise = self.length - SHORTEST
        return FactualRecallProver(Pooling(self._parts, self.model.layout, ARITHMETIC[self.precision], n_noise))

    def bound(self, block: RowBlock) -> MarginBounds:
        """By `factual_recall_proof`, in every noise context."""
        keys, queries, values = self.data.triples[block.rows].astype(np.int64).T
        return MarginBounds(self._bounds.margins(keys, queries, values))

    @cached_property
    def leak(self) -> float:
        """The largest fraction that noise can take of what a head reads; 1 if nothing is known."""
        if self.obstacle():
            return 1.0
        keys, queries, _ = self.data.triples.astype(np.int64).T
        layout, pooling = self.model.layout, self._bounds.pooling
        tokens = np.column_stack([keys, layout.first_query + queries, np.full(len(keys), layout.end)])
        with np.errstate(all="ignore"):
            leaks = [pooling.pooled(head, tokens).leak.max() for head in range(len(self._parts.w_q))]
        return float(np.minimum(np.nan_to_num(leaks, nan=1.0), 1.0).max())

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002
        """What was tried, what noise can take, how long sequences may be, and the weights between the embeddings."""
        about = {"contexts": len(self.tried), "leak": self.leak, "length": self.length}
        return storage(counted_parameters(self.model), self.data.bits_by_query, recall) | about

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:  # noqa: ARG002
        """With what noise takes, if that may be the cause."""
        taken = f" (noise, and rounding of its scores, may take {self.leak:.2g} of what a head reads)"
        cause = taken if self.leak > SATURATED else ""
        return f"the margins of {n_open:,} facts are not proved positive in every noise context{cause}"


def counted_parameters(model: FactualRecallTransformer) -> int:
    """The weights between the embeddings without biases, which is what the paper counts."""
    parts = (model.w_q, model.w_k, model.w_v, model.w_o, model.w_in, model.w_out)
    return sum(int(part.size) for part in parts)


def require_factual_recall(model: FactualRecallTransformer, database: Database, length: int) -> None:
    """Raise an `InputError` where the facts are not a task for the model."""
    if not isinstance(model, FactualRecallTransformer):
        raise InputError(f"expected a FactualRecallTransformer; got {type(model).__name__}")
    if not len(database) or not database.functional:
        raise InputError(f"factual recall needs a functional database with some facts; got {database!r}")
    sizes = model.layout.n_keys, model.layout.n_queries, model.layout.n_values
    if sizes != database.shape:
        raise InputError(f"the model has {sizes} keys, queries and values, the database {database.shape}")
    tokens, outputs = model.embedding.shape[0], model.unembedding.shape[1]
    if (tokens, outputs) != (model.layout.n_tokens, model.layout.n_outputs):
        expected = f"{model.layout.n_tokens} tokens and {model.layout.n_outputs} outputs"
        raise InputError(f"the layout of the model has {expected}, its weights {tokens} and {outputs}")
    require_sizes({"length": length}, least=SHORTEST)


# -------------------------------------------------------------------- the forward pass


def noise_contexts(
    model: FactualRecallTransformer, n_noise: int, contexts: int, seed: int
) -> Float[np.ndarray, "contexts tokens"]:
    """Counts of noise: so many random contexts, and those of one token throughout that heads weigh most."""
    layout, rng = model.layout, np.random.default_rng(seed)
    embedding, w_q, w_k = (np.asarray(part).astype(np.float64) for part in (model.embedding, model.w_q, model.w_k))
    # Scores that overflow or are no number make their tokens neither first nor last; the proof has its word on them.
    with np.errstate(over="ignore", invalid="ignore"):
        scores = np.einsum("he,hde->hd", embedding[layout.end] @ w_q, w_k) @ embedding.T * w_q.shape[2] ** -0.5
        relative = np.nan_to_num(scores - scores.max(axis=1, keepdims=True))
    noise = relative[:, layout.first_noise : layout.end].max(axis=0)
    heaviest = np.argsort(-noise, kind="stable")[:contexts]
    drawn = rng.integers(layout.n_noise, size=(contexts, n_noise))
    counts = np.zeros((contexts + len(heaviest), layout.n_tokens), np.float32)
    np.add.at(counts, (np.arange(contexts)[:, None], layout.first_noise + drawn), 1.0)
    counts[contexts + np.arange(len(heaviest)), layout.first_noise + heaviest] = n_noise
    return counts


@eqx.filter_jit
def _margins(
    model: FactualRecallTransformer, counts: Float[Array, "n tokens"], fibers: Int[Array, "n 1"]
) -> Float[Array, " n"]:
    return margins(model.logits(counts), fibers)
