r"""`audit`: what the attention heads of a checkpoint can hold; `ModelAudit` and `LoraAudit`, what it finds.

**At most N facts.** Weights of B bits in all make at most $2^B$ layers, and there are $|V|^n$ tables of n facts with
given pairs. If $n \log_2 |V| > B + 20$, all but one in a million of these tables have no such weights. So the
attention of a layer, or the update of an adapter, holds at most $(B + 20) / \log_2 |V|$ facts of nearly every table
with |V| values, if the other weights were fixed before the table was drawn. Embeddings that were trained on the table
may hold more of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from threadpoolctl import threadpool_limits

from factrank.auditing.circuit_spectra import Spectrum, reduced, spectrum
from factrank.auditing.head_audits import LEADING, HeadCircuits, LayerAudit, audit_layer, most_facts
from factrank.auditing.opened_models import Source, chosen_layers, opened_model
from factrank.checkpoints import read_object
from factrank.checkpoints.heads import AttentionModel, CheckpointSizes, Rounded
from factrank.checkpoints.readers import LORA_CONFIGURATION, LowRankUpdate, read_lora
from factrank.display import Drawn
from factrank.errors import InputError

Fold = Literal["norm"]
Progress = Callable[[str], None]
TOKENISER = "tokenizer.json"


@dataclass(frozen=True, eq=False, repr=False)
class ModelAudit(Drawn):
    """Circuits of the attention heads of a model.

    Arguments:
        title: Path of the checkpoint.
        architecture: Its architecture, in words.
        sizes: Sizes of its attention layers.
        fold: "norm" if the norms are folded into the circuits.
        layers: The audited layers.
        parameters: Stored scalars of the whole checkpoint by part.
        n_values: Number of values of a table of facts: the vocabulary of the model unless it was given; None if there
            is none.
    """

    title: str
    architecture: str
    sizes: CheckpointSizes
    fold: Fold | None
    layers: tuple[LayerAudit, ...]
    parameters: dict[str, int]
    n_values: int | None

    def __repr__(self) -> str:
        return (
            f"ModelAudit({self.title!r}: {self.architecture}, {len(self.layers)} layers of {self.sizes.n_heads} heads, "
            f"median effective rank of QK {self.qk_effective:.1f}, of OV {self.ov_effective:.1f})"
        )

    @property
    def heads(self) -> tuple[HeadCircuits, ...]:
        """Circuits of all heads."""
        return tuple(head for layer in self.layers for head in layer.heads)

    @property
    def qk_effective(self) -> float:
        """Median entropy effective rank of QK over all heads."""
        return median(head.qk.effective_rank for head in self.heads)

    @property
    def ov_effective(self) -> float:
        """Median entropy effective rank of OV over all heads."""
        return median(head.ov.effective_rank for head in self.heads)

    @property
    def qk_below_ov(self) -> float:
        """Fraction of heads whose QK has the smaller effective rank."""
        return sum(head.qk.effective_rank < head.ov.effective_rank for head in self.heads) / len(self.heads)

    @property
    def bits(self) -> float:
        """Bits of the stored weights of attention in all audited layers."""
        return sum(layer.bits for layer in self.layers)

    @property
    def most_facts(self) -> int | None:
        """Most facts that the attention of all audited layers holds by its information; None without a vocabulary."""
        return None if self.n_values is None else most_facts(self.bits, self.n_values)

    def facts_of(self, layer: LayerAudit) -> int | None:
        """Return the most facts that a layer's attention holds by its information; None without a vocabulary."""
        return None if self.n_values is None else most_facts(layer.bits, self.n_values)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with one row per circuit."""
        return {
            "title": self.title,
            "architecture": self.architecture,
            "sizes": asdict(self.sizes),
            "fold": self.fold,
            "parameters": self.parameters,
            "n_values": self.n_values,
            "qk_effective_rank": self.qk_effective,
            "ov_effective_rank": self.ov_effective,
            "qk_below_ov": self.qk_below_ov,
            "bits": self.bits,
            "most_facts": self.most_facts,
            "layers": [self._layer(layer) for layer in self.layers],
            "circuits": [row for layer in self.layers for row in layer.rows()],
        }

    def _layer(self, layer: LayerAudit) -> dict[str, Any]:
        return {
            "layer": layer.layer,
            "qk_effective_rank": layer.qk_effective,
            "ov_effective_rank": layer.ov_effective,
            "qk_below_ov": layer.qk_below_ov,
            "parameters": layer.parameters,
            "bits": layer.bits,
            "most_facts": self.facts_of(layer),
        }


@dataclass(frozen=True)
class AuditedUpdate:
    """Update of one matrix by a LoRA adapter.

    Arguments:
        name: Name of the adapted matrix.
        shape: Its outputs and inputs.
        allowed: r, the most that the rank can be.
        scale: Factor of B A.
        spectrum: Spectrum of the update.
        parameters: Stored scalars.
        bits: Their bits.
    """

    name: str
    shape: tuple[int, int]
    allowed: int
    scale: float
    spectrum: Spectrum
    parameters: int
    bits: float


@dataclass(frozen=True, eq=False, repr=False)
class LoraAudit(Drawn):
    """Updates of a LoRA adapter.

    Arguments:
        title: Path of the adapter.
        updates: The updates, in the order of their names.
        n_values: Number of values of a table of facts: the vocabulary of the adapter's tokeniser unless it was given;
            None if there is none.
    """

    title: str
    updates: tuple[AuditedUpdate, ...]
    n_values: int | None

    def __repr__(self) -> str:
        return f"LoraAudit({self.title!r}: {len(self.updates)} updates of rank {self.updates[0].allowed} at most)"

    def facts_of(self, update: AuditedUpdate) -> int | None:
        """Return the most facts that an update holds by its information; None without a vocabulary."""
        return None if self.n_values is None else most_facts(update.bits, self.n_values)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with one row per update."""
        return {
            "title": self.title,
            "n_values": self.n_values,
            "updates": [
                {
                    "name": update.name,
                    "shape": list(update.shape),
                    "allowed_rank": update.allowed,
                    "rank": update.spectrum.rank,
                    "tolerance": update.spectrum.tolerance,
                    "decided": update.spectrum.decided,
                    "effective_rank": update.spectrum.effective_rank,
                    "energy_rank": update.spectrum.energy_rank,
                    "stable_rank": update.spectrum.stable_rank,
                    "singular_values": list(update.spectrum.values[:LEADING]),
                    "parameters": update.parameters,
                    "bits": update.bits,
                    "most_facts": self.facts_of(update),
                    "convention": f"update = {update.scale:.4g} B A",
                }
                for update in self.updates
            ],
        }


