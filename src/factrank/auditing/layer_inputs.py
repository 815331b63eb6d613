"""What enters attention, and its queries, keys and values with the divisions that the factors leave out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from factrank.checkpoints.heads import AttentionFactors, AttentionModel
from factrank.errors import InputError

LATENT_EPSILON = 1e-6
Rows = Float[np.ndarray, "tokens width"]


def epsilon(model: AttentionModel) -> float:
    """Return the epsilon of the model's norms; by default that of its kind in `transformers`."""
    entries, names = model.settings.entries, ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon")
    given = next((name for name in names if entries.get(name) is not None), None)
    value = entries[given] if given else 1e-5 if model.layout.norm_kind == "layer" else 1e-6
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise InputError(f"{model.settings.place}: expected {given} to be a small number; got {str(value)[:40]!r}")
    return float(value)


def divided(rows: Rows, model: AttentionModel) -> Rows:
    """Normalise rows before gain and shift."""
    centred = rows - rows.mean(axis=-1, keepdims=True) if model.layout.norm_kind == "layer" else rows
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon(model)))


def normalised_input(model: AttentionModel, layer: int, rows: Rows) -> Rows:
    """Return the output of the norm before attention, with gain and shift."""
    norm = model.input_norm(layer)
    if norm is None:
        return rows
    return np.asarray(divided(rows, model) * norm.gain.values + (0 if norm.bias is None else norm.bias.rows()))


def of_unit_size(
    rows: Float[np.ndarray, "*heads tokens d"], gain: Float[np.ndarray, " d"], epsilon: float
) -> Float[np.ndarray, "*heads tokens d"]:
    """Divide rows by their root mean square, and multiply by the gain."""
    return np.asarray(rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + epsilon) * gain)


def divided_heads(
    model: AttentionModel, factors: AttentionFactors, inputs: Rows
) -> tuple[Float[np.ndarray, "heads n d"], Float[np.ndarray, "kv_heads n d"], Float[np.ndarray, "kv_heads n d_vo"]]:
    """Return queries, keys and values of normalised inputs, with the norms of heads and of latent vectors.

    Arguments:
        model: Checkpoint.
        factors: Factors of the layer, without the norm before attention and with the gains of heads.
        inputs: Output of the norm before attention.
    """
    rows = np.column_stack([inputs, np.ones(len(inputs))]) if factors.has_bias else inputs
    query, key, value = (rows @ part.values for part in (factors.query, factors.key, factors.value))
    if model.layout.head_norms is not None:  # lengths are those before the gains, which may be 0
        plain, small = model.layer(factors.layer, head_gains=False), epsilon(model)
        query, key = query / _size(rows @ plain.query.values, small), key / _size(rows @ plain.key.values, small)
    if model.layout.latent:
        by_query, by_key = _latent_sizes(model, factors.layer, inputs)
        nope = model.settings.size("qk_nope_head_dim")
        query = query / by_query
        key = np.concatenate([key[..., :nope] / by_key, key[..., nope:]], axis=-1)
        value = value / by_key
    return query, key, value


def _size(rows: Float[np.ndarray, "*heads tokens d"], epsilon: float) -> Float[np.ndarray, "*heads tokens 1"]:
    """Return the root mean square of rows."""
    return np.asarray(np.sqrt((rows**2).mean(axis=-1, keepdims=True) + epsilon))


def _latent_sizes(
    model: AttentionModel, layer: int, inputs: Rows
) -> tuple[Float[np.ndarray, "#tokens 1"], Float[np.ndarray, "tokens 1"]]:
    """Return the root mean squares of the latent vectors of queries (1 if they have none) and of keys and values."""

    def latent(name: str) -> Float[np.ndarray, "tokens latent"]:
        stem = model.layout.layer.format(layer) + name
        bias = model.optional(f"{stem}.bias")
        return np.asarray(inputs @ model.tensor(f"{stem}.weight").rows().T + (0 if bias is None else bias.rows()))

    keys = latent("self_attn.kv_a_proj_with_mqa")[:, : model.settings.size("kv_lora_rank")]
    by_key = _size(keys, LATENT_EPSILON)
    if model.settings.whole("q_lora_rank", None) is None:
        return np.ones((1, 1)), by_key
    return _size(latent("self_attn.q_a_proj"), LATENT_EPSILON), by_key


def soft_cap(model: AttentionModel) -> float | None:
    """Return the soft cap of the scores; None if there is none."""
    cap = model.settings.entries.get("attn_logit_softcapping")
    return float(cap) if isinstance(cap, int | float) and cap > 0 else None
