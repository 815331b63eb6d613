r"""Factual recall in closed form: one-layer transformers with fixed random embeddings that store all facts.

Based on section 4 of Nichani, Lee and Bietti 2025 (arXiv 2412.06538), whose theorems show that value parameters
$H d\, d_{vo}$ or MLP parameters $m d$ proportional to the number of facts suffice, up to logarithms. Embeddings and
unembeddings are random, and the other weights are computed from them:

*Attention.* Heads read the key and the query but no noise, along directions found by `separation`. Either all heads
read both (`together`: one hyperplane, with nearly equal scores for the tokens read, so both get substantial weight), or
some read keys and the others queries (`apart`: requires two heads and a smaller d). Scores are scaled until all T - 3
noise tokens together have at most $e^{-20}$ times the weight of a token that is read.

*Attention only.* The value circuits store the facts (`value_circuits`): keys vote for their answers, and queries for
their ranges.

*Attention and MLP.* Heads copy: $z = \kappa\,(e_k + e_q) P$, where P has rank H d_vo (half of it if `apart`) and
orthonormal columns, as in the paper. The first layer is random, divided by $\kappa$, and the second is an associative
memory on $\mathrm{relu}(z W_{in})$. With $\kappa = 2^{-8}$, z itself is negligible when added to the output of the MLP.

The paper uses outer products; the logistic optimum stores many more facts in the same weights (`certified_sizes`). The
certificate decides whether all facts are stored, in every noise context and for every evaluation order.
"""

from __future__ import annotations

from math import log
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Float

from factrank.certificates import ARITHMETIC, Arithmetic, certify
from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import Constructed
from factrank.families.factual_recall.factual_recall_shape import SHORTEST, FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import (
    HALF_RANGE,
    FactualRecallTransformer,
    draw_factual_recall,
)
from factrank.families.factual_recall.proof import (
    SequenceProver,
    require_factual_recall,
)
from factrank.families.factual_recall.separation import Separation, separate
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout
from factrank.families.factual_recall.value_circuits import (
    TARGET,
    Circuit,
    cut_to_rank,
    fit_circuits,
    vote_circuit,
    votes_of,
)
from factrank.nn import MatrixForm, Precision, closed_form, dtype_of, logistic

HeadReading = Literal["together", "apart"]
"""Whether every head reads both key and query ("together"), or only one of them ("apart")."""

QUIET = 20.0
"""The weight of all noise in a sequence is at most e^-20 times the weight of a token that is read."""

WIDEST = 2 * HALF_RANGE - 10
"""Largest difference between the scores of read tokens and noise, below the 150 at which the model clips weights."""

MOST_UNEVEN = 2.0
"""Largest difference between the scores of tokens that are read together."""

MOST_UNSURE = 1e-3
"""Largest rounding error of such scores; it is larger near the limit of separation, where directions are long."""

COPIED = 2.0**-8
"""The factor kappa of vectors that heads copy for an MLP."""

Rows = Float[np.ndarray, "rows d_model"]


class Head(NamedTuple):
    """A group of heads that read along the same scaled direction."""

    direction: Float[np.ndarray, " d_model"]
    heads: int


def construct_factual_recall(
    database: Database,
    shape: FactualRecallShape,
    *,
    seed: int = 0,
    form: MatrixForm = "logistic",
    reading: HeadReading | None = None,
    precision: Precision = "float32",
) -> Constructed:
    """Construct a transformer from facts, and certify it.

    The facts are stored in the value circuits or, if the shape has an MLP, in its second layer. The certificate
    shows whether all of them are stored.

    Arguments:
        database: A functional database.
        shape: Sizes of the transformer.
        seed: Seed of the embeddings.
        form: Closed form of the matrix that stores the facts.
        reading: Whether heads read key and query "together" or "apart"; by default together if possible.
        precision: Precision of the weights and of the certified evaluation.

    Raises:
        InputError: no hyperplane separates the tokens; `separation` explains how large d_model must be.

    >>> from factrank.databases.generators import answer_sets
    >>> facts = answer_sets(3, 2, 2, seed=0)
    >>> found = construct_factual_recall(facts, FactualRecallShape(d_model=16, n_heads=1, d_qk=1, d_vo=4))
    >>> found.certified, found["reading"], found.certificate["contexts"]
    (True, 'together', 8)
    """
    _require_shape(shape, form, reading)
    drawn = draw_factual_recall(shape, database.shape, rng=np.random.default_rng(seed), dtype="float64")
    if not isinstance(drawn, FactualRecallTransformer):
        raise InputError(f"expected a FactualRecallShape; got {type(shape).__name__}")
    require_factual_recall(drawn, database, shape.length)
    dtype = dtype_of(precision)
    # The matrix is computed for the rounded embeddings.
    drawn = _replaced(
        drawn, {name: _rounded(getattr(drawn, name), dtype) for name in ("embedding", "unembedding", "w_in")}
    )
    way, heads = _attention(drawn, shape, reading, ARITHMETIC[precision])
    attending = _replaced(drawn, _query_key(drawn, heads, shape))
    store = _stored_in_mlp if shape.mlp_width else _stored_in_values
    parts = store(attending, database, heads, shape, form)
    model = _cast(_replaced(attending, parts), dtype)
    certificate = certify(SequenceProver(model, database, length=shape.length, seed=seed))
    return Constructed(
        model=model, data=database, spec=shape, form=form, certificate=certificate, details={"reading": way}
    )


