"""What can be audited: folders, GGUF files, state dicts, and language models of our own, in memory or saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from factrank.checkpoints.heads import AttentionModel, open_model, open_state_dict
from factrank.errors import InputError

Source = Any
"""A path; a state dict; an open model; or a language model, a training result or a saved model that contains one."""
OWN_SUFFIX = ".safetensors"


def opened_model(source: Source, settings: Mapping[str, Any] | None = None) -> AttentionModel:
    """Open a model for an audit.

    Arguments:
        source: A Hugging Face folder, a GGUF file, a file of a language model of ours, a state dict, an open model, or
            a language model in memory.
        settings: The settings of a state dict.

    Raises:
        InputError: If the source cannot be read; the message names the file and the tensor.
    """
    if isinstance(source, AttentionModel):
        return source
    if isinstance(source, Mapping):
        if settings is None:
            raise InputError("a state dict needs its settings: audit(state_dict, settings=model.config.to_dict())")
        return open_state_dict(source, settings)
    if not isinstance(source, str | Path):
        return open_language_model(source)
    path = Path(source)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_file() and path.name.endswith(OWN_SUFFIX):
        return _own_file(path)
    return open_model(path)


def open_language_model(given: Any, data: object = None, place: str = "language model") -> AttentionModel:
    """Open a language model of ours.

    Arguments:
        given: A `LanguageModel`, or a training result or saved model that contains one.
        data: `Sentences` or the database that it was trained on, for the strings of its tokens.
        place: What messages call it.

    Raises:
        InputError: If it is no language model.
    """
    from factrank.families.language import attention_state, language_model_in, token_words  # noqa: PLC0415 - loads JAX

    model = language_model_in(given)
    if model is None:
        raise InputError(f"expected a checkpoint or a language model; got {type(given).__name__}")
    settings, tensors = attention_state(model)
    words = token_words(model, getattr(given, "data", None) if data is None else data)
    return replace(open_state_dict(tensors, settings, place), tokens=words)


def _own_file(path: Path) -> AttentionModel:
    from factrank.experiments.models import load  # noqa: PLC0415 - loads JAX
    from factrank.families.language import language_model_in  # noqa: PLC0415

    saved = load(path)
    if language_model_in(saved) is None:
        raise InputError(f"{path}: the model is no language model; `factrank verify` and `recall` read other models")
    return open_language_model(saved, place=str(path))


def chosen_layers(model: AttentionModel, layers: Iterable[int] | None) -> list[int]:
    """Return the numbers of the layers in order, all by default; raise `InputError` if there is no such layer."""
    n_layers = model.sizes.n_layers
    wanted = list(range(n_layers)) if layers is None else sorted(set(layers))
    outside = [layer for layer in wanted if not 0 <= layer < n_layers]
    if outside or not wanted:
        raise InputError(f"{model.place}: layer {outside[0] if outside else ''}: the layers are 0 to {n_layers - 1}")
    return wanted
