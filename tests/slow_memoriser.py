"""The memoriser as its authors compute it: every position is embedded and attends, and the first one is read."""

import jax
import jax.numpy as jnp
import numpy as np


def slow_read(model, queries, contexts):
    """Attention of the query and outputs, straight from the formulas; its gradients are those of the formulas too."""
    shape, d = model.shape, model.shape.d_model
    batch, (size, d_input) = len(queries), np.shape(contexts)[-2:]
    tokens = jnp.concatenate([queries[:, None], jnp.broadcast_to(contexts, (batch, size, d_input))], axis=1)
    x = tokens if model.embedding is None else tokens @ model.embedding + model.embedding_bias
    if shape.positions:
        wave = [
            [(np.cos if c % 2 else np.sin)(t / 10000 ** (c // 2 * 2 / d)) for c in range(d)] for t in range(size + 1)
        ]
        x = x + jnp.asarray(wave, x.dtype)
    divisor = (d if shape.scaled_by == "d_model" else shape.d_qk) ** 0.5
    collected, attention = jnp.zeros_like(x), []
    for head in range(shape.n_heads):
        scores = (x @ model.w_q[head]) @ (x @ model.w_k[head]).swapaxes(1, 2) / divisor
        weights = jax.nn.softmax(scores.at[:, :, 0].set(-jnp.inf), axis=-1)
        collected = collected + weights @ (x @ model.w_v[head]) @ model.w_o[head]
        attention.append(weights[:, 0, 1:])
    return jnp.stack(attention, axis=1), (collected @ model.decoder + model.decoder_bias)[:, 0]
