"""`AttentionModel`: a checkpoint whose attention layers are read one at a time, as factors.

Opening a model reads its settings and headers only, and checks the shape of every tensor that an attention layer needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factrank.checkpoints.configuration import Settings, read_settings
from factrank.checkpoints.heads.architecture_table import ARCHITECTURES, gguf_layout, gguf_settings
from factrank.checkpoints.heads.attention_factors import (
    AttentionFactors,
    Projections,
    StoredNorm,
    latent_projections,
    split_rows,
    stacked,
)
from factrank.checkpoints.heads.head_layout import CheckpointSizes, HeadLayout
from factrank.checkpoints.heads.rotary import rotation_of
from factrank.checkpoints.heads.rounded import Rounded, joined
from factrank.checkpoints.readers import (
    CONFIGURATION,
    GGUF_SUFFIX,
    StoredTensor,
    Tensors,
    read_folder,
    read_gguf,
    read_state_dict,
)
from factrank.errors import InputError

OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""Names of norms in checkpoints that were converted from TensorFlow."""


@dataclass(frozen=True, eq=False)
class AttentionModel:
    """The attention layers of a checkpoint.

    Arguments:
        place: File or folder, for messages and titles.
        layout: Names and conventions of the architecture.
        sizes: Sizes of the attention layers.
        settings: Settings of the checkpoint.
        tensors: Its tensors, read on demand.
        prefix: What precedes the names in this checkpoint.
        tokens: Strings of the tokens, if the checkpoint has them.
    """

    place: str
    layout: HeadLayout
    sizes: CheckpointSizes
    settings: Settings
    tensors: Tensors
    prefix: str
    tokens: tuple[str, ...] = ()

    def tensor(self, name: str) -> StoredTensor:
        """Return a tensor by the name of the layout; raise `InputError` if it is missing."""
        found = self.optional(name)
        if found is None:
            raise InputError(f"{self.place}: the tensor {self.prefix + name!r} is missing")
        return found

    def optional(self, name: str) -> StoredTensor | None:
        """Return a tensor by the name of the layout, with or without its prefix; None if it is missing."""
        old = next((name.replace(new, old) for new, old in OLD_NAMES.items() if name.endswith(new)), name)
        newer = self.layout.newer(name)
        names = (self.prefix + name, name, self.prefix + old, self.prefix + newer, newer)
        return next((self.tensors[each] for each in names if each in self.tensors), None)

    def norm(self, name: str) -> StoredNorm | None:
        """Return a norm; None if the layout has none of this name, or it has no gain."""
        weight = self.optional(f"{name}.weight") if name else None
        if name and weight is None and self.layout.norm_kind != "layer":
            self.tensor(f"{name}.weight")
        if weight is None:
            return None
        return StoredNorm(self.layout.norm_kind, weight, self.optional(f"{name}.bias"))

    def input_norm(self, layer: int) -> StoredNorm | None:
        """Return the norm whose output a layer reads."""
        layout = self.layout
        if layout.first_norm is None:
            return self.norm(self._name(layer, layout.norm))
        return self.norm(self._name(layer - 1, layout.norm) if layer else layout.first_norm)

    def layer(self, layer: int, *, fold: bool = False, head_gains: bool = True) -> AttentionFactors:
        """Read the factors of one layer.

        Arguments:
            layer: Number of the layer, from 0.
            fold: Whether to fold the gains and shifts of the norms into the factors.
            head_gains: Whether to fold the gains of the norms of queries and keys.
        """
        parts = self._latent(layer) if self.layout.latent else self._plain(layer)
        norm = self.input_norm(layer) if fold else None
        parts = parts if norm is None else parts.folded(norm)
        if head_gains and self.layout.head_norms is not None:
            parts = parts.with_head_gains(*self.head_gains(layer))
        query, key, value = parts.extended()
        rotation, notes = rotation_of(self.settings, self.layout, self.sizes, layer, self.tensors)
        output, output_bias = self._output(layer, fold=fold)
        return AttentionFactors(
            layer,
            query,
            key,
            value,
            output,
            output_bias,
            self.layout.scale(self.settings, self.sizes, layer),
            rotation,
            parts.has_bias,
            tuple(dict.fromkeys(self.tensor(name).kind for name in self.attention_names(layer))),
            (*self.layout.notes, *notes),
        )

    def head_gains(self, layer: int) -> tuple[Rounded, ...]:
        """Return the gains of the norms of queries and keys; empty if there are none."""
        norms = [self.norm(self._name(layer, name)) for name in self.layout.head_norms or ()]
        return tuple(norm.gain for norm in norms if norm is not None)

    def attention_names(self, layer: int) -> tuple[str, ...]:
        """Return the names of the weights of a layer's projections and output map, without biases."""
        names = (
            (*self._latent_names(), self.layout.output)
            if self.layout.latent
            else (*self.layout.projections, self.layout.output)
        )
        return tuple(f"{self._name(layer, name)}.weight" for name in names)

    def check(self) -> None:
        """Raise `InputError` unless every layer has the tensors that the settings imply, with their shapes."""
        sizes, because = self.sizes, f"{Path(self.settings.place).name}"
        heads = {
            "q": sizes.n_heads * sizes.d_qk,
            "k": sizes.n_kv_heads * sizes.d_qk,
            "v": sizes.n_kv_heads * sizes.d_vo,
        }
        for layer in range(sizes.n_layers):
            shapes = self._latent_shapes() if self.layout.latent else self._plain_shapes(heads)
            shapes[self.layout.output] = self._stored((sizes.width, sizes.n_heads * sizes.d_vo))
            for name, shape in shapes.items():
                self.tensor(f"{self._name(layer, name)}.weight").require_shape(shape, because)
                bias = self.optional(f"{self._name(layer, name)}.bias")
                if bias is not None:
                    bias.require_shape((shape[0] if self.layout.transposed else shape[1],), because)
            norm = self.input_norm(layer)
            if norm is not None:
                norm.weight.require_shape((sizes.width,), because)
                if norm.bias is not None:
                    norm.bias.require_shape((sizes.width,), because)

    def _plain_shapes(self, heads: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        rows = tuple(heads.values()) if len(self.layout.projections) == 3 else (sum(heads.values()),)
        return {
            name: self._stored((n, self.sizes.width)) for name, n in zip(self.layout.projections, rows, strict=True)
        }

    def _latent_shapes(self) -> dict[str, tuple[int, ...]]:
        sizes, settings = self.sizes, self.settings
        latent, nope = settings.size("kv_lora_rank"), settings.size("qk_nope_head_dim")
        down, up = settings.whole("q_lora_rank", None), (sizes.n_heads * sizes.d_qk,)
        shapes: dict[str, tuple[int, ...]] = {
            "self_attn.kv_a_proj_with_mqa": (latent + settings.size("qk_rope_head_dim"), sizes.width),
            "self_attn.kv_b_proj": (sizes.n_heads * (nope + sizes.d_vo), latent),
        }
        if down is None:
            return shapes | {"self_attn.q_proj": (*up, sizes.width)}
        return shapes | {"self_attn.q_a_proj": (down, sizes.width), "self_attn.q_b_proj": (*up, down)}

    def _latent_names(self) -> tuple[str, ...]:
        return tuple(self._latent_shapes())

    def _stored(self, shape: tuple[int, int]) -> tuple[int, int]:
        return shape if self.layout.transposed else shape[::-1]

    def _name(self, layer: int, name: str) -> str:
        return self.layout.layer.format(layer) + name

    def _map(self, layer: int, name: str) -> tuple[Rounded, Rounded | None]:
        """Read a map as [outputs, inputs], and its bias."""
        stem = self._name(layer, name)
        weight, bias = Rounded.read(self.tensor(f"{stem}.weight")), self.optional(f"{stem}.bias")
        return weight if self.layout.transposed else weight.T, None if bias is None else Rounded.read(bias)

    def _plain(self, layer: int) -> Projections:
        sizes = self.sizes
        maps = [self._map(layer, name) for name in self.layout.projections]
        biases: list[Rounded | None] = [None] * 3
        if len(maps) == 1:
            weight, bias = maps[0]
            weights = split_rows(weight, self.layout, sizes)
            biases = biases if bias is None else [*split_rows(bias.reshape(-1, 1), self.layout, sizes)]
        else:
            shapes = ((sizes.n_heads, sizes.d_qk), (sizes.n_kv_heads, sizes.d_qk), (sizes.n_kv_heads, sizes.d_vo))
            both = zip(maps, shapes, strict=True)
            split = [(w.reshape(*shape, -1), b and b.reshape(*shape, 1)) for (w, b), shape in both]
            weights, biases = (split[0][0], split[1][0], split[2][0]), [b for _, b in split]
        rows = [bias and bias.T for bias in biases]
        return Projections((weights[0].T, weights[1].T, weights[2].T), (rows[0], rows[1], rows[2]))

    def _latent(self, layer: int) -> Projections:
        sizes, settings = self.sizes, self.settings
        down, down_bias = self._map(layer, "self_attn.kv_a_proj_with_mqa")
        if settings.whole("q_lora_rank", None) is None:
            query = self._map(layer, "self_attn.q_proj")[0].reshape(sizes.n_heads, sizes.d_qk, sizes.width).T
        else:
            first, bias = self._map(layer, "self_attn.q_a_proj")
            second = self._gained(layer, "self_attn.q_a_layernorm", "self_attn.q_b_proj")
            inner = first.T if bias is None else joined([first.T, bias.reshape(1, -1)], axis=0)
            heads = second.reshape(sizes.n_heads, sizes.d_qk, -1)
            query = stacked([inner @ heads[head].T for head in range(sizes.n_heads)])
        if down_bias is not None and query.values.shape[1] == sizes.width:
            query = joined([query, Rounded.exact(0 * query.values[:, :1])], axis=1)
        up = self._gained(layer, "self_attn.kv_a_layernorm", "self_attn.kv_b_proj").reshape(
            sizes.n_heads, -1, settings.size("kv_lora_rank")
        )
        return latent_projections(query, up, down, down_bias, settings.size("qk_nope_head_dim"), sizes)

    def _gained(self, layer: int, norm: str, name: str) -> Rounded:
        """Read a map [outputs, inputs] with the gains of the norm of its inputs."""
        gain = self.norm(self._name(layer, norm))
        weight, _ = self._map(layer, name)
        return weight if gain is None else weight * gain.gain.reshape(1, -1)

    def _output(self, layer: int, *, fold: bool) -> tuple[Rounded, Any]:
        weight, bias = self._map(layer, self.layout.output)
        after = self.norm(self._name(layer, self.layout.after_norm)) if fold and self.layout.after_norm else None
        heads = weight.T.reshape(self.sizes.n_heads, self.sizes.d_vo, self.sizes.width)
        if after is None:
            return heads, bias and bias.values
        gain = after.gain
        return heads * gain.reshape(1, 1, -1), bias and (bias * gain).values


def open_model(path: Path) -> AttentionModel:
    """Open a Hugging Face folder or a GGUF file.

    Raises:
        InputError: If the architecture is unknown, a file cannot be read, or a tensor is missing or has another shape
            than the settings imply.
    """
    if path.is_dir():
        settings = _text_settings(read_settings(path / CONFIGURATION))
        layout = _layout(settings)
        return _opened(str(path), layout, settings, read_folder(path, settings))
    if path.exists() and path.suffix.lower() != GGUF_SUFFIX:
        raise InputError(f"{path}: expected a folder with {CONFIGURATION}, or a file whose name ends in {GGUF_SUFFIX}")
    file = read_gguf(path)
    architecture, settings = gguf_settings(str(path), file.settings)
    layout = gguf_layout(_layout(settings), architecture)
    return _opened(str(path), layout, settings, file.tensors, file.tokens)


def open_state_dict(
    arrays: Mapping[str, Any], settings: Mapping[str, Any], place: str = "state dict"
) -> AttentionModel:
    """Open a state dict in memory, given the settings that its `config.json` would have.

    Arguments:
        arrays: NumPy arrays or PyTorch tensors by name.
        settings: `model_type` and the sizes, such as `model.config.to_dict()`.
        place: What messages call it.
    """
    known = _text_settings(Settings(place, settings))
    return _opened(place, _layout(known), known, read_state_dict(arrays, place))


def _text_settings(settings: Settings) -> Settings:
    """Return the settings of the language model of a model that also reads images."""
    text = settings.entries.get("text_config")
    return Settings(settings.place, text) if isinstance(text, dict) and "model_type" in text else settings


def _layout(settings: Settings) -> HeadLayout:
    kind = settings.text("model_type", "")
    if kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise InputError(f"{settings.place}: unknown model_type {kind[:40]!r}; expected one of {known}")
    layout = ARCHITECTURES[kind]
    return layout.adapted(layout, settings)


def _opened(
    place: str, layout: HeadLayout, settings: Settings, tensors: Tensors, tokens: tuple[str, ...] = ()
) -> AttentionModel:
    sizes = layout.sizes(settings)
    first = layout.layer.format(0) + layout.output + ".weight"
    starts = ((prefix, name) for name in (first, layout.newer(first)) for prefix in layout.prefixes)
    prefix = next((prefix for prefix, name in starts if prefix + name in tensors), layout.prefixes[0])
    model = AttentionModel(place, layout, sizes, settings, tensors, prefix, tokens)
    model.check()
    return model
