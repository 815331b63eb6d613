"""A language model as the readers of checkpoints take it: settings and tensors by name, for any d_qk and d_vo.

The names are those of Llama; the settings name d_qk and d_vo. Learned positions are not among the tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Shaped

from factrank.checkpoints.heads import OWN_MODEL
from factrank.families.language.language_model import NORM_EPSILON, LanguageModel
from factrank.families.language.llama_folder import llama_tensors


def language_model_in(given: object) -> LanguageModel | None:
    """Return a language model, or the one in a training result or a saved model; None if there is none."""
    model = getattr(given, "weights", getattr(given, "model", given))
    return model if isinstance(model, LanguageModel) else None


def attention_state(model: LanguageModel) -> tuple[dict[str, Any], dict[str, Shaped[np.ndarray, "..."]]]:
    """Return the settings of a model, as a `config.json` would have them, and its tensors."""
    shape = model.shape
    settings = {
        "model_type": OWN_MODEL,
        "hidden_size": shape.d_model,
        "num_hidden_layers": shape.n_layers,
        "num_attention_heads": shape.n_heads,
        "d_qk": shape.d_qk,
        "d_vo": shape.d_vo,
        "positions": shape.positions,
        "rope_theta": shape.rope_base,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": NORM_EPSILON,
        "vocab_size": model.n_tokens,
    }
    return settings, llama_tensors(model)
