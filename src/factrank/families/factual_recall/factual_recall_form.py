r"""The factual recall task in closed form: one-layer transformers over fixed random embeddings that hold all facts.

After Nichani, Lee and Bietti 2025 (arXiv 2412.06538), section 4, whose theorems say that value parameters
$H d\, d_{vo}$ or MLP parameters $m d$ in proportion to the number of facts, up to logarithms, are enough. Embeddings
and unembeddings are drawn, and the rest is computed from them:

*Attention.* Heads read the key and the query and no noise, along directions that `separation` finds. Either all of
them read both at once (`together`: one hyperplane, scores within own tokens nearly equal, so that both have shares that
matter), or some read keys and the others queries (`apart`: needs two heads, and a smaller d). Scores are scaled until
the T - 3 noise tokens together weigh no more than $e^{-20}$ of a token that is read.

*Attention only.* The value circuits store the facts (`value_circuits`): keys vote for their answers, queries for their
ranges.

*Attention and MLP.* Heads copy: $z = \kappa\,(e_k + e_q) P$ with P of rank H d_vo (or half of it, `apart`) and
orthonormal columns, as in the paper. The first layer is drawn, divided by $\kappa$, and the second layer is an
associative memory on $\mathrm{relu}(z W_{in})$; $\kappa = 2^{-8}$ makes z itself, which is added to what the MLP says,
too small to matter.

The paper uses outer products; the logistic optimum holds far more facts in the same weights (`certified_sizes`).
Whether the facts are held is for the certificate to say: in every noise context, for every order of evaluation.
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
from factrank.families.factual_recall.factual_recall_certificate import (
    SequenceProver,
    require_factual_recall,
)
from factrank.families.factual_recall.factual_recall_shape import SHORTEST, FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import (
    HALF_RANGE,
    FactualRecallTransformer,
    draw_sequence_model,
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
"""Whether every head reads key and query at once, or one of the two."""

QUIET = 20.0
"""The noise of a whole sequence weighs at most e to the minus this of a token that is read."""

WIDEST = 2 * HALF_RANGE - 10
"""From the largest score to that of noise: less than the 150 below which the model cuts weights off."""

MOST_UNEVEN = 2.0
"""How far scores of tokens that are read together may lie apart."""

MOST_UNSURE = 1e-3
"""How far rounding may move such scores; near the limit of separation directions are long, and it moves them more."""

COPIED = 2.0**-8
"""Kappa, the size of what heads copy for an MLP."""

Rows = Float[np.ndarray, "rows d_model"]


class Head(NamedTuple):
    """What a group of heads reads: a direction, scaled, and how many heads read along it."""

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
    """A transformer of this shape whose embeddings follow from the seed and whose other weights follow from the facts.

    The facts are in the value circuits where the shape has no MLP, else in its second layer. Where no hyperplane
    separates the tokens (see `separation` for the d_model that needs) an `InputError` says so; whether the facts are
    held otherwise is in the certificate. Heads read together where they can, unless `reading` says how.

    >>> from factrank.databases.generators import answer_sets
    >>> facts = answer_sets(3, 2, 2, seed=0)
    >>> found = construct_factual_recall(facts, FactualRecallShape(d_model=16, n_heads=1, d_qk=1, d_vo=4))
    >>> found.certified, found["reading"], found.certificate["contexts"]
    (True, 'together', 8)
    """
    _require_shape(shape, form, reading)
    drawn = draw_sequence_model(shape, database.shape, rng=np.random.default_rng(seed), dtype="float64")
    if not isinstance(drawn, FactualRecallTransformer):
        raise InputError(f"expected a FactualRecallShape; got {type(shape).__name__}")
    require_factual_recall(drawn, database, shape.length)
    dtype = dtype_of(precision)
    # What is stored has to suit the embeddings as they will be: rounded.
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
        raise InputError("constructions are for softmax attention and facts alone: no linear attention, no copying")
    if form not in get_args(MatrixForm):
        raise InputError(f"form must be one of {', '.join(get_args(MatrixForm))}; got {form!r}")
    if reading is not None and reading not in get_args(HeadReading):
        raise InputError(f"reading must be one of {', '.join(get_args(HeadReading))}, or None; got {reading!r}")
    if reading == "apart" and shape.n_heads < 2:
        raise InputError("to read keys and queries apart takes two heads at least; got n_heads = 1")


# -------------------------------------------------------------------- attention


def _attention(
    model: FactualRecallTransformer, shape: FactualRecallShape, reading: HeadReading | None, arithmetic: Arithmetic
) -> tuple[HeadReading, list[Head]]:
    """How heads read, and along which directions: one group of heads, or one for keys and one for queries."""
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
    """What scores are multiplied by, so that noise is quiet, as far as the model's range of weights allows."""
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
    """W_Q and W_K: the end token asks 1, in the first of the d_qk coordinates, and keys answer their scores."""
    end = np.asarray(model.embedding)[model.layout.end]
    w_q, w_k = np.zeros(model.w_q.shape), np.zeros(model.w_k.shape)
    w_q[:, :, 0] = end / (end @ end)
    w_k[:, :, 0] = np.repeat([head.direction for head in heads], [head.heads for head in heads], axis=0)
    return {"w_q": w_q * shape.d_qk**0.5, "w_k": w_k}


def _read(model: FactualRecallTransformer, database: Database, heads: list[Head]) -> list[Rows]:
    """What each group of heads reads of every fact, without noise."""
    tokens = np.asarray(model.embedding)
    keys, queries, _ = database.triples.astype(np.int64).T
    own = np.column_stack([keys, model.layout.first_query + queries, np.full(len(keys), model.layout.end)])
    read = []
    for head in heads:
        scores = (tokens @ head.direction)[own]
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        read.append(np.asarray(np.einsum("nt,ntd->nd", shares, tokens[own])))
    return read


# -------------------------------------------------------------------- where the facts are


def _stored_in_values(
    model: FactualRecallTransformer, database: Database, heads: list[Head], shape: FactualRecallShape, form: MatrixForm
) -> dict[str, Any]:
    """W_V and W_O that hold the facts."""
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
    """W_V and W_O that copy, and the second layer that holds the facts."""
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
    """The circuits of groups, cut into heads of d_vo columns."""
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
