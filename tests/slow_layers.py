"""Slow references for the models: float64 NumPy with loops over pairs and heads, and exact layers modulo a prime."""

from math import erf

import jax
import numpy as np
from hypothesis import strategies as st

from factrank.tensors.matrix.modular import PRIME, rank_mod_prime


@st.composite
def layer_sizes(draw, most_keys=5, most_values=7):
    """(d_model, n_heads, d_qk, d_vo), (n_keys, n_queries, n_values), seed."""
    shape = tuple(draw(st.integers(1, most)) for most in (6, 3, 4, 4))
    return shape, tuple(draw(st.integers(1, most)) for most in (most_keys, 4, most_values)), draw(st.integers(0, 99))


def arrays(module, names):
    return [np.asarray(getattr(module, name), dtype=np.float64) for name in names]


def softmax(scores):
    weights = np.exp(scores - max(scores))
    return weights / weights.sum()


def attend(context, heads, kind="softmax", score_scale=1.0):
    """What one causal attention layer adds to each position of a context, position by position, head by head."""
    added = [np.zeros_like(x) for x in context]
    for w_q, w_k, w_v, w_o in zip(*heads, strict=True):
        for at, x in enumerate(context):
            scores = np.array([(x @ w_q) @ (seen @ w_k) for seen in context[: at + 1]])
            scores *= score_scale / np.sqrt(w_q.shape[1])
            if kind == "softmax":
                weights = softmax(scores)
            elif kind == "linear":
                weights = scores
            else:  # affine is defined for the two positions: z and 1 - z
                weights = np.array([1.0]) if at == 0 else np.array([scores[0] - scores[1], 1 - scores[0] + scores[1]])
            for weight, seen in zip(weights, context[: at + 1], strict=True):
                added[at] = added[at] + weight * (seen @ w_v @ w_o)
    return added


def slow_layer_tensor(layer, score_scale=1.0):
    """The tensor of an `AttentionLayer`."""
    embedding, w_q, w_k, w_v, w_o, unembedding = arrays(layer, ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding"))
    keys, queries = embedding[: layer.n_keys], embedding[layer.n_keys :]
    tensor = np.zeros((len(keys), len(queries), unembedding.shape[1]))
    for k, x_k in enumerate(keys):
        for q, x_q in enumerate(queries):
            last = attend([x_k, x_q], (w_q, w_k, w_v, w_o), "softmax", score_scale)[1]
            tensor[k, q] = (x_q + last) @ unembedding
    return tensor


def slow_norm(norm, x):
    scale, bias = arrays(norm, ("scale", "bias"))
    return (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-5) * scale + bias


def slow_mlp(mlp, x):
    w_in, b_in, w_out, b_out = arrays(mlp, ("w_in", "b_in", "w_out", "b_out"))
    hidden = x @ w_in + b_in
    gelu = np.array([h * (1 + erf(h / np.sqrt(2))) / 2 for h in hidden])
    return gelu @ w_out + b_out


def slow_transformer_tensor(model, score_scale=1.0):
    """The tensor of a `PairTransformer`: each pair a context of its own, both positions through every block."""
    embedding, unembedding = arrays(model, ("embedding", "unembedding"))
    positions = np.zeros((2, embedding.shape[1])) if model.positions is None else arrays(model, ["positions"])[0]
    rows = np.asarray(model.query_rows)
    tensor = np.zeros((model.n_keys, len(rows), unembedding.shape[1]))
    for k in range(model.n_keys):
        for q, row in enumerate(rows):
            context = [embedding[k] + positions[0], embedding[row] + positions[1]]
            for block in model.blocks:
                read = [slow_norm(block.attention_norm, x) for x in context] if block.attention_norm else context
                heads = arrays(block, ("w_q", "w_k", "w_v", "w_o"))
                added = attend(read, heads, block.attention, score_scale)
                context = [x + more for x, more in zip(context, added, strict=True)]
                if block.mlp is not None:
                    read = [slow_norm(block.mlp_norm, x) for x in context] if block.mlp_norm else context
                    context = [x + slow_mlp(block.mlp, y) for x, y in zip(context, read, strict=True)]
            last = slow_norm(model.final_norm, context[1]) if model.final_norm else context[1]
            tensor[k, q] = last @ unembedding
    return tensor


def compiled(function):
    """`jax.jit` for functions that run once: hardly optimised, so quickly compiled."""
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=options)


