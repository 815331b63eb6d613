r"""A self-check: attention from our factors against one forward pass of `transformers` (extra `torch`).

The forward pass of a few tokens records, in every layer, the input of attention, its weights (eager attention) and the
output of its last map. From the same input, our factors give

    norm      the output of the norm before attention, from its recorded input and the gains, shifts and epsilon we read
    scores    $s\,q M_t k$ for all visible pairs, compared with the logarithms of the weights up to a constant per query
    outputs   the values that the recorded weights mix, times W_O, plus the bias

Divisions that the factors leave out (norms of queries, keys and latent vectors, soft caps) are made here. ALiBi, which
they also leave out, is compared up to a multiple of the distance per head. A layer differs if one of the three is off
by more than a tolerance, relative to the largest entry.

`transformers` builds the model from its own code: no code of a checkpoint is executed, and only safetensors or GGUF are
read. Our readers have checked the headers of these files before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from factrank.auditing.layer_inputs import divided_heads, normalised_input, soft_cap
from factrank.auditing.opened_models import chosen_layers
from factrank.checkpoints.heads import ALIBI, ARCHITECTURES, AttentionFactors, AttentionModel, open_model
from factrank.checkpoints.readers import LORA_CONFIGURATION
from factrank.display import Shown
from factrank.errors import InputError
from factrank.host import require_memory

CHECK_TOLERANCE, N_TOKENS, LEAST_WEIGHT = 1e-4, 8, 1e-6
MISSING = "the check needs PyTorch and transformers: pip install 'factrank[torch]'"


@dataclass(frozen=True)
class CheckedLayer:
    """Largest differences of a layer, relative to the largest entry.

    Arguments:
        layer: Number of the layer.
        norm: Difference of the input of attention; None if no norm precedes it.
        scores: Difference of the scores.
        outputs: Difference of what the layer adds.
    """

    layer: int
    norm: float | None
    scores: float
    outputs: float

    @property
    def agrees(self) -> bool:
        """Whether all differences are within the tolerance; NaN is not."""
        return all(number <= CHECK_TOLERANCE for number in (self.norm or 0.0, self.scores, self.outputs))


@dataclass(frozen=True, eq=False, repr=False)
class ForwardCheck(Shown):
    """Our factors against a forward pass of `transformers`.

    Arguments:
        title: Path of the checkpoint.
        layers: The checked layers.
        n_tokens: Tokens of the forward pass.
        made_by: Version of `transformers`.
    """

    title: str
    layers: tuple[CheckedLayer, ...]
    n_tokens: int
    made_by: str

    def __repr__(self) -> str:
        return f"ForwardCheck({self.title!r}: {len(self.layers)} layers, {len(self.differing)} differ)"

    @property
    def differing(self) -> tuple[int, ...]:
        """Numbers of the layers that differ."""
        return tuple(layer.layer for layer in self.layers if not layer.agrees)

    @property
    def agrees(self) -> bool:
        """Whether all layers agree."""
        return not self.differing

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "agrees": self.agrees,
            "tolerance": CHECK_TOLERANCE,
            "n_tokens": self.n_tokens,
            "made_by": self.made_by,
            "layers": [asdict(layer) | {"agrees": layer.agrees} for layer in self.layers],
        }


def check_forward(
    path: str | Path, *, layers: Iterable[int] | None = None, progress: Callable[[str], None] | None = None
) -> ForwardCheck:
    """Compare the factors of a checkpoint with one forward pass of `transformers`.

    Arguments:
        path: A Hugging Face folder or a GGUF file.
        layers: Numbers of the layers, from 0; all by default.
        progress: Called with what is being done.

    Raises:
        InputError: If a library is missing, `transformers` cannot load the checkpoint without executing its code, or
            the model has other modules than we expect.
    """
    path = Path(path)
    if (path / LORA_CONFIGURATION).exists():
        raise InputError(f"{path}: a LoRA adapter has no forward pass of its own to check")
    model = open_model(path)
    wanted = chosen_layers(model, layers)
    say = progress or (lambda _: None)
    say("loading the model into transformers")
    reference, version = _reference(path, model)
    say("one forward pass")
    inputs, n_tokens = _inputs(reference)
    passes, weights = _recorded(reference, model, inputs)
    found = []
    for layer in wanted:
        say(f"checking layer {layer} of {model.sizes.n_layers}")
        found.append(_checked(model, model.layer(layer), passes[layer], weights[layer]))
    return ForwardCheck(str(path), tuple(found), n_tokens, f"transformers {version}")


@dataclass
class _Pass:
    """What a forward pass showed of one layer: [tokens, width] each."""

    seen: dict[str, Float[np.ndarray, "tokens width"]] = field(default_factory=dict)


def _reference(path: Path, model: AttentionModel) -> tuple[Any, str]:
    """Load a model into `transformers` as float32, from safetensors or GGUF and without code of the checkpoint."""
    try:
        import torch  # noqa: PLC0415 - an extra
        import transformers  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(MISSING) from None
    needed = 2 * 4 * sum(tensor.size for tensor in model.tensors.values())
    require_memory(needed, f"{path}: a forward pass in float32", "check a smaller model, or a machine with more memory")
    options: dict[str, Any]
    folder, options = path, {"use_safetensors": True}
    if not path.is_dir():
        folder, options = path.parent, {"gguf_file": path.name, "dtype": torch.float32}
    try:
        with _silent(transformers.utils.logging):
            loaded = transformers.AutoModel.from_pretrained(
                str(folder.resolve()),
                **options,
                local_files_only=True,
                trust_remote_code=False,
                attn_implementation="eager",
            )
    except Exception as error:  # the library raises anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: transformers cannot load this checkpoint: {reason[:300]}") from None
    return (loaded.float() if path.is_dir() else loaded).eval(), str(transformers.__version__)


@contextmanager
def _silent(log: Any) -> Iterator[None]:
    """Show no warnings and no progress of `transformers`."""
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with redirect_stderr(StringIO()):  # GGUF files have a bar of their own
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def _inputs(reference: Any) -> tuple[dict[str, Any], int]:
    """Return inputs for one forward pass: tokens spread over the vocabulary, or a random image."""
    import torch  # noqa: PLC0415 - an extra

    settings = reference.config
    if getattr(settings, "image_size", None) and not getattr(settings, "vocab_size", None):
        size = settings.image_size
        generator = torch.Generator().manual_seed(0)
        pixels = torch.randn(1, getattr(settings, "num_channels", 3), size, size, generator=generator)
        return {"pixel_values": pixels}, (size // settings.patch_size) ** 2 + 1
    n_tokens = reference.get_input_embeddings().weight.shape[0]
    numbers = np.random.default_rng(0).integers(n_tokens, size=N_TOKENS)
    return {"input_ids": torch.tensor(numbers[None])}, N_TOKENS


def _recorded(reference: Any, model: AttentionModel, inputs: dict[str, Any]) -> tuple[list[_Pass], list[np.ndarray]]:
    """Run the forward pass; return what each layer read and wrote, and its attention weights [heads, n, n]."""
    import torch  # noqa: PLC0415 - an extra

    passes = [_Pass() for _ in range(model.sizes.n_layers)]
    with ExitStack() as hooks:
        for layer, one in enumerate(passes):
            for what, name, before in _modules(model, layer):
                hooks.enter_context(_hook(_module(reference, model, name), one.seen, what, before=before))
        with torch.no_grad():
            weights = reference(**inputs, output_attentions=True, use_cache=False).attentions
    if weights is None or len(weights) != len(passes) or any(len(one.seen) < 2 for one in passes):
        raise InputError(f"{model.place}: the forward pass of transformers shows no attention of every layer")
    return passes, [_plain(weight[0]) for weight in weights]


def _modules(model: AttentionModel, layer: int) -> Iterator[tuple[str, str, bool]]:
    """Yield what is recorded of a layer, the module by its name in Hugging Face, and whether its input is recorded."""
    layout = ARCHITECTURES[model.settings.text("model_type", "")]
    layout = layout.adapted(layout, model.settings)
    stem = layout.layer.format(layer)
    first = "self_attn.kv_a_proj_with_mqa" if layout.latent else layout.projections[0]
    yield "read", stem + first, True
    yield "wrote", stem + layout.output, False
    if model.input_norm(layer) is not None:
        previous = layout.layer.format(layer - 1) + layout.norm if layer else layout.first_norm or ""
        yield "before", stem + layout.norm if layout.first_norm is None else previous, True


def _module(reference: Any, model: AttentionModel, name: str) -> Any:
    """Return the module with this name, after a prefix of the layout or whatever precedes it."""
    modules = dict(reference.named_modules())
    names = (name, model.layout.newer(name))
    exact = [prefix + each for each in names for prefix in model.layout.prefixes if prefix + each in modules]
    found = exact[:1] or [each for each in modules if each.endswith(tuple(f".{name}" for name in names))]
    if len(found) != 1:
        raise InputError(f"{model.place}: the model of transformers has {len(found)} modules {name!r}; expected one")
    return modules[found[0]]


@contextmanager
def _hook(module: Any, seen: dict[str, np.ndarray], what: str, *, before: bool) -> Iterator[None]:
    """Record the first input or the output of a module."""

    def read(_module: Any, args: tuple[Any, ...]) -> None:
        seen[what] = _plain(args[0][0])

    def wrote(_module: Any, _args: tuple[Any, ...], output: Any) -> None:
        seen[what] = _plain(output[0])

    handle = module.register_forward_pre_hook(read) if before else module.register_forward_hook(wrote)
    try:
        yield
    finally:
        handle.remove()


def _plain(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().double().numpy())


def _checked(
    model: AttentionModel, factors: AttentionFactors, one: _Pass, weights: Float[np.ndarray, "heads n n"]
) -> CheckedLayer:
    x, layer = one.seen["read"], factors.layer
    norm = _relative(normalised_input(model, layer, one.seen["before"]), x) if "before" in one.seen else None
    queries, keys, values = divided_heads(model, factors, x)
    scores = _scores(factors, queries, keys, soft_cap(model))
    group = factors.group_size
    mixed = (weights[h] @ values[h // group] @ factors.output.values[h] for h in range(factors.n_heads))
    written = sum(mixed) + (0 if factors.output_bias is None else factors.output_bias)
    return CheckedLayer(
        layer,
        norm,
        _score_difference(scores, weights, alibi=ALIBI in factors.notes),
        _relative(written, one.seen["wrote"]),
    )


def _relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))


def _scores(
    factors: AttentionFactors, queries: np.ndarray, keys: np.ndarray, cap: float | None
) -> Float[np.ndarray, "heads n n"]:
    n, group = queries.shape[1], factors.group_size
    found = np.empty((factors.n_heads, n, n))
    for distance in range(1 - n, n):
        turned = queries if factors.rotation is None else factors.rotation.turned(queries, distance)
        i = np.arange(max(0, distance), min(n, n + distance))
        for head in range(factors.n_heads):
            products = turned[head, i] * keys[head // group, i - distance]
            found[head, i, i - distance] = factors.scale * products.sum(axis=1)
    return found if cap is None else cap * np.tanh(found / cap)


def _score_difference(
    scores: Float[np.ndarray, "heads n n"], weights: Float[np.ndarray, "heads n n"], *, alibi: bool
) -> float:
    """Return the largest difference of scores and log weights, relative to the largest score (at least 1).

    Scores are compared up to a constant per query; with ALiBi also up to a multiple of the position per head.
    """
    if scores.shape != weights.shape:
        return float("inf")
    visible = weights > LEAST_WEIGHT
    with np.errstate(divide="ignore"):
        difference = np.where(visible, np.log(weights) - scores, 0.0)
    counts = visible.sum(axis=2, keepdims=True)
    centred = np.where(visible, difference - difference.sum(axis=2, keepdims=True) / counts, 0.0)
    if alibi:
        place = np.broadcast_to(np.arange(scores.shape[2], dtype=float), scores.shape) * visible
        place = np.where(visible, place - place.sum(axis=2, keepdims=True) / counts, 0.0)
        slopes = (centred * place).sum(axis=(1, 2)) / (place**2).sum(axis=(1, 2))
        centred = centred - slopes[:, None, None] * place
    return float(np.abs(centred).max() / max(np.abs(scores[visible]).max(), 1.0))