def audit(
    source: Source,
    *,
    settings: Mapping[str, Any] | None = None,
    layers: Sequence[int] | None = None,
    fold: Fold | None = None,
    tolerance: float | None = None,
    n_values: int | None = None,
    progress: Progress | None = None,
) -> ModelAudit | LoraAudit:
    """Audit the attention heads of a model, or the updates of a LoRA adapter.

    Weights are read layer by layer, and no matrix of width x width or vocabulary x vocabulary is formed.

    Arguments:
        source: A Hugging Face folder, a GGUF file, a LoRA folder, a state dict, or a language model of ours: its file,
            the model or a training result.
        settings: The settings of a state dict, such as `model.config.to_dict()`.
        layers: Numbers of the layers to audit, from 0; all by default.
        fold: "norm" folds the norms into the circuits.
        tolerance: Fraction of the largest singular value below which others count as zero; by default, what rounding
            to the stored type may have changed.
        n_values: Number of values of a table of facts; by default, the vocabulary of the model.
        progress: Called with what is being done.

    Returns:
        A `ModelAudit` or a `LoraAudit`.

    Raises:
        InputError: If the source cannot be read; the message names the file and the tensor.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> weights = {f"h.0.attn.{name}.weight": rng.normal(size=(4, 4 * n)) for name, n in (("c_attn", 3), ("c_proj", 1))}
    >>> found = audit(weights, settings={"model_type": "gpt2", "n_embd": 4, "n_layer": 1, "n_head": 2})
    >>> [(head.qk.rank, head.ov.rank) for head in found.heads]
    [(2, 2), (2, 2)]
    """
    say = progress or (lambda _: None)
    if tolerance is not None and not 0 < tolerance < 1:
        raise InputError(f"expected a tolerance between 0 and 1; got {tolerance}")
    if n_values is not None and n_values < 2:
        raise InputError(f"expected at least 2 values; got {n_values}")
    if fold not in (None, "norm"):
        raise InputError(f"unknown fold {str(fold)[:40]!r}; expected 'norm'")
    if isinstance(source, str | Path) and (Path(source) / LORA_CONFIGURATION).exists():
        if layers is not None or fold is not None:
            raise InputError(f"{source}: the updates of a LoRA adapter have no layers to choose and no norms to fold")
        return _of_lora(Path(source), tolerance, n_values, say)
    return _of_model(opened_model(source, settings), layers, fold, tolerance, n_values, say)