def all_three(model):
    """The tensor by `model(k, q)` pair by pair, by `logits` of all pairs in a shuffled order, and by `tensor()`."""
    pairs = [(k, q) for k in range(model.n_keys) for q in range(model.n_queries)]
    keys, queries = np.random.default_rng(0).permutation(pairs).T

    def read(model, keys, queries):
        return jax.vmap(model)(keys, queries), model.logits(keys, queries), model.tensor()

    with jax.enable_x64(model.embedding.dtype == np.float64), jax.default_matmul_precision("highest"):
        *by_pair, tensor = compiled(read)(model, keys, queries)
    ordered = [np.zeros(tensor.shape), np.zeros(tensor.shape)]
    for array, logits in zip(ordered, by_pair, strict=True):
        array[keys, queries] = logits
    return *ordered, np.asarray(tensor, dtype=np.float64)


def assert_equals_reference(model, reference, tolerance):
    for tensor in all_three(model):
        np.testing.assert_allclose(tensor, reference, rtol=tolerance, atol=tolerance * max(1, np.abs(reference).max()))


def jittered(model, seed):
    """The model with noise on every weight, so that norms and biases are not where they start."""
    rng = np.random.default_rng(seed)

    def move(leaf):
        weights = np.asarray(leaf)
        return (
            weights + rng.normal(scale=0.3, size=leaf.shape).astype(leaf.dtype) if leaf.dtype.kind == "f" else weights
        )

    return jax.tree.map(move, model)


# ---------------------------------------------------------------- exact layers


def modular_layer_tensor(shape, sizes, seed, kind="softmax", n_shared=0):
    """The tensor modulo `PRIME` of a layer with random integer weights, with g^score in place of exp(score).

    Its entries are rational functions of g and the weights, so a minor that is not zero here is not zero for almost all
    real weights: ranks of this tensor are certified lower bounds of generic ranks.
    """
    (d_model, n_heads, d_qk, d_vo), (n_keys, n_queries, n_values) = shape, sizes
    rng = np.random.default_rng(seed)

    def draw(*size):
        return rng.integers(-4000, 4001, size)

    def product(*matrices):
        result = matrices[0] % PRIME
        for matrix in matrices[1:]:
            result = (result @ (matrix % PRIME)) % PRIME
        return result

    keys, queries, unembedding, base = (
        draw(n_keys, d_model), draw(n_queries, d_model), draw(d_model, n_values), int(rng.integers(2, PRIME))
    )  # fmt: skip
    queries[:n_shared] = keys[:n_shared]
    tensor = np.broadcast_to(product(queries, unembedding), (n_keys, n_queries, n_values))
    for _ in range(n_heads):
        w_q, w_k, w_v, w_o = draw(d_model, d_qk), draw(d_model, d_qk), draw(d_model, d_vo), draw(d_vo, d_model)
        on_key = (keys @ w_k) @ (queries @ w_q).T
        on_query = np.broadcast_to(((queries @ w_q) * (queries @ w_k)).sum(axis=1), on_key.shape)
        if kind == "linear":
            weights = on_key % PRIME, on_query % PRIME
        elif kind == "affine":
            weights = (on_key - on_query) % PRIME, (1 - on_key + on_query) % PRIME
        else:
            first = np.array([[_logistic(int(z), base) for z in row] for row in on_key - on_query])
            weights = first, (1 - first) % PRIME
        at_key, at_query = (product(tokens, w_v, w_o, unembedding) for tokens in (keys, queries))
        tensor = (tensor + weights[0][:, :, None] * at_key[:, None] + weights[1][:, :, None] * at_query) % PRIME
    return tensor


def _logistic(score, base):
    return pow(1 + pow(base, -score % (PRIME - 1), PRIME), -1, PRIME)


def modular_flattenings(tensor):
    return tuple(rank_mod_prime(np.moveaxis(tensor, at, 0).reshape(size, -1)) for at, size in enumerate(tensor.shape))


def modular_substitution(tensor):
    """Certified from below: killing the slices k - 0 costs their rank, and leaves slice 0 modulo what they reach."""
    first, differences = tensor[0], (tensor[1:] - tensor[:1]) % PRIME
    if len(tensor) == 1:
        return rank_mod_prime(first)
    reached = differences.reshape(-1, tensor.shape[2])
    rest = rank_mod_prime(np.concatenate([reached, first])) - rank_mod_prime(reached)
    return rank_mod_prime(differences.reshape(len(differences), -1)) + rest
