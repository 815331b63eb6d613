"""Certificates of the factual recall task: that a one-layer transformer recalls every fact in every noise context.

Two parts that share no code. The model's own forward pass, in its own precision, answers every fact in some contexts:
random ones, and the noise tokens that attention suppresses least, each repeated. `factual_recall_proof` bounds the
margins in all contexts and all orders of evaluation, in float64. A model is certified when both find every fact
recalled.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.certificates import ARITHMETIC, ReaderCertificate, fingerprint_of, precision_of, why_refuted
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.factual_recall.factual_recall_proof import FactualRecallProver
from factrank.families.factual_recall.factual_recall_shape import SHORTEST
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallTransformer
from factrank.families.factual_recall.proved_pooling import PlainSequence, Pooling
from factrank.nn import Precision, on_device, require_sizes
from factrank.readouts import margins

LENGTH = 32
"""Tokens of a sequence, unless said otherwise."""

BLOCK_CELLS = 2**22
"""Numbers in the largest array of a block of the forward pass."""

SATURATED = 1e-3
"""The share that noise may take of what a head reads up to which attention counts as saturated."""


@dataclass(frozen=True, kw_only=True)
class FactualRecallCertificate(ReaderCertificate):
    """What is known of a model's recall of a database from sequences with noise.

    It holds for sequences of at most `length` tokens: one key, one query, noise tokens in any choice and with any
    repetitions, and the end token. `recalled` and `margin` are over the contexts that were tried, `proved_margin` over
    all; `parameters` are 2 H d (d_qk + d_vo) + 2 m d.

    Arguments:
        contexts: how many were tried for each fact.
        leak: the largest share that noise can take of what a head reads, over heads and facts.
        length: the tokens of the longest sequences that the proof covers.
    """

    contexts: int
    leak: float
    length: int


def verify_factual_recall(
    model: FactualRecallTransformer, database: Database, *, length: int = LENGTH, contexts: int = 4, seed: int = 0
) -> FactualRecallCertificate:
    """Check every fact in some contexts with the model's own forward pass, and prove it for all contexts.

    Arguments:
        model: trained or constructed.
        database: functional, with as many keys, queries and values as the model.
        length: T, with T - 3 noise tokens.
        contexts: so many random ones are tried, and as many with one noise token throughout.
        seed: of the random ones.
    """
    require_factual_recall(model, database, length)
    require_sizes({"contexts": contexts})
    require_sizes({"seed": seed}, least=0)
    precision = precision_of(model)
    tried = noise_contexts(model, length - SHORTEST, contexts, seed)
    computed = _forward_margins(model, database, tried)
    proved, leak, obstacle = _proved(model, database, length - SHORTEST, precision)
    n_facts, recalled, n_open = len(database), int((computed > 0).sum()), int((~(proved > 0)).sum())
    reasons = [] if recalled == n_facts else [f"{n_facts - recalled:,} of {n_facts:,} facts are not recalled"]
    if obstacle:
        reasons.append(obstacle)
    elif n_open:
        cause = (
            f" (noise, and rounding of its scores, may take {leak:.2g} of what a head reads)"
            if leak > SATURATED
            else ""
        )
        reasons.append(f"the margins of {n_open:,} facts are not proved positive in every noise context{cause}")
    reasons += [text for text in [why_refuted(computed, proved, ARITHMETIC[precision])] if text]
    least = int(np.where(np.isnan(computed), -inf, computed).argmin())
    key, query, value = (int(code) for code in database.triples[least])
    return FactualRecallCertificate(
        certified=not reasons,
        facts=n_facts,
        recalled=recalled,
        contexts=len(tried),
        margin=float(computed[least]),
        proved_margin=float(proved.min()),
        worst=(database.keys[key], database.queries[query], database.values[value]),
        leak=leak,
        length=length,
        parameters=counted_parameters(model),
        bits=database.bits_by_query,
        precision=precision,
        reason="; ".join(reasons),
        weights=fingerprint_of(model),
        database=database.fingerprint,
    )


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


def _proved(
    model: FactualRecallTransformer, database: Database, n_noise: int, precision: Precision
) -> tuple[Float[np.ndarray, " facts"], float, str]:
    """The proved margin of each fact, the largest leak, and what keeps anything from being proved."""
    nothing = np.full(len(database), -inf)
    if type(model) is not FactualRecallTransformer:  # a subclass may compute something else
        return nothing, 1.0, f"no proof is known for a model of the class {type(model).__name__}"
    if model.linear:
        return nothing, 1.0, "no proof is known for linear attention, whose weights are not shares"
    parts = [np.asarray(getattr(model, name)).astype(np.float64) for name in PlainSequence._fields]
    if not all(np.isfinite(part).all() for part in parts):
        return nothing, 1.0, "some weights are infinite or not a number"
    pooling = Pooling(PlainSequence(*parts), model.layout, ARITHMETIC[precision], n_noise)
    keys, queries, values = database.triples.astype(np.int64).T
    tokens = np.column_stack([keys, model.layout.first_query + queries, np.full(len(keys), model.layout.end)])
    with np.errstate(all="ignore"):
        leaks = [pooling.pooled(head, tokens).leak.max() for head in range(len(parts[1]))]
    leak = float(np.minimum(np.nan_to_num(leaks, nan=1.0), 1.0).max())
    return FactualRecallProver(pooling).margins(keys, queries, values), leak, ""


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


def _forward_margins(
    model: FactualRecallTransformer, database: Database, contexts: Float[np.ndarray, "contexts tokens"]
) -> Float[np.ndarray, " facts"]:
    """The least margin of each fact over the contexts, in the model's own forward pass and precision."""
    layout, found = model.layout, np.full(len(database), inf)
    keys, queries, values = database.triples.T
    widest = max(layout.n_tokens, layout.n_outputs, model.w_in.shape[1])
    height = max(1, min(len(database), BLOCK_CELLS // widest))
    with jax.enable_x64(precision_of(model) == "float64"), jax.default_matmul_precision("highest"):
        placed = on_device(model)
        for start in range(0, len(database), height):
            # The last block is padded with its first rows, so that one shape is compiled.
            rows = np.resize(np.arange(start, min(start + height, len(database))), height)
            for context in contexts:
                counts = np.tile(context, (height, 1))
                every = np.arange(height)
                counts[every, keys[rows]] = counts[every, layout.first_query + queries[rows]] = 1.0
                counts[:, layout.end] = 1.0
                margin = np.asarray(_margins(placed, jnp.asarray(counts), jnp.asarray(values[rows, None])), np.float64)
                np.minimum.at(found, rows, np.where(np.isnan(margin), -inf, margin))
    return found


@eqx.filter_jit
def _margins(
    model: FactualRecallTransformer, counts: Float[Array, "n tokens"], fibers: Int[Array, "n 1"]
) -> Float[Array, " n"]:
    return margins(model.logits(counts), fibers)
