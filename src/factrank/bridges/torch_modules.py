r"""Layers as `torch.nn.Module` (extra `torch`), and the forward passes of other modules.

The module of a layer computes textbook attention over the sequence X = [x_k; x_q], with a softmax over two positions:

$$\mathrm{out} = x_q + \sum_h \mathrm{softmax}\bigl((x_q W_Q^h)(X W_K^h)^\top/\sqrt{d_{qk}}\bigr)\, X W_V^h W_O^h$$

and returns the logits out U. Parameters have the names of the parts, and the buffer `n_keys` records how many embedding
rows are keys, so the state dict alone is enough to convert it back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

from factrank.bridges.state_dicts import require_weights, to_array, torch_library
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention import PARTS, AttentionLayer, layer_from_arrays, model_from_arrays
from factrank.foreign_text import quoted
from factrank.nn import to_arrays
from factrank.readouts import AnyModel, handed_in

N_KEYS = "n_keys"
OWN_NAMES = frozenset({*PARTS, N_KEYS})
"""Names in the state dict of a module from `to_torch`."""

Forward = Callable[[Any, Any, Any], Any]
"""Logits [n, outputs] or [n, positions, outputs] of a module for n keys and n queries, given by token ids."""


def to_torch(given: AnyModel) -> Any:
    """Return a `torch.nn.Module` with the weights and logits of a layer.

    `module(keys, queries)` returns the logits [n, values] of n pairs of codes. `from_torch` converts the module, or its
    state dict, back to the same layer. float32, float64 and bfloat16 are kept.

    Arguments:
        given: an `AttentionLayer`, or a trained, constructed or loaded object that contains one.

    Raises:
        InputError: PyTorch is not installed, or the model is not an `AttentionLayer`.

    >>> import factrank
    >>> module = factrank.to_torch(factrank.construct(factrank.sample("astrid")))  # doctest: +SKIP
    >>> module(torch.tensor([0, 1]), torch.tensor([0, 0])).shape  # doctest: +SKIP
    torch.Size([2, 4])
    """
    layer = handed_in(given).model
    parts = to_arrays(layer)
    if set(parts) != set(PARTS):
        raise InputError(f"only an AttentionLayer can become a torch module; got a {type(layer).__name__}")
    torch = torch_library()
    return _module_class()(layer.n_keys, {name: _to_tensor(torch, part) for name, part in parts.items()})


def own_layer(state: Mapping[str, Any], database: Database | None = None) -> AttentionLayer:
    """Return the layer of a state dict that `to_torch` made, bit for bit."""
    arrays = {name: to_array(name, tensor) for name, tensor in state.items()}
    n_keys = arrays.pop(N_KEYS)
    if n_keys.shape or n_keys.dtype.kind != "i":
        raise InputError(f"n_keys must be one integer; got {n_keys.dtype} of shape {list(n_keys.shape)}")
    require_weights(arrays)
    if len({part.dtype for part in arrays.values()}) > 1:
        raise InputError("the parts of a layer must have one precision")
    checked = layer_from_arrays(int(n_keys), **{name: np.zeros(part.shape, "f4") for name, part in arrays.items()})
    sizes = checked.n_keys, checked.n_queries, checked.n_values
    if database is not None and database.shape != sizes:
        raise InputError(f"the layer has {sizes} keys, queries and values; the database has {database.shape}")
    return cast("AttentionLayer", model_from_arrays(checked.shape, sizes, arrays))


def module_logits(
    module: Any, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " n"], forward: Forward | None
) -> Float[np.ndarray, "n outputs"]:
    """Return the logits of a module at the last position, in float64, for pairs of token ids.

    Raises:
        InputError: the module cannot be called this way, or returns something else.
    """
    torch = torch_library()
    call = forward or _on_sequences
    try:
        with torch.no_grad():
            found = call(module, torch.from_numpy(keys), torch.from_numpy(queries))
    except Exception as error:  # whatever the user's code raises
        raise InputError(
            f"the self-check could not run the module: {type(error).__name__}: {quoted(str(error), 300)}. If it is not "
            "called with token ids [n, 2], pass forward=lambda module, keys, queries: logits"
        ) from error
    found = getattr(found, "logits", found)
    if not isinstance(found, torch.Tensor) or found.ndim not in (2, 3) or len(found) != len(keys):
        got = f"shape {list(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
        raise InputError(
            f"the module must return logits [n, outputs] or [n, 2, outputs] for n = {len(keys)}; got {got}"
        )
    last = found if found.ndim == 2 else found[:, -1]
    return np.asarray(last.double().cpu().numpy())


def evaluating(module: Any, forward: Forward | None, key: int, query: int) -> tuple[Any, bool]:
    """Return a copy of a module on the CPU in evaluation mode, and whether it computes in float64.

    Arguments:
        module: the module.
        forward: how to call it.
        key: token id to try it on.
        query: token id to try it on.
    """
    try:
        copied = copy.deepcopy(module).eval()
        copied = copied if all(one.device.type == "cpu" for one in copied.parameters()) else copied.cpu()
        wide = copy.deepcopy(copied).double()
    except RuntimeError as error:
        raise InputError(f"the module cannot be copied for the self-check ({quoted(str(error), 200)})") from None
    settings: Any = getattr(wide, "cfg", None)
    if hasattr(settings, "dtype"):  # TransformerLens casts to the type in its configuration
        settings.dtype = torch_library().float64
    try:
        module_logits(wide, np.array([key]), np.array([query]), forward)
    except InputError:
        return copied, False  # for example, it casts to float32 on its own; what else is wrong shows again
    return wide, True


def _on_sequences(module: Any, keys: Any, queries: Any) -> Any:
    if isinstance(module, _module_class()):
        return module(keys, queries)
    return module(torch_library().stack([keys, queries], dim=1))


def _to_tensor(torch: Any, part: Shaped[np.ndarray, "..."]) -> Any:
    """Copy an array to a tensor; torch reads NumPy's bfloat16 only as raw bits."""
    if part.dtype == jnp.bfloat16:
        return torch.from_numpy(part.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(part.copy())


@cache
def _module_class() -> Any:
    torch = torch_library()
    base: Any = torch.nn.Module

    class TorchAttentionLayer(base):  # type: ignore[misc]  # torch need not be installed
        """The attention layer in plain PyTorch."""

        def __init__(self, n_keys: int, parts: Mapping[str, Any]) -> None:
            super().__init__()
            self.register_buffer(N_KEYS, torch.tensor(n_keys))
            for name in PARTS:
                self.register_parameter(name, torch.nn.Parameter(parts[name]))

        def forward(self, keys: Any, queries: Any) -> Any:
            """Return the logits [n, values] of the pairs (keys[n], queries[n])."""
            context = torch.stack([self.embedding[keys], self.embedding[self.n_keys + queries]], dim=1)
            last = context[:, -1]
            query_vectors = torch.einsum("nd,hde->nhe", last, self.w_q)
            key_vectors = torch.einsum("npd,hde->nhpe", context, self.w_k)
            scores = torch.einsum("nhe,nhpe->nhp", query_vectors, key_vectors) / self.w_q.shape[-1] ** 0.5
            value_vectors = torch.einsum("npd,hde->nhpe", context, self.w_v)
            read = torch.einsum("nhp,nhpe->nhe", torch.softmax(scores, dim=-1), value_vectors)
            stream = last + torch.einsum("nhe,hed->nd", read, self.w_o)
            return stream @ self.unembedding

    return TorchAttentionLayer
