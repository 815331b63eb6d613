"""Roles of tensors: which tensor of a state dict is which weight, by its name or by a map of names.

Every tensor must have a role or be ignored on purpose: a tensor that is silently dropped changes the logits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from factrank.bridges.state_dicts import AnyTensor, Tensors, in_one_precision, require_weights, to_array
from factrank.databases import Vocabulary, close_names
from factrank.errors import InputError
from factrank.foreign_text import few, quoted

LAYOUTS = ("linear", "matrix")
"""Axes of a two-dimensional weight: "linear" is [out, in] as in `nn.Linear`, "matrix" is [in, out] as in x @ W."""

_WEIGHT = r"(?:[._]weight)?"


def _projection(letter: str, word: str) -> str:
    return rf"(?:{letter}_proj|w_?{letter}|{letter}|{word}|to_{letter}|{letter}_linear)"


_OUT = r"(?:out_proj|o_proj|w_?o|o|to_out|o_linear)"
_HEAD = r"(?:unembedding|unembed|lm_head|head|output|decoder|classifier|readout|fc|fc_out|linear|out)"
PATTERNS: dict[str, str] = {
    "token_embedding": rf"(?:(?:token_|tok_)?(?:embedding|embeddings|embed|emb)|wte|embed_tokens){_WEIGHT}",
    "key_embedding": rf"keys?_(?:embedding|embed|emb){_WEIGHT}",
    "query_embedding": rf"(?:query|queries)_(?:embedding|embed|emb){_WEIGHT}",
    "position_embedding": rf"(?:position|positional|pos)_(?:embedding|embeddings|embed|emb|encoding){_WEIGHT}"
    rf"|(?:positions|pos|wpe){_WEIGHT}",
    "qkv_weight": rf"in_proj{_WEIGHT}",
    "qkv_bias": r"in_proj[._]bias",
    **{
        f"{letter}_{kind}": _projection(letter, word) + (_WEIGHT if kind == "weight" else "[._]bias")
        for letter, word in {"q": "query", "k": "key", "v": "value"}.items()
        for kind in ("weight", "bias")
    },
    "o_weight": _OUT + _WEIGHT,
    "o_bias": rf"{_OUT}[._]bias",
    "unembedding": _HEAD + _WEIGHT,
    "unembedding_bias": rf"{_HEAD}[._]bias",
}
"""Roles, and the ends of names that are recognised without a map."""

IGNORED = "ignored"
"""Entry of a name map that lists the tensors that do not change the logits, such as a causal mask."""

REQUIRED = ("o_weight", "unembedding")
"""Roles without alternatives."""


@dataclass(frozen=True)
class Wiring:
    """How the tensors of a state dict are connected, which the tensors themselves do not record.

    Arguments:
        n_heads: number of heads; required unless the projections have three axes or a module tells it.
        scale: divisor of the attention scores; sqrt(d_head) by default.
        residual: whether the embedding of the query is added to the output of the attention.
        layout: layout of the two-dimensional projections and the unembedding: one for all, or by role, "linear" if a
            role is not listed. Weights with three axes are [heads, d_model, d_head], of the output
            [heads, d_head, d_model].
    """

    n_heads: int | None = None
    scale: float | None = None
    residual: bool = True
    layout: str | Mapping[str, str] = field(default="linear", hash=False)

    def __post_init__(self) -> None:
        heads = self.n_heads
        if heads is not None and (isinstance(heads, bool) or not isinstance(heads, int) or heads < 1):
            raise InputError(f"n_heads must be a positive integer; got {self.n_heads!r}")
        number = isinstance(self.scale, int | float) and not isinstance(self.scale, bool)
        if self.scale is not None and not (number and 0 < self.scale < float("inf")):
            raise InputError(f"scale must be a positive number; got {self.scale!r}")
        layouts = {"": self.layout} if isinstance(self.layout, str) else dict(self.layout)
        for role, layout in layouts.items():
            if layout not in LAYOUTS:
                raise InputError(f"a layout must be 'linear' ([out, in]) or 'matrix' ([in, out]); got {layout!r}")
            if role and role not in PATTERNS:
                raise InputError(f"no role {role!r} in the layout; {_known(role)}")

    def layout_of(self, role: str) -> str:
        """Return the layout of the weight with this role."""
        return self.layout if isinstance(self.layout, str) else self.layout.get(role, "linear")


NameMap = Mapping[str, str | Sequence[str]]
"""Name of the tensor with each role; the entry "ignored" lists tensors that do not change the logits."""


def weights_by_role(state: Mapping[str, Any], names: NameMap | None = None) -> Tensors:
    """Return the weights of each role as arrays in one precision.

    Raises:
        InputError: as `names_by_role`, or a tensor with a role is not a finite real array.
    """
    roles = names_by_role(state, names)
    arrays = {name: to_array(name, state[name]) for name in roles.values()}
    require_weights(arrays)
    return in_one_precision({role: arrays[name] for role, name in roles.items()})


def names_by_role(tensors: Mapping[str, Any], names: NameMap | None = None) -> dict[str, str]:
    """Return the name of the tensor with each role, by the map of names or else by the end of the names.

    Raises:
        InputError: a tensor has no role, two tensors have the same role, or a required role has no tensor.
    """
    names = dict(names or {})
    ignored = names.pop(IGNORED, ())
    listed = (ignored,) if isinstance(ignored, str) else tuple(ignored)
    for name in (*names.values(), *listed):
        if not isinstance(name, str) or name not in tensors:
            raise InputError(f"no tensor {quoted(name)} in the state dict; it has {few(list(tensors), 20)}")
    unknown = [role for role in names if role not in PATTERNS]
    if unknown:
        raise InputError(f"no role {quoted(unknown[0])} in names; {_known(unknown[0])}")
    roles: dict[str, str] = {role: str(name) for role, name in names.items()}
    left = [name for name in tensors if name not in {*roles.values(), *listed}]
    without_role = []
    for name in left:
        matching = [role for role, pattern in PATTERNS.items() if re.search(rf"(?:^|\.)(?:{pattern})$", name.lower())]
        if len(matching) != 1:
            without_role.append(name)
        elif matching[0] in roles:
            raise InputError(
                f"{quoted(roles[matching[0]])} and {quoted(name)} both look like the {matching[0]}; say which is which "
                "with names={role: name}"
            )
        else:
            roles[matching[0]] = name
    if without_role:
        raise InputError(_no_role(without_role))
    _require_roles(roles, list(tensors))
    return roles


def several_layers(names: Sequence[str]) -> int:
    """Return the number of layers that numbered names such as `blocks.3.attn` suggest, at least 1."""
    numbers = [re.search(r"(?:^|\.)(\d+)\.", name) for name in names]
    return max((int(found[1]) + 1 for found in numbers if found and len(found[1]) < 6), default=1)


def foreign_parts(names: Sequence[str]) -> list[str]:
    """Return what the names of tensors suggest that a one-layer attention-only model does not have."""
    n_layers, text = several_layers(names), " ".join(names).lower()
    found = [f"{n_layers} layers"] if n_layers > 1 else []
    found += ["an MLP"] if re.search(r"mlp|ffn|feed_?forward|linear[12]\.|fc_in|fc1|c_fc|w_in\b", text) else []
    found += ["norms"] if re.search(r"norm|ln_?\d|ln_f|(?:^|[ ._])ln[._]", text) else []
    found += ["extra keys and values (add_bias_kv)"] if re.search(r"bias_[kv](?: |$)", text) else []
    return found


def _no_role(names: Sequence[str]) -> str:
    parts = foreign_parts(names)
    if parts:
        return (
            f"not a one-layer attention-only model: it has {' and '.join(parts)}, which cannot be folded into a layer "
            f"({few(names, 5)})"
        )
    return (
        f"the role of {few(names, 10)} is unknown, and dropping a tensor would change the logits. Say it with "
        f"names={{role: name}} (roles: {', '.join(PATTERNS)}), or list tensors that do not matter, such as a causal "
        f"mask, with names={{'{IGNORED}': [...]}}"
    )


def _require_roles(roles: Mapping[str, str], names: Sequence[str]) -> None:
    embeddings = {"token_embedding"}, {"key_embedding", "query_embedding"}
    if sum(one <= roles.keys() for one in embeddings) != 1:
        raise InputError(
            "expected a token_embedding, or a key_embedding and a query_embedding; the tensors are "
            f"{few(list(names), 20)}. Say which with names={{role: name}}"
        )
    separate = {"q_weight", "k_weight", "v_weight"}
    if ("qkv_weight" in roles) == bool(separate & roles.keys()):
        raise InputError(
            f"expected a qkv_weight, or {', '.join(sorted(separate))}; the tensors are {few(list(names), 20)}"
        )
    fused = "qkv_weight" in roles
    missing = [role for role in (*REQUIRED, *(() if fused else sorted(separate))) if role not in roles]
    if missing:
        raise InputError(
            f"no tensor for {', '.join(missing)}; the tensors are {few(list(names), 20)}. Say which with "
            "names={role: name}, for example the embedding for a tied unembedding"
        )


def _known(role: object) -> str:
    close = close_names(str(role), Vocabulary(PATTERNS))
    return f"did you mean {few(close)}?" if close else f"the roles are {', '.join(PATTERNS)}"


def require_axes(role: str, tensor: AnyTensor, *allowed: int) -> None:
    """Raise an `InputError` if the tensor of a role has the wrong number of axes."""
    if tensor.ndim not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise InputError(f"the {role} must have {wanted} axes; got shape {list(tensor.shape)}")
