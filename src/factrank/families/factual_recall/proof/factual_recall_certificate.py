"""Certificates of factual recall: a one-layer transformer recalls every fact in every noise context.

Two parts that share no code. The model's own forward pass, in its own precision, answers every fact in some contexts:
random ones, and repetitions of the noise tokens that attention suppresses least. `factual_recall_proof` bounds the
margins over all contexts and all evaluation orders, in float64. A model is certified if both find every fact recalled.
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
from factrank.families.factual_recall.factual_recall_shape import SHORTEST
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallTransformer
from factrank.families.factual_recall.proof.factual_recall_proof import FactualRecallProver
from factrank.families.factual_recall.proof.proved_pooling import PlainSequence, Pooling
from factrank.nn import on_device, require_sizes
from factrank.readouts import margins

LENGTH = 32
"""Default number of tokens in a sequence."""

SATURATED = 1e-3
"""Attention counts as saturated if noise takes at most this fraction of the weight of any head."""


@dataclass(frozen=True, eq=False)
class SequenceProver(Prover):
    """Prover for `certify`, for a model that recalls facts from sequences with noise.

    The certificate is valid for sequences of at most `length` tokens: one key, one query, any noise tokens with any
    repetitions, and the end token. Its `recalled` and `margin` are over the contexts that were tried, its
    `proved_margin` is over all contexts. Its `parameters` are 2 H d (d_qk + d_vo) + 2 m d, and its `leak` is the
    largest fraction of the weight that noise can take, over heads and facts.

    Arguments:
        model: A trained or constructed transformer.
        data: A functional database with the keys, queries and values of the model.
        length: Sequence length T, with T - 3 noise tokens.
        contexts: Number of random contexts to try, and of contexts that repeat one noise token.
        seed: Seed of the random contexts.
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
        """Numbers per fact: token counts, and logits or the hidden layer."""
        layout = self.model.layout
        return int(max(layout.n_tokens, layout.n_outputs, self.model.w_in.shape[1]))

    @property
    def bound_cells(self) -> int:
        """Numbers per fact: three arrays of logits or hidden layers, in blocks of half the size."""
        return 2 * 3 * int(max(self.model.unembedding.shape[1], self.model.w_in.shape[1]))

    @cached_property
    def tried(self) -> Float[np.ndarray, "contexts tokens"]:
        """Noise token counts of the contexts in the forward pass."""
        return noise_contexts(self.model, self.length - SHORTEST, self.contexts, self.seed)

    @cached_property
    def _placed(self) -> FactualRecallTransformer:
        return on_device(self.model)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """Return the smallest margin of each fact over the contexts, by the model's own forward pass and precision."""
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
        """Return why no bounds exist: a subclass, linear attention, or weights that are infinite or NaN."""
        if type(self.model) is not FactualRecallTransformer:  # a subclass may compute something else
            return f"no proof is known for a model of the class {type(self.model).__name__}"
        if self.model.linear:
            return "no proof is known for linear attention, whose weights do not sum to 1"
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
        """Return the margins proved in every noise context, by `factual_recall_proof`."""
        keys, queries, values = self.data.triples[block.rows].astype(np.int64).T
        return MarginBounds(self._bounds.margins(keys, queries, values))

    @cached_property
    def leak(self) -> float:
        """Largest fraction of the weight that noise can take; 1 if unknown."""
        if self.obstacle():
            return 1.0
        keys, queries, _ = self.data.triples.astype(np.int64).T
        layout, pooling = self.model.layout, self._bounds.pooling
        tokens = np.column_stack([keys, layout.first_query + queries, np.full(len(keys), layout.end)])
        with np.errstate(all="ignore"):
            leaks = [pooling.pooled(head, tokens).leak.max() for head in range(len(self._parts.w_q))]
        return float(np.minimum(np.nan_to_num(leaks, nan=1.0), 1.0).max())

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the contexts tried, the leak, the sequence length, and the parameters between the embeddings."""
        about = {"contexts": len(self.tried), "leak": self.leak, "length": self.length}
        return storage(counted_parameters(self.model), self.data.bits_by_query, recall) | about

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:  # noqa: ARG002
        """Return a message with the leak, if it may be the cause."""
        taken = f" (noise, and rounding of its scores, may take {self.leak:.2g} of what a head reads)"
        cause = taken if self.leak > SATURATED else ""
        return f"the margins of {n_open:,} facts are not proved positive in every noise context{cause}"


def counted_parameters(model: FactualRecallTransformer) -> int:
    """Return the number of parameters as counted in the paper, without embeddings and biases."""
    parts = (model.w_q, model.w_k, model.w_v, model.w_o, model.w_in, model.w_out)
    return sum(int(part.size) for part in parts)


def require_factual_recall(model: FactualRecallTransformer, database: Database, length: int) -> None:
    """Raise an `InputError` if the facts do not match the model."""
    if not isinstance(model, FactualRecallTransformer):
        raise InputError(f"expected a FactualRecallTransformer; got {type(model).__name__}")
    if not len(database) or not database.functional:
        raise InputError(f"factual recall requires a functional database with at least one fact; got {database!r}")
    sizes = model.layout.n_keys, model.layout.n_queries, model.layout.n_values
    if sizes != database.shape:
        raise InputError(f"the model has {sizes} keys, queries and values, but the database has {database.shape}")
    tokens, outputs = model.embedding.shape[0], model.unembedding.shape[1]
    if (tokens, outputs) != (model.layout.n_tokens, model.layout.n_outputs):
        expected = f"{model.layout.n_tokens} tokens and {model.layout.n_outputs} outputs"
        raise InputError(f"the model's layout has {expected}, but its weights have {tokens} and {outputs}")
    require_sizes({"length": length}, least=SHORTEST)


# -------------------------------------------------------------------- the forward pass


def noise_contexts(
    model: FactualRecallTransformer, n_noise: int, contexts: int, seed: int
) -> Float[np.ndarray, "contexts tokens"]:
    """Return noise token counts of random contexts, and of contexts that repeat the noise tokens of largest weight."""
    layout, rng = model.layout, np.random.default_rng(seed)
    embedding, w_q, w_k = (np.asarray(part).astype(np.float64) for part in (model.embedding, model.w_q, model.w_k))
    # Tokens with NaN or overflowing scores may rank anywhere here; the proof refuses such models.
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