def _require_shape(shape: FactualRecallShape, form: str, reading: str | None) -> None:
    if shape.linear or shape.copy_groups:
        raise InputError("constructions require softmax attention (linear=False) and no copying (copy_groups=0)")
    if form not in get_args(MatrixForm):
        raise InputError(f"form must be one of {', '.join(get_args(MatrixForm))}; got {form!r}")
    if reading is not None and reading not in get_args(HeadReading):
        raise InputError(f"reading must be one of {', '.join(get_args(HeadReading))}, or None; got {reading!r}")
    if reading == "apart" and shape.n_heads < 2:
        raise InputError("reading keys and queries apart requires at least two heads; got n_heads = 1")


# -------------------------------------------------------------------- attention


def _attention(
    model: FactualRecallTransformer, shape: FactualRecallShape, reading: HeadReading | None, arithmetic: Arithmetic
) -> tuple[HeadReading, list[Head]]:
    """Return how heads read and their directions: one group of heads, or one for keys and one for queries."""
    tokens, layout = np.asarray(model.embedding), model.layout
    both = None if reading == "apart" else separate(tokens[: layout.first_noise], tokens[layout.first_noise :])
    if both is not None:
        scale = _scale(both, shape.length)
        roundings = np.full(1, 2.0 * shape.d_model + shape.d_qk)
        unsure = scale * float((np.abs(tokens) @ np.abs(both.direction)).max() * arithmetic.gamma(roundings)[0])
        sure = unsure <= MOST_UNSURE or shape.n_heads == 1
        if reading == "together" or (scale * both.spread <= MOST_UNEVEN and sure):
            return "together", [Head(scale * both.direction, shape.n_heads)]
    if reading != "together" and shape.n_heads > 1:
        keys, queries = np.arange(layout.n_keys), np.arange(layout.first_query, layout.first_noise)
        found = [separate(tokens[own], np.delete(tokens, own, axis=0)) for own in (keys, queries)]
        counts = shape.n_heads - shape.n_heads // 2, shape.n_heads // 2
        heads = [
            Head(_scale(each, shape.length) * each.direction, count)
            for each, count in zip(found, counts, strict=True)
            if each is not None
        ]
        if len(heads) == 2:
            return "apart", heads
    raise InputError(_no_hyperplane(layout, shape, reading))


def _scale(found: Separation, length: int) -> float:
    """Return the factor of the scores that suppresses noise, within the model's range of weights."""
    wanted = (QUIET + log(max(length - SHORTEST, 1))) / found.gap
    return min(wanted, WIDEST / (found.gap + found.spread))


def _no_hyperplane(layout: FactualRecallLayout, shape: FactualRecallShape, reading: HeadReading | None) -> str:
    enough = layout.n_tokens - 1
    evenly = (
        "" if reading == "apart" or shape.n_heads > 1 else " with nearly equal scores for those; two heads need less"
    )
    return (
        f"no hyperplane of the {shape.d_model}-dimensional embeddings separates keys and queries from noise{evenly}: "
        f"{layout.n_tokens} tokens need d_model of about {layout.n_tokens // 2}, and {enough} is always enough"
    )


def _query_key(model: FactualRecallTransformer, heads: list[Head], shape: FactualRecallShape) -> dict[str, Any]:
    """Return W_Q and W_K: the query of the end token is 1 in the first coordinate, and the keys are the scores."""
    end = np.asarray(model.embedding)[model.layout.end]
    w_q, w_k = np.zeros(model.w_q.shape), np.zeros(model.w_k.shape)
    w_q[:, :, 0] = end / (end @ end)
    w_k[:, :, 0] = np.repeat([head.direction for head in heads], [head.heads for head in heads], axis=0)
    return {"w_q": w_q * shape.d_qk**0.5, "w_k": w_k}


