"""From tensors by role to a `PairModel`: split heads, add positions, select tokens, check every shape."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float

from factrank.bridges.pair_model import NormWeights, PairModel
from factrank.bridges.state_dicts import AnyTensor, Tensors
from factrank.bridges.tensor_roles import Wiring, require_axes
from factrank.bridges.token_ids import TokenIds, TokenTables
from factrank.errors import InputError

Norms = tuple[NormWeights, NormWeights] | None


def table_sizes(roles: Tensors, wiring: Wiring) -> TokenTables:
    """Return the number of embedding rows and outputs."""
    for role in ("token_embedding", "key_embedding", "query_embedding", "unembedding"):
        if role in roles:
            require_axes(role, roles[role], 2)
    outputs = roles["unembedding"].shape[0 if wiring.layout_of("unembedding") == "linear" else 1]
    shared = "token_embedding" in roles
    keys, queries = (roles["token_embedding" if shared else f"{side}_embedding"] for side in ("key", "query"))
    return TokenTables(len(keys), len(queries), outputs, shared)


def pair_model(roles: Tensors, wiring: Wiring, ids: TokenIds, norms: Norms = None) -> PairModel:
    """Return the model of the selected tokens.

    Raises:
        InputError: the shape of a tensor does not match the others.
    """
    shared = "token_embedding" in roles
    key_table, query_table = (roles["token_embedding" if shared else f"{side}_embedding"] for side in ("key", "query"))
    d_model, kind = key_table.shape[1], key_table.dtype
    positions = _positions(roles.get("position_embedding"), d_model, kind)
    n_heads = _n_heads(roles, wiring)
    projections = {letter: _projection(letter, roles, wiring, n_heads, d_model) for letter in ("q", "k", "v")}
    unembedding = roles["unembedding"].T if wiring.layout_of("unembedding") == "linear" else roles["unembedding"]
    w_o = _output(roles["o_weight"], wiring, n_heads, d_model)
    (w_q, b_q), (w_k, b_k), (w_v, b_v) = projections.values()
    expected = {
        "query_embedding": (query_table.shape[1], d_model),
        "unembedding": (unembedding.shape[0], d_model),
        "k_weight": (w_k.shape[2], w_q.shape[2]),
        "o_weight": (w_o.shape[1], w_v.shape[2]),
    }
    for role, (got, wanted) in expected.items():
        if got != wanted:
            raise InputError(f"the {role} must have width {wanted} to match the other tensors; got {got}")
    b_u = _bias("unembedding_bias", roles, unembedding.shape[1], kind)
    return PairModel(
        keys=key_table[ids.keys] + positions[0],
        queries=query_table[ids.queries] + positions[1],
        w_q=w_q,
        w_k=w_k,
        w_v=w_v,
        w_o=w_o,
        b_q=b_q,
        b_k=b_k,
        b_v=b_v,
        b_o=_bias("o_bias", roles, d_model, kind),
        unembedding=np.ascontiguousarray(unembedding[:, ids.values]),
        b_u=b_u[ids.values],
        scale=sqrt(w_q.shape[2]) if wiring.scale is None else float(wiring.scale),
        residual=wiring.residual,
        norms=norms,
    )


def _positions(table: AnyTensor | None, d_model: int, kind: np.dtype[Any]) -> Float[np.ndarray, "2 d_model"]:
    """Return the embeddings of the first two positions, zero if there are none; axes of length one are dropped."""
    if table is None:
        return np.zeros((2, d_model), kind)
    flat = table if table.ndim == 2 else table.reshape([size for size in table.shape if size > 1] or [1])
    if flat.ndim != 2 or len(flat) < 2 or flat.shape[1] != d_model:
        raise InputError(
            f"the position_embedding must be [at least 2 positions, {d_model}]; got shape {list(table.shape)}"
        )
    return np.asarray(flat[:2])


def _n_heads(roles: Tensors, wiring: Wiring) -> int:
    stacked = {
        len(roles[role]) for role in ("q_weight", "k_weight", "v_weight") if role in roles and roles[role].ndim == 3
    }
    if wiring.n_heads is not None:
        stacked.add(wiring.n_heads)
    if not stacked:
        raise InputError("a state dict does not record the number of heads: pass wiring=Wiring(n_heads=...)")
    if len(stacked) > 1:
        raise InputError(
            f"the numbers of heads differ: {', '.join(map(str, sorted(stacked)))}; heads must not be grouped"
        )
    return stacked.pop()


def _projection(
    letter: str, roles: Tensors, wiring: Wiring, n_heads: int, d_model: int
) -> tuple[Float[np.ndarray, "heads d_model d_head"], Float[np.ndarray, "heads d_head"]]:
    """Return W_Q, W_K or W_V with its bias, head by head."""
    fused = "qkv_weight" in roles
    role = "qkv_weight" if fused else f"{letter}_weight"
    weight = roles[role]
    require_axes(role, weight, *((2,) if fused else (2, 3)))
    if weight.ndim == 2:
        matrix = weight.T if wiring.layout_of(role) == "linear" else weight  # [in, out]
        if len(matrix) != d_model or matrix.shape[1] % (n_heads * (3 if fused else 1)):
            outs = f"3 x {n_heads} heads" if fused else f"{n_heads} heads"
            raise InputError(
                f"the {role} must map {d_model} dimensions to a multiple of {outs}; got shape {list(weight.shape)} in "
                f"layout '{wiring.layout_of(role)}'"
            )
        if fused:
            matrix = np.split(matrix, 3, axis=1)["qkv".index(letter)]
        weight = matrix.reshape(d_model, n_heads, -1).transpose(1, 0, 2)
    elif weight.shape[:2] != (n_heads, d_model):
        raise InputError(f"the {role} must be [{n_heads} heads, {d_model}, d_head]; got shape {list(weight.shape)}")
    d_head = weight.shape[2]
    if not d_head:
        raise InputError(f"the {role} is empty")
    bias_role, kind = ("qkv_bias" if fused else f"{letter}_bias"), weight.dtype
    if not fused and bias_role in roles and roles[bias_role].shape == (n_heads, d_head):
        return np.ascontiguousarray(weight), roles[bias_role]
    bias = _bias(bias_role, roles, n_heads * d_head * (3 if fused else 1), kind)
    if fused:
        bias = np.split(bias, 3)["qkv".index(letter)]
    return np.ascontiguousarray(weight), bias.reshape(n_heads, d_head)


def _output(weight: AnyTensor, wiring: Wiring, n_heads: int, d_model: int) -> Float[np.ndarray, "heads d_vo d_model"]:
    require_axes("o_weight", weight, 2, 3)
    if weight.ndim == 2:
        matrix = weight.T if wiring.layout_of("o_weight") == "linear" else weight
        if len(matrix) % n_heads or matrix.shape[1] != d_model:
            raise InputError(
                f"the o_weight must map {n_heads} heads to {d_model} dimensions; got shape {list(weight.shape)} in "
                f"layout '{wiring.layout_of('o_weight')}'"
            )
        weight = matrix.reshape(n_heads, -1, d_model)
    elif (len(weight), weight.shape[2]) != (n_heads, d_model):
        raise InputError(f"the o_weight must be [{n_heads} heads, d_head, {d_model}]; got shape {list(weight.shape)}")
    return np.ascontiguousarray(weight)


def _bias(role: str, roles: Tensors, size: int, kind: np.dtype[Any]) -> Float[np.ndarray, " n"]:
    """Return a bias, zero if the model has none."""
    bias = roles.get(role, np.zeros(size, kind))
    if bias.shape != (size,):
        raise InputError(f"the {role} must have shape [{size}] to match its weight; got shape {list(bias.shape)}")
    return bias
