"""Self-checks of a bridge: module, definition and layer compute the same logits.

Both are evaluated in float64 on every pair, or on evenly spaced pairs if there are many. Differences are relative to
the largest sum of absolute terms. The definition has the weights of the module in float64, so nothing but the last
digits of float32 may differ. The layer has the precision of the weights, and folding rounds a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite, sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from factrank.bridges.pair_model import Codes, PairModel
from factrank.errors import InputError
from factrank.families.attention import AnyLayer
from factrank.nn import to_arrays

SAME = 2e-7
"""Largest relative difference of a definition and a module that both compute in float64; logits may be float32."""

TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 0.05}
"""Largest difference of logits by the precision of the weights, relative to the largest sum of absolute terms."""

MOST_WORK = 2 * 10**9
"""Products that a self-check may compute; larger models are checked on fewer pairs."""

BLOCK = 1024
"""Pairs that are evaluated at once."""

PairLogits = Callable[[Codes, Codes], Float[np.ndarray, "n values"]]


def require_defined(layer: AnyLayer, model: PairModel) -> None:
    """Raise an `InputError` if folding changed the logits of a model by more than rounding explains."""
    evaluate = _transformer_logits if model.norms else layer_logits
    tolerance = TOLERANCE[model.keys.dtype.name]
    require_same_logits(partial(evaluate, layer), model.logits, model, tolerance, "its definition in NumPy")


def require_same_logits(
    mine: PairLogits, logits: PairLogits, model: PairModel, tolerance: float, whose: str, hint: str = ""
) -> None:
    """Raise an `InputError` if two forward passes differ by more than a tolerance.

    Arguments:
        mine: the imported forward pass.
        logits: the original forward pass.
        model: what was imported, for the sizes and the magnitude of the logits.
        tolerance: largest difference, relative to the largest sum of absolute terms.
        whose: the name of the original in the message.
        hint: what to do if they differ.
    """
    precision = model.keys.dtype.name
    allowed, largest, n_pairs = tolerance * _magnitude(model), 0.0, 0
    if not isfinite(allowed):
        raise InputError("the weights are so large that logits overflow")
    for keys, queries in _checked_pairs(model):
        with np.errstate(all="ignore"):  # an overflow shows as a difference
            ours, theirs = mine(keys, queries), logits(keys, queries)
        if ours.shape != theirs.shape:
            raise InputError(f"{whose} returns logits of shape {list(theirs.shape)}; expected {list(ours.shape)}")
        # NaN differs from everything.
        with np.errstate(invalid="ignore"):
            largest = max(largest, float(np.nan_to_num(np.abs(ours - theirs), nan=np.inf).max()))
        n_pairs += len(keys)
    if largest > allowed:
        raise InputError(
            f"the imported layer and {whose} differ: by {largest:.3g} on {n_pairs:,} (key, query) pairs, where "
            f"rounding explains {allowed:.3g} in {precision}{hint and f'. {hint}'}"
        )


def layer_logits(layer: AnyLayer, keys: Codes, queries: Codes) -> Float[np.ndarray, "n values"]:
    """Return the logits of an `AttentionLayer` in float64, by the formula of docs/layers.md in NumPy."""
    parts = {name: part.astype(np.float64) for name, part in to_arrays(layer).items()}
    x_k, x_q = parts["embedding"][: layer.n_keys], parts["embedding"][layer.n_keys :]
    at_query = np.einsum("td,hde->the", x_q, parts["w_q"]) / sqrt(parts["w_q"].shape[2])
    on_key = np.einsum("nhe,nhe->nh", at_query[queries], np.einsum("td,hde->the", x_k, parts["w_k"])[keys])
    on_query = np.einsum("the,the->th", at_query, np.einsum("td,hde->the", x_q, parts["w_k"]))[queries]
    weight = 0.5 * (1 + np.tanh((on_key - on_query) / 2))[..., None]  # a logistic function without overflow
    from_key, from_query = (np.einsum("td,hde->the", x, parts["w_v"]) for x in (x_k, x_q))
    mixed = weight * from_key[keys] + (1 - weight) * from_query[queries]
    return np.asarray((x_q[queries] + np.einsum("nhe,hed->nd", mixed, parts["w_o"])) @ parts["unembedding"])


def _transformer_logits(layer: AnyLayer, keys: Codes, queries: Codes) -> Float[np.ndarray, "n values"]:
    """Return the logits of a `PairTransformer` in float64, by its own forward pass."""
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda part: part.astype("float64") if part.dtype.kind != "i" else part, layer)
        return np.asarray(wide.logits(jnp.asarray(keys), jnp.asarray(queries)))


def _checked_pairs(model: PairModel) -> Iterator[tuple[Codes, Codes]]:
    n_keys, n_queries, n_values = model.sizes
    heads, width, d_head = model.w_q.shape
    most = max(BLOCK, MOST_WORK // (width * (8 * heads * d_head + n_values)))
    n_pairs = n_keys * n_queries
    numbers = np.unique(np.linspace(0, n_pairs - 1, min(n_pairs, most)).astype(np.int64))
    for first in range(0, len(numbers), BLOCK):
        yield np.divmod(numbers[first : first + BLOCK], n_queries)


@np.errstate(all="ignore")
def _magnitude(model: PairModel) -> float:
    """Return the largest sum of the absolute terms of a logit; not finite if it overflows."""
    absolute = {name: np.abs(np.asarray(getattr(model, name), np.float64)) for name in ("w_v", "w_o", "b_v", "b_o")}
    if model.norms:
        # A normalised vector has entries of at most sqrt(d_model).
        scale, bias = (np.abs(part.astype(np.float64)) for part in model.norms[1])
        return float(((sqrt(len(scale)) * scale + bias) @ np.abs(model.unembedding.astype(np.float64))).max())
    tokens = np.abs(np.concatenate([model.keys, model.queries]).astype(np.float64))
    read = np.einsum("td,hde->the", tokens, absolute["w_v"]) + absolute["b_v"]
    written = np.einsum("he,hed->d", read.max(axis=0), absolute["w_o"]) + absolute["b_o"]
    stream = written + (tokens.max(axis=0) if model.residual else 0)
    logits = stream @ np.abs(model.unembedding.astype(np.float64)) + np.abs(model.b_u.astype(np.float64))
    return float(logits.max())
