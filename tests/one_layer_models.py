"""State dicts of one-layer models with random weights and all biases, and a longhand forward pass."""

from math import sqrt

import numpy as np

N_KEYS, N_QUERIES, N_VALUES = 4, 3, 5


def state_of(seed=0, *, d_model=6, n_heads=2, d_head=3, dtype="float32"):
    """Tensors as `nn.Linear` and `nn.Embedding` store them, with separate projections."""
    rng = np.random.default_rng(seed)
    inner = n_heads * d_head
    shapes = {
        "emb.weight": (N_KEYS + N_QUERIES, d_model),
        "pos_emb.weight": (3, d_model),
        **{f"attn.{letter}_proj.weight": (inner, d_model) for letter in "qkv"},
        **{f"attn.{letter}_proj.bias": (inner,) for letter in "qkv"},
        "attn.o_proj.weight": (d_model, inner),
        "attn.o_proj.bias": (d_model,),
        "head.weight": (N_VALUES, d_model),
        "head.bias": (N_VALUES,),
    }
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def longhand(state, n_heads, *, residual=True):
    """Logits [keys, queries, values] in float64, one pair, head and position at a time."""
    w = {name: part.astype(np.float64) for name, part in state.items()}
    logits = np.empty((N_KEYS, N_QUERIES, N_VALUES))
    for key in range(N_KEYS):
        for query in range(N_QUERIES):
            x = w["emb.weight"][[key, N_KEYS + query]] + w["pos_emb.weight"][:2]
            q, k, v = (
                [w[f"attn.{one}_proj.weight"] @ token + w[f"attn.{one}_proj.bias"] for token in x] for one in "qkv"
            )
            width = len(q[0]) // n_heads
            read = []
            for head in range(n_heads):
                at = slice(head * width, (head + 1) * width)
                scores = np.array([q[1][at] @ token[at] / sqrt(width) for token in k])
                weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
                read.append(weights[0] * v[0][at] + weights[1] * v[1][at])
            stream = w["attn.o_proj.weight"] @ np.concatenate(read) + w["attn.o_proj.bias"]
            logits[key, query] = w["head.weight"] @ (stream + x[1] if residual else stream) + w["head.bias"]
    return logits