def _read(model: FactualRecallTransformer, database: Database, heads: list[Head]) -> list[Rows]:
    """Return the vector that each group of heads reads for every fact, without noise."""
    tokens = np.asarray(model.embedding)
    keys, queries, _ = database.triples.astype(np.int64).T
    own = np.column_stack([keys, model.layout.first_query + queries, np.full(len(keys), model.layout.end)])
    read = []
    for head in heads:
        scores = (tokens @ head.direction)[own]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        read.append(np.asarray(np.einsum("nt,ntd->nd", weights, tokens[own])))
    return read


# -------------------------------------------------------------------- storing the facts


def _stored_in_values(
    model: FactualRecallTransformer, database: Database, heads: list[Head], shape: FactualRecallShape, form: MatrixForm
) -> dict[str, Any]:
    """Return W_V and W_O that store the facts."""
    outputs, ranks = np.asarray(model.unembedding).T, [head.heads * shape.d_vo for head in heads]
    tokens, layout = np.asarray(model.embedding), model.layout
    sides = [tokens[: layout.n_keys], tokens[layout.first_query : layout.first_noise]]
    ballots = list(votes_of(database))
    if len(heads) == 1:
        sides, ballots = [np.vstack(sides)], [np.vstack(ballots)]
    votes = [vote_circuit(side, ballot, outputs, form) for side, ballot in zip(sides, ballots, strict=True)]
    if form == "logistic":
        values = database.triples[:, 2].astype(np.int64)
        circuits = fit_circuits(_read(model, database, heads), ranks, outputs, values, votes)
    else:
        circuits = cut_to_rank(votes, ranks)
    return _value_output(circuits, shape)


def _stored_in_mlp(
    model: FactualRecallTransformer, database: Database, heads: list[Head], shape: FactualRecallShape, form: MatrixForm
) -> dict[str, Any]:
    """Return W_V and W_O that copy, and a second layer that stores the facts."""
    rng = np.random.default_rng(database.shape)
    circuits = []
    for head in heads:
        rank = head.heads * shape.d_vo
        kept = min(rank, shape.d_model)
        basis = np.linalg.qr(rng.standard_normal((shape.d_model, shape.d_model)))[0][:, :kept]
        fill = ((0, 0), (0, rank - kept))
        circuits.append(Circuit(np.pad(basis, fill), COPIED * np.pad(basis, fill).T))
    copied = sum(z @ a @ b for z, (a, b) in zip(_read(model, database, heads), circuits, strict=True))
    first = np.asarray(model.w_in) / COPIED
    features = np.maximum(copied @ first, 0.0)
    outputs, values = np.asarray(model.unembedding).T, database.triples[:, 2].astype(np.int64)
    if form == "logistic":
        second = logistic(features, outputs, values, margin=TARGET, centred=True).matrix
    else:
        second = closed_form(form, features, outputs, values, centred=True)
    return _value_output(circuits, shape) | {"w_in": first, "b_in": np.zeros(shape.mlp_width), "w_out": second}


def _value_output(circuits: list[Circuit], shape: FactualRecallShape) -> dict[str, Any]:
    """Split the circuits of groups into heads of d_vo columns."""
    inward = np.hstack([circuit.inward for circuit in circuits])
    outward = np.vstack([circuit.outward for circuit in circuits])
    size = shape.n_heads, shape.d_vo, shape.d_model
    return {"w_v": inward.T.reshape(size).transpose(0, 2, 1), "w_o": outward.reshape(size)}


# -------------------------------------------------------------------- weights


def _rounded(part: Any, dtype: np.dtype[Any]) -> Any:
    return np.asarray(part).astype(dtype).astype(np.float64)


def _replaced(model: FactualRecallTransformer, parts: dict[str, Any]) -> FactualRecallTransformer:
    names = list(parts)
    changed: FactualRecallTransformer = eqx.tree_at(
        lambda tree: [getattr(tree, name) for name in names], model, [parts[name] for name in names]
    )
    return changed


def _cast(model: FactualRecallTransformer, dtype: np.dtype[Any]) -> FactualRecallTransformer:
    names = "embedding", "w_q", "w_k", "w_v", "w_o", "w_in", "b_in", "w_out", "unembedding"
    return _replaced(model, {name: np.ascontiguousarray(getattr(model, name)).astype(dtype) for name in names})
