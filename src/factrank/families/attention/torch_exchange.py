r"""PyTorch: an `AttentionLayer` as a `torch.nn.Module` or a state dict, and back (extra `torch`).

The module computes the textbook way over the sequence [k, q], with a softmax over its two positions:

$$\mathrm{out} = x_q + \sum_h \mathrm{softmax}\bigl((x_q W_Q^h)(X W_K^h)^\top/\sqrt{d_{qk}}\bigr)\, X W_V^h W_O^h$$

with X = [x_k; x_q], and its logits are out U. Parameters carry the names of the parts. torch is imported only when one
of these functions is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from factrank.errors import InputError
from factrank.families.attention.attention_layer import PARTS, AttentionLayer, layer_from_arrays
from factrank.nn import to_arrays


def to_torch_state_dict(layer: AttentionLayer) -> dict[str, Any]:
    """The parts by name, as torch tensors of the same precision with memory of their own."""
    torch = _torch()
    return {name: _to_tensor(torch, part) for name, part in to_arrays(layer).items()}


def from_torch_state_dict(state_dict: Mapping[str, Any], n_keys: int) -> AttentionLayer:
    """The layer of a state dict with the names of the parts, in the precision of its tensors.

    `n_keys` splits the embedding rows into keys and queries: a state dict cannot say it.
    """
    torch = _torch()
    arrays = {}
    for name, tensor in state_dict.items():
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"{name} must be a torch tensor; got {type(tensor).__name__}")
        # A copy, because a training step would otherwise change the layer behind its back.
        arrays[str(name)] = np.array(_to_array(torch, tensor.detach().cpu()))
    with jax.enable_x64(True):  # keeps float64
        return layer_from_arrays(n_keys, **arrays)


def torch_module(layer: AttentionLayer) -> Any:
    """A `torch.nn.Module` with these weights: `module(keys, queries)` are the logits of a list of pairs.

    Its state dict is that of `to_torch_state_dict`, so `from_torch_state_dict(module.state_dict(), module.n_keys)` is
    the layer again.
    """
    return _module_class()(layer.n_keys, to_torch_state_dict(layer))


def _to_tensor(torch: Any, part: Shaped[np.ndarray, "..."]) -> Any:
    """A tensor with memory of its own; torch knows NumPy's bfloat16 only by its bits."""
    if part.dtype == jnp.bfloat16:
        return torch.from_numpy(part.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(part.copy())


def _to_array(torch: Any, tensor: Any) -> Shaped[np.ndarray, "..."]:
    bits = tensor.contiguous().view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    array: Shaped[np.ndarray, "..."] = bits.numpy()
    return array if bits is tensor else array.view(jnp.bfloat16)


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(f"PyTorch is needed for this ({error}): pip install 'factrank[torch]'") from None


@cache
def _module_class() -> Any:
    torch = _torch()
    base: Any = torch.nn.Module

    class TorchAttentionLayer(base):  # type: ignore[misc]  # torch need not be installed
        """The attention layer in plain PyTorch."""

        def __init__(self, n_keys: int, parts: Mapping[str, Any]) -> None:
            super().__init__()
            self.n_keys = n_keys
            for name in PARTS:
                self.register_parameter(name, torch.nn.Parameter(parts[name]))

        def forward(self, keys: Any, queries: Any) -> Any:
            """The logits [n, values] of the pairs (keys[n], queries[n])."""
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
