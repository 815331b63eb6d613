"""`from_torch`: a one-layer attention-only PyTorch model as an `AttentionLayer`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import sqrt
from typing import Any, cast

import numpy as np

from factrank.bridges.attention_weights import Norms, pair_model, table_sizes
from factrank.bridges.pair_model import PairModel
from factrank.bridges.self_check import SAME, TOLERANCE, require_defined, require_same_logits
from factrank.bridges.state_dicts import Tensors, is_module, state_dict_of, torch_library
from factrank.bridges.tensor_roles import NameMap, Wiring, weights_by_role
from factrank.bridges.token_ids import TokenIds, Tokens, require_all_outputs, token_ids
from factrank.bridges.torch_modules import OWN_NAMES, Forward, evaluating, module_logits, own_layer
from factrank.databases import Database
from factrank.errors import InputError, InputWarning
from factrank.families.attention import AnyLayer, AttentionLayer
from factrank.foreign_text import quoted
from factrank.nn import to_arrays


def from_torch(
    given: Any,
    database: Database | None = None,
    *,
    tokens: Tokens = None,
    names: NameMap | None = None,
    wiring: Wiring | None = None,
    forward: Forward | None = None,
    other_outputs: str = "refuse",
) -> AttentionLayer:
    """Convert a one-layer attention-only PyTorch model to an `AttentionLayer` with the same logits.

    The model reads the prompt [key, query] and answers at the last position: embeddings (with positions 0 and 1, if it
    has positions), one multi-head attention, a residual connection, an unembedding. All biases and positions are
    folded into a constant dimension. The imported layer is compared with the module's own forward pass, or, for a state
    dict, with an independent forward pass in NumPy; every tensor must be accounted for.

    Arguments:
        given: a `torch.nn.Module`, or its state dict with tensors or NumPy arrays. Also a module from `to_torch`.
        database: the facts, whose vocabularies define the codes of the layer.
        tokens: token id of every name, such as the vocabulary of a tokeniser; or three of them (keys, queries, values),
            each a mapping or a list of ids in the order of the codes. By default the tokens are the keys, then the
            queries (then the values) in the order of the vocabularies.
        names: name of the tensor with each role, for tensors whose name is not recognised, such as
            `{"token_embedding": "emb.weight", "ignored": ["mask"]}`.
        wiring: the number of heads and other things that a state dict does not record.
        forward: how to call the module on token ids; by default `module(ids)` with ids of shape [n, 2].
        other_outputs: whether outputs that are not values are refused, or ignored: then the layer compares only values,
            and a warning reports how many facts another output wins.

    Returns:
        The layer, in the precision of the weights. It has the codes of the database, or of the lists of ids.

    Raises:
        InputError: the model is something else (several layers, an MLP, norms, extra keys), a tensor is missing,
            unknown, of the wrong shape or not finite, a name has no token, or the logits differ.

    >>> import numpy as np
    >>> import factrank
    >>> facts = factrank.Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> rng = np.random.default_rng(0)
    >>> shapes = {"embedding.weight": (3, 4), "attention.in_proj_weight": (12, 4), "attention.in_proj_bias": (12,),
    ...     "attention.out_proj.weight": (4, 4), "attention.out_proj.bias": (4,), "unembedding.weight": (2, 4)}
    >>> state = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    >>> factrank.from_torch(state, facts, wiring=factrank.Wiring(n_heads=2)).shape
    LayerShape(d_model=5, n_heads=2, d_qk=2, d_vo=2)
    """
    state = state_dict_of(given)
    if set(state) == OWN_NAMES:
        layer = own_layer(state, database)
        if is_module(given):
            require_own_logits(given, layer, forward)
        return layer
    if "embed.W_E" in state:
        raise InputError("this is a TransformerLens model: use from_transformer_lens")
    wiring = _wiring_of(given, wiring or Wiring()) if is_module(given) else wiring or Wiring()
    roles = weights_by_role(state, names)
    found = imported(given, roles, wiring, database, tokens, other_outputs, forward=forward)
    return cast("AttentionLayer", found)  # only norms make another model


def require_own_logits(module: Any, layer: AttentionLayer, forward: Forward | None) -> None:
    """Raise an `InputError` unless a module with the weights of `to_torch` also has its logits."""
    parts = to_arrays(layer)
    n_heads, _, d_qk = parts["w_q"].shape
    model = PairModel(
        keys=parts["embedding"][: layer.n_keys],
        queries=parts["embedding"][layer.n_keys :],
        w_q=parts["w_q"],
        w_k=parts["w_k"],
        w_v=parts["w_v"],
        w_o=parts["w_o"],
        unembedding=parts["unembedding"],
        b_q=np.zeros((n_heads, d_qk)),
        b_k=np.zeros((n_heads, d_qk)),
        b_v=np.zeros((n_heads, parts["w_v"].shape[2])),
        b_o=np.zeros(parts["w_o"].shape[2]),
        b_u=np.zeros(layer.n_values),
        scale=sqrt(d_qk),
    )
    copied, is_wide = evaluating(module, forward, 0, 0)
    require_same_logits(
        model.logits,
        lambda keys, queries: module_logits(copied, keys, queries, forward),
        model,
        SAME if is_wide else TOLERANCE[model.keys.dtype.name],
        "the module's own forward pass",
        "It has the parts of a module of to_torch, but computes something else",
    )


def imported(  # noqa: PLR0913 - the one place where all parts of an import meet
    given: Any,
    roles: Tensors,
    wiring: Wiring,
    database: Database | None,
    tokens: Tokens,
    other_outputs: str,
    *,
    norms: Norms = None,
    forward: Forward | None = None,
) -> AnyLayer:
    """Select the tokens, fold the weights and compare logits."""
    if database is not None and not isinstance(database, Database):
        raise InputError(f"expected a Database of facts; got {type(database).__name__}")
    sizes = table_sizes(roles, wiring)
    ids = token_ids(tokens, database, sizes)
    require_all_outputs(ids, sizes.outputs, other_outputs)
    model = pair_model(roles, wiring, ids, norms)
    layer = model.folded()
    require_defined(layer, model)
    if is_module(given):
        module, is_wide = evaluating(given, forward, int(ids.keys[0]), int(ids.queries[0]))
        exact = pair_model({name: part.astype(np.float64) for name, part in roles.items()}, wiring, ids, norms)
        require_same_logits(
            exact.logits,
            lambda keys, queries: module_logits(module, ids.keys[keys], ids.queries[queries], forward)[:, ids.values],
            model,
            SAME if is_wide else TOLERANCE[model.keys.dtype.name],
            "the module's own forward pass",
            "Does the module add the residual stream (Wiring(residual=...)), scale scores by sqrt(d_head) "
            "(Wiring(scale=...)), and read [key, query]?",
        )
    if database is not None and len(ids.values) < sizes.outputs:
        _warn_of_other_outputs(pair_model(roles, wiring, _other_outputs(ids, sizes.outputs), norms), model, database)
    return layer


def _other_outputs(ids: TokenIds, n_outputs: int) -> TokenIds:
    return ids._replace(values=np.setdiff1d(np.arange(n_outputs), ids.values))


def _warn_of_other_outputs(others: PairModel, model: PairModel, database: Database) -> None:
    """Warn if an output that is no value has the largest logit at a fact, which the layer cannot show."""
    keys, queries, values = database.triples.T
    n_beaten, block = 0, 1024
    for first in range(0, len(values), block):
        at = slice(first, first + block)
        right = np.take_along_axis(model.logits(keys[at], queries[at]), values[at, None], axis=1)[:, 0]
        n_beaten += int((others.logits(keys[at], queries[at]).max(axis=1) >= right).sum())
    if n_beaten:
        message = (
            f"at {n_beaten:,} of {len(values):,} facts an output that is no value of the database has at least the "
            "logit of the fact: the model answers something else there, which a layer with values only does not show"
        )
        warnings.warn(InputWarning(message), stacklevel=4)


def _wiring_of(module: Any, wiring: Wiring) -> Wiring:
    """Complete the wiring from the attention module, and refuse what a layer does not have."""
    torch = torch_library()
    found = [(name, one) for name, one in module.named_modules() if isinstance(one, torch.nn.MultiheadAttention)]
    if len(found) > 1:
        raise InputError(f"the model has {len(found)} attention layers; expected one")
    if not found:
        return wiring
    name, attention = found[0]
    if attention.add_zero_attn or attention.bias_k is not None or attention.bias_v is not None:
        raise InputError(
            f"{quoted(name)} attends to extra keys (add_zero_attn or add_bias_kv): a layer attends to the key and the "
            "query only"
        )
    if wiring.n_heads not in (None, attention.num_heads):
        raise InputError(f"{quoted(name)} has {attention.num_heads} heads; the wiring says {wiring.n_heads}")
    return replace(wiring, n_heads=attention.num_heads)
