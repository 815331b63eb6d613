"""Certificates of the factual recall task: that a one-layer transformer recalls every fact in every noise context.

Two parts that share no code. The model's own forward pass, in its own precision, answers every fact in some contexts:
random ones, and the noise tokens that attention suppresses least, each repeated. `sequence_proof` bounds the margins in
all contexts and all orders of evaluation, in float64. A model is certified when both find every fact recalled.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.constructions.arithmetic import ARITHMETIC
from factrank.constructions.construction import Precision
from factrank.constructions.proved_pooling import PlainSequence, Pooling
from factrank.constructions.sequence_proof import SequenceProver
from factrank.databases import Database
from factrank.errors import InputError
from factrank.models import to_arrays
from factrank.models.sequence_shape import SHORTEST
from factrank.models.sequence_transformer import SequenceTransformer
from factrank.models.weights import on_device
from factrank.readouts.margins import margins
from factrank.readouts.plain import finite_data

LENGTH = 32
"""Tokens of a sequence, unless said otherwise."""

BLOCK_CELLS = 2**22
"""Numbers in the largest array of a block of the forward pass."""

SATURATED = 1e-3
"""The share that noise may take of what a head reads up to which attention counts as saturated."""


@dataclass(frozen=True)
class SequenceCertificate:
    """What is known of a model's recall of a database from sequences with noise.

    It holds for the weights and the facts with these fingerprints, evaluated in the model's own precision without
    shortened products, for sequences of at most `length` tokens: one key, one query, noise tokens in any choice and
    with any repetitions, and the end token.

    Arguments:
        certified: every fact is recalled by the model's own forward pass in the contexts that were tried, and by every
            order of evaluation in every context.
        facts: number of facts, all of which were checked.
        recalled: facts that the forward pass gets right in all contexts that were tried; ties are wrong.
        contexts: how many were tried for each fact.
        margin: the least margin in the forward pass; infinite without competing outputs.
        proved_margin: what the margin is at least in every context; minus infinity where nothing was proved.
        worst: the fact with the least margin in the forward pass.
        leak: the largest share that noise can take of what a head reads, over heads and facts.
        length: the tokens of the longest sequences that the proof covers.
        parameters: what the paper counts, 2 H d (d_qk + d_vo) + 2 m d.
        bits: information in the facts, the sum over queries of n_q log2 |V_q|, which any model that holds them needs.
        precision: of the weights and of the forward pass.
        reason: why it is not certified; empty where it is.
        weights: SHA-256 of the weights.
        database: the fingerprint of the facts.
    """

    certified: bool
    facts: int
    recalled: int
    contexts: int
    margin: float
    proved_margin: float
    worst: tuple[str, str, str]
    leak: float
    length: int
    parameters: int
    bits: float
    precision: Precision
    reason: str
    weights: str
    database: str

    @property
    def recall(self) -> float:
        """The share of facts that the forward pass gets right in all contexts that were tried."""
        return self.recalled / self.facts

    @property
    def bits_per_parameter(self) -> float:
        """Bits of the facts that are recalled over the parameters that the paper counts."""
        return self.recall * self.bits / self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; infinite margins become null."""
        plain: dict[str, Any] = finite_data(asdict(self) | {"bits_per_parameter": self.bits_per_parameter})
        return plain


def verify_recall(
    model: SequenceTransformer, database: Database, *, length: int = LENGTH, contexts: int = 4, seed: int = 0
) -> SequenceCertificate:
    """Check every fact in some contexts with the model's own forward pass, and prove it for all contexts.

    Arguments:
        model: trained or constructed.
        database: functional, with as many keys, queries and values as the model.
        length: T, with T - 3 noise tokens.
        contexts: so many random ones are tried, and as many with one noise token throughout.
        seed: of the random ones.
    """
    require_recall(model, database, length)
    precision = sequence_precision(model)
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
    least = int(np.where(np.isnan(computed), -inf, computed).argmin())
    key, query, value = (int(code) for code in database.triples[least])
    return SequenceCertificate(
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
        weights=_fingerprint_of(model),
        database=database.fingerprint,
    )


def counted_parameters(model: SequenceTransformer) -> int:
    """The weights between the embeddings without biases, which is what the paper counts."""
    parts = (model.w_q, model.w_k, model.w_v, model.w_o, model.w_in, model.w_out)
    return sum(int(part.size) for part in parts)