def _of_model(
    model: AttentionModel,
    layers: Iterable[int] | None,
    fold: Fold | None,
    tolerance: float | None,
    n_values: int | None,
    say: Progress,
) -> ModelAudit:
    audited = []
    for layer in chosen_layers(model, layers):
        say(f"layer {layer} of {model.sizes.n_layers}")
        audited.append(audit_layer(model, layer, fold=fold == "norm", tolerance=tolerance))
    parameters = _parameters(model)
    embedding = model.optional(model.layout.embedding) if model.layout.embedding else None
    if embedding is not None and len(embedding.shape) != 2:
        raise InputError(f"{embedding.place}: the tensor {embedding.name!r} has shape {embedding.shape}; expected rows")
    known = n_values or (embedding.shape[0] if embedding is not None else None)
    return ModelAudit(model.place, model.layout.title, model.sizes, fold, tuple(audited), parameters, known)


def _parameters(model: AttentionModel) -> dict[str, int]:
    """Return the stored scalars of the checkpoint by part; attention is that of all layers, audited or not."""
    every = sum(tensor.size for tensor in model.tensors.values())
    names = [name for layer in range(model.sizes.n_layers) for name in model.attention_names(layer)]
    attention = sum(model.tensor(name).size for name in names)
    embedding, unembedding = (
        model.optional(name) if name else None for name in (model.layout.embedding, model.layout.unembedding)
    )
    outer = {
        "embedding": embedding.size if embedding is not None else 0,
        "unembedding": unembedding.size if unembedding is not None else 0,
    }
    rest = every - attention - sum(outer.values())
    return {"attention": attention, **outer, "MLPs, norms and biases": rest, "all": every}


def _of_lora(folder: Path, tolerance: float | None, n_values: int | None, say: Progress) -> LoraAudit:
    updates = []
    for update in read_lora(folder):
        say(update.name)
        updates.append(_audited(update, tolerance))
    return LoraAudit(str(folder), tuple(updates), n_values or _vocabulary(folder / TOKENISER))


def _audited(update: LowRankUpdate, tolerance: float | None) -> AuditedUpdate:
    up, down = Rounded.read(update.up), Rounded.read(update.down)
    with threadpool_limits(1, "blas"):
        left, right = (reduced(part.reshape(1, *part.values.shape))[0] for part in (up, down.T))
        try:
            found = spectrum(left, right, scale=update.scale, tolerance=tolerance)
        except InputError as error:
            raise InputError(f"{update.up.place}: {update.name}: {error}") from None
    bits = sum(part.size * part.bits for part in (update.up, update.down))
    return AuditedUpdate(update.name, update.shape, update.rank, update.scale, found, update.parameters, bits)


def _vocabulary(path: Path) -> int | None:
    """Return the number of tokens of a tokeniser; None if there is none."""
    if not path.exists():
        return None
    model = read_object(path).get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    return len(vocabulary) if isinstance(vocabulary, dict | list) and len(vocabulary) > 1 else None
