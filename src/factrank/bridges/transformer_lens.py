"""`from_transformer_lens`: a one-layer attention-only model of TransformerLens as a layer.

`HookedTransformer` (3.x) stores W_Q as [heads, d_model, d_head] and so on; `TransformerBridge` (4.x), created with
`boot_native`, stores `nn.Linear` weights. Both are recognised by their names. TransformerLens is never imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from factrank.bridges.lens_settings import require_supported, score_scale, settings_of
from factrank.bridges.pair_model import NormWeights
from factrank.bridges.pytorch import imported
from factrank.bridges.state_dicts import Tensors, is_module, require_weights, state_dict_of, to_array
from factrank.bridges.tensor_roles import Wiring, foreign_parts, weights_by_role
from factrank.bridges.token_ids import Tokens
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention import AnyLayer
from factrank.foreign_text import few

HOOKED = {
    "token_embedding": "embed.W_E",
    "position_embedding": "pos_embed.W_pos",
    **{f"{letter}_weight": f"blocks.0.attn.W_{letter.upper()}" for letter in "qkvo"},
    **{f"{letter}_bias": f"blocks.0.attn.b_{letter.upper()}" for letter in "qkvo"},
    "unembedding": "unembed.W_U",
    "unembedding_bias": "unembed.b_U",
}
"""Tensors of a `HookedTransformer`."""

BRIDGE = {
    "token_embedding": "embed.weight",
    "position_embedding": "pos_embed.weight",
    **{f"{letter}_weight": f"blocks.0.attn.{letter}.weight" for letter in "qkvo"},
    **{f"{letter}_bias": f"blocks.0.attn.{letter}.bias" for letter in "qkvo"},
    "unembedding": "unembed.weight",
    "unembedding_bias": "unembed.bias",
}
"""Tensors of a `TransformerBridge`."""

BUFFERS = ("blocks.0.attn.mask", "blocks.0.attn.IGNORE")
"""Causal mask and minus infinity: the last position attends to both tokens anyway."""

NORMS = {
    True: (("blocks.0.ln1.w", "blocks.0.ln1.b"), ("ln_final.w", "ln_final.b")),
    False: (("blocks.0.ln1.weight", "blocks.0.ln1.bias"), ("ln_final.weight", "ln_final.bias")),
}
"""Scale and bias of the norms, for a `HookedTransformer` or not."""


def from_transformer_lens(
    given: Any,
    database: Database | None = None,
    *,
    config: Any = None,
    tokens: Tokens = None,
    other_outputs: str = "refuse",
) -> AnyLayer:
    """Convert a one-layer attention-only TransformerLens model to a layer with the same logits.

    The model reads the tokens [key, query], without a beginning-of-sequence token, and answers at the last position.
    Positions and biases are folded as in `from_torch`. A model with layer norms (`LN`, `LNPre`) becomes a
    `PairTransformer` if all its biases are zero, and is refused otherwise; other norms, rotary positions, several
    layers and MLPs are refused. The imported layer is compared with the model's own forward pass, or, for a state dict,
    with an independent forward pass in NumPy.

    Arguments:
        given: a `HookedTransformer`, a `TransformerBridge`, or the state dict of either.
        database: the facts, whose vocabularies define the codes of the layer.
        config: the configuration (`model.cfg`, or `model.cfg.to_dict()`), required with a state dict.
        tokens: as in `from_torch`.
        other_outputs: as in `from_torch`.

    Returns:
        An `AttentionLayer`, or a `PairTransformer` if the model has layer norms.

    Raises:
        InputError: the model cannot be represented, a tensor is missing, unknown, of the wrong shape or not finite, a
            name has no token, or the logits differ.

    >>> import numpy as np
    >>> import factrank
    >>> facts = factrank.Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> rng = np.random.default_rng(0)
    >>> shapes = {"embed.W_E": (3, 4), "pos_embed.W_pos": (2, 4), "unembed.W_U": (4, 2), "unembed.b_U": (2,)}
    >>> attention = {"W_Q": (2, 4, 3), "W_K": (2, 4, 3), "W_V": (2, 4, 3), "W_O": (2, 3, 4),
    ...     "b_Q": (2, 3), "b_K": (2, 3), "b_V": (2, 3), "b_O": (4,)}
    >>> shapes |= {f"blocks.0.attn.{name}": shape for name, shape in attention.items()}
    >>> state = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    >>> config = {"n_layers": 1, "attn_only": True, "normalization_type": None, "n_heads": 2, "d_head": 3}
    >>> factrank.from_transformer_lens(state, facts, config=config).shape
    LayerShape(d_model=5, n_heads=2, d_qk=3, d_vo=3)
    """
    state = state_dict_of(given)
    hooked = "embed.W_E" in state
    if not hooked and "embed.weight" not in state:
        raise InputError(
            "not a TransformerLens model: there is neither embed.W_E (HookedTransformer) nor embed.weight "
            f"(TransformerBridge) in the state dict, but {few(list(state), 5)}; see from_torch"
        )
    settings = settings_of(given if is_module(given) else None, config)
    require_supported(settings, checked=is_module(given))
    norms, norm_names = _norms(state, settings, hooked=hooked)
    roles = _roles(state, HOOKED if hooked else BRIDGE, norm_names)
    _require_sizes(settings, roles, hooked=hooked)
    wiring = Wiring(
        n_heads=settings["n_heads"],
        scale=score_scale(settings, hooked=hooked),
        layout={"unembedding": "matrix"} if hooked else "linear",
    )
    return imported(given, roles, wiring, database, tokens, other_outputs, norms=norms)


def _require_sizes(settings: Mapping[str, Any], roles: Tensors, *, hooked: bool) -> None:
    """Raise an `InputError` if the configuration is that of a model of another size."""
    n_heads, d_head = settings["n_heads"], settings["d_head"]
    d_model = settings.get("d_model", roles["token_embedding"].shape[-1])
    wanted = [n_heads, d_model, d_head] if hooked else [n_heads * d_head, d_model]
    got = list(roles["q_weight"].shape)
    if got != wanted:
        raise InputError(f"the configuration is of another model: W_Q must have shape {wanted}; got {got}")


def _roles(state: Mapping[str, Any], names: Mapping[str, str], norm_names: tuple[str, ...]) -> Tensors:
    missing = [name for name in names.values() if name not in state]
    if missing:
        raise InputError(f"no tensor {', '.join(missing)} in the state dict; it has {few(list(state), 20)}")
    known = {*names.values(), *BUFFERS, *norm_names}
    unknown = [name for name in state if name not in known]
    if unknown:
        parts = foreign_parts(unknown)
        what = f"it has {' and '.join(parts)}, which cannot be folded into a layer" if parts else "these are unknown"
        raise InputError(f"not a one-layer attention-only model: {what} ({few(unknown, 5)})")
    return weights_by_role({name: state[name] for name in names.values()}, names)


def _norms(
    state: Mapping[str, Any], settings: Mapping[str, Any], *, hooked: bool
) -> tuple[tuple[NormWeights, NormWeights] | None, tuple[str, ...]]:
    """Return the norms, and the names of their tensors: LNPre has none, scale 1 and bias 0."""
    kind = settings["normalization_type"]
    if kind is None:
        return None, ()
    embedding = to_array("the embedding", state["embed.W_E" if hooked else "embed.weight"])
    width, precision = embedding.shape[-1], embedding.dtype
    if kind == "LNPre" and hooked:
        plain = NormWeights(np.ones(width, precision), np.zeros(width, precision))
        return (plain, plain), ()
    names = tuple(name for pair in NORMS[hooked] for name in pair)
    missing = [name for name in names if name not in state]
    if missing:
        raise InputError(f"the configuration says normalization_type={kind!r}, but there is no tensor {missing[0]}")
    arrays = {name: to_array(name, state[name]) for name in names}
    require_weights(arrays)
    for name, array in arrays.items():
        if array.shape != (width,):
            raise InputError(f"{name} must have shape [{width}]; got {list(array.shape)}")
    first, last = (NormWeights(*(arrays[name].astype(precision) for name in pair)) for pair in NORMS[hooked])
    return (first, last), names