def require_recall(model: SequenceTransformer, database: Database, length: int) -> None:
    """Raise an `InputError` where the facts are not a task for the model."""
    if not isinstance(model, SequenceTransformer):
        raise InputError(f"expected a SequenceTransformer; got {type(model).__name__}")
    if not len(database) or not database.functional:
        raise InputError(f"factual recall needs a functional database with some facts; got {database!r}")
    sizes = model.layout.n_keys, model.layout.n_queries, model.layout.n_values
    if sizes != database.shape:
        raise InputError(f"the model has {sizes} keys, queries and values, the database {database.shape}")
    if length < SHORTEST:
        raise InputError(f"a sequence has at least {SHORTEST} tokens; got length {length}")


def sequence_precision(model: SequenceTransformer) -> Precision:
    """The precision of the weights, one for all."""
    names = {leaf.dtype.name for leaf in jax.tree.leaves(model)}
    if len(names) != 1 or not names <= ARITHMETIC.keys():
        raise InputError(f"all weights must be of one precision among {', '.join(ARITHMETIC)}; got {sorted(names)}")
    return cast("Precision", names.pop())


def _fingerprint_of(model: SequenceTransformer) -> str:
    """SHA-256 of the names, types, sizes and bytes of all weights."""
    digest = hashlib.sha256(b"factrank weights 1")
    for name, part in sorted(to_arrays(model).items()):
        digest.update(f"{name} {part.dtype.name} {list(part.shape)}\n".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _proved(
    model: SequenceTransformer, database: Database, n_noise: int, precision: Precision
) -> tuple[Float[np.ndarray, " facts"], float, str]:
    """The proved margin of each fact, the largest leak, and what keeps anything from being proved."""
    nothing = np.full(len(database), -inf)
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
    return SequenceProver(pooling).margins(keys, queries, values), leak, ""


# -------------------------------------------------------------------- the forward pass


def noise_contexts(
    model: SequenceTransformer, n_noise: int, contexts: int, seed: int
) -> Float[np.ndarray, "contexts tokens"]:
    """Counts of noise: so many random contexts, and those of one token throughout that heads weigh most."""
    layout, rng = model.layout, np.random.default_rng(seed)
    embedding, w_q, w_k = (np.asarray(part).astype(np.float64) for part in (model.embedding, model.w_q, model.w_k))
    scores = np.einsum("he,hde->hd", embedding[layout.end] @ w_q, w_k) @ embedding.T * w_q.shape[2] ** -0.5
    # Scores that are not a number make their tokens neither first nor last; the proof has its own word on them.
    relative = np.nan_to_num(scores - scores.max(axis=1, keepdims=True))[:, layout.first_noise : layout.end].max(axis=0)
    heaviest = np.argsort(-relative, kind="stable")[:contexts]
    drawn = rng.integers(layout.n_noise, size=(contexts, n_noise))
    counts = np.zeros((contexts + len(heaviest), layout.n_tokens), np.float32)
    np.add.at(counts, (np.arange(contexts)[:, None], layout.first_noise + drawn), 1.0)
    counts[contexts + np.arange(len(heaviest)), layout.first_noise + heaviest] = n_noise
    return counts


def _forward_margins(
    model: SequenceTransformer, database: Database, contexts: Float[np.ndarray, "contexts tokens"]
) -> Float[np.ndarray, " facts"]:
    """The least margin of each fact over the contexts, in the model's own forward pass and precision."""
    layout, found = model.layout, np.full(len(database), inf)
    keys, queries, values = database.triples.T
    widest = max(layout.n_tokens, layout.n_outputs, model.w_in.shape[1])
    height = max(1, min(len(database), BLOCK_CELLS // widest))
    with jax.enable_x64(sequence_precision(model) == "float64"), jax.default_matmul_precision("highest"):
        placed = on_device(model)
        for start in range(0, len(database), height):
            # The last block is filled up with its first rows, so that one shape is compiled.
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
    model: SequenceTransformer, counts: Float[Array, "n tokens"], fibers: Int[Array, "n 1"]
) -> Float[Array, " n"]:
    return margins(model.logits(counts), fibers)
