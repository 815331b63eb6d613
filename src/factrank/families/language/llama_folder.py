"""Language models as Hugging Face folders: the architecture of Llama, if the options of a model match it.

Rotary positions, SwiGLU MLPs and d_qk = d_vo make a `LanguageModel` a Llama with as many key-value heads as heads. The
folder has `config.json` and `model.safetensors`; `transformers.LlamaForCausalLM.from_pretrained` reads it and computes
the same logits. If the facts that the model was trained on are given, `tokenizer.json` has its words. Other models are
saved in our own format.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from safetensors.numpy import save as to_safetensors

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import save
from factrank.experiments.specs import Given
from factrank.families.language.language_data import Sentences
from factrank.families.language.language_model import NORM_EPSILON, LanguageModel
from factrank.families.language.language_shape import LanguageShape
from factrank.families.language.sentences import FactSource
from factrank.host import replacing
from factrank.nn import to_arrays

OWN_FILE = "factrank.safetensors"
"""Name of a model in our own format, in the folder that was asked for."""


def llama_refusal(shape: LanguageShape) -> str | None:
    """Return why a model of this shape is no Llama, or None if it is.

    >>> from factrank import LanguageShape
    >>> llama_refusal(LanguageShape(d_model=8, n_heads=2, d_qk=2, d_vo=6, mlp_width=16))
    'd_qk = 2 and d_vo = 6 differ'
    """
    if shape.positions != "rope":
        return "its positions are learned, not rotary"
    if not shape.mlp_width:
        return "it has no MLP"
    return None if shape.d_qk == shape.d_vo else f"d_qk = {shape.d_qk} and d_vo = {shape.d_vo} differ"


def export_language_model(folder: str | os.PathLike[str], given: Any, data: Any = None) -> Path:
    """Write a language model as a folder of Hugging Face, or in our own format if it is no Llama.

    Arguments:
        folder: Folder to write to; created if it does not exist.
        given: A `LanguageModel`, or a training result that contains one.
        data: Data that the model was trained on; our own format requires them. Of `Sentences`, a folder gets the words.

    Returns:
        The folder, or the file `factrank.safetensors` in it if the model is saved in our own format.

    Raises:
        InputError: If it is no language model, the data are missing, or the folder cannot be written.
    """
    model, path = getattr(given, "weights", given), Path(folder)
    if not isinstance(model, LanguageModel):
        raise InputError(f"expected a language model; got {type(model).__name__}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot create the folder: {error.strerror or error}") from None
    refusal = llama_refusal(model.shape)
    if refusal is not None:
        if data is None:
            raise InputError(
                f"{path}: the model is no Llama, because {refusal}; also pass the data that it was trained on"
            )
        save(path / OWN_FILE, model, data, spec=model.shape)
        return path / OWN_FILE
    with replacing(path / "model.safetensors") as file:
        file.write(to_safetensors(llama_tensors(model), metadata={"format": "pt"}))
    with replacing(path / "config.json") as file:
        file.write(json.dumps(llama_config(model), indent=2).encode())
    words = token_words(model, data)
    if words:
        with replacing(path / "tokenizer.json") as file:
            file.write(json.dumps(word_tokeniser(words), ensure_ascii=False, indent=1).encode())
    return path


def token_words(model: LanguageModel, data: object) -> tuple[str, ...]:
    """Return what each token of a model stands for, if it was trained on sentences about facts; else nothing.

    A word of several tokens, such as a name that is also a value, is told apart by their numbers (`numbered`).

    Arguments:
        model: The model.
        data: `Sentences`, or their database; then the presentation is the one that has as many words as the model.
    """
    database = data.build() if isinstance(data, Sentences) else data
    if not isinstance(database, Database):
        return ()
    facts = Given(database.fingerprint)
    shown = [data] if isinstance(data, Sentences) else [Sentences(facts, templates=n) for n in (1, 0)]
    words = (FactSource(database, each).words for each in shown)
    return numbered(next((each for each in words if len(each) == model.n_tokens), ()))


def numbered(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words, each with its number if it occurs several times, so no word stands for a wrong token.

    >>> numbered(("<blank>", "May", "is", "May"))
    ('<blank>', 'May (1)', 'is', 'May (3)')
    """
    counts = Counter(words)
    return tuple(f"{word} ({number})" if counts[word] > 1 else word for number, word in enumerate(words))


def word_tokeniser(words: Sequence[str]) -> dict[str, Any]:
    """Return a `tokenizer.json` with one token per word."""
    vocabulary = {word: number for number, word in enumerate(numbered(words))}
    return {
        "version": "1.0",
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": words[0]},
    }


def llama_config(model: LanguageModel) -> dict[str, Any]:
    """Return the configuration of a model, as `config.json` has it."""
    shape = model.shape
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": model.n_tokens,
        "hidden_size": shape.d_model,
        "intermediate_size": shape.mlp_width,
        "num_hidden_layers": shape.n_layers,
        "num_attention_heads": shape.n_heads,
        "num_key_value_heads": shape.n_heads,
        "head_dim": shape.d_qk,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": NORM_EPSILON,
        "rope_theta": shape.rope_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_base},
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": shape.tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "dtype": to_arrays(model)["embedding"].dtype.name,
    }


def llama_tensors(model: LanguageModel) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return the tensors of a model under their names in Llama; matrices map columns, as in PyTorch.

    Learned positions, which Llama does not have, are left out, and so are MLPs if the model has none.
    """
    part = to_arrays(model)

    def of_heads(weights: Float[np.ndarray, "heads d_model d_head"]) -> Float[np.ndarray, "all d_model"]:
        return weights.transpose(0, 2, 1).reshape(-1, weights.shape[1])

    tensors = {"model.embed_tokens.weight": part["embedding"], "model.norm.weight": part["final_norm"]}
    if not model.shape.tied:
        tensors["lm_head.weight"] = part["unembedding"]
    for layer in range(model.shape.n_layers):
        outward = part["w_o"][layer]
        named = {
            "input_layernorm": part["attention_norm"][layer],
            "self_attn.q_proj": of_heads(part["w_q"][layer]),
            "self_attn.k_proj": of_heads(part["w_k"][layer]),
            "self_attn.v_proj": of_heads(part["w_v"][layer]),
            "self_attn.o_proj": outward.reshape(-1, outward.shape[-1]).T,
        }
        if model.shape.mlp_width:
            named |= {
                "post_attention_layernorm": part["mlp_norm"][layer],
                "mlp.gate_proj": part["w_gate"][layer].T,
                "mlp.up_proj": part["w_up"][layer].T,
                "mlp.down_proj": part["w_down"][layer].T,
            }
        tensors |= {f"model.layers.{layer}.{name}.weight": weights for name, weights in named.items()}
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
