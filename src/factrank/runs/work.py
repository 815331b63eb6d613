"""How much work a trial is: multiplications of an epoch, and the numbers that are held while it trains.

Both are estimates, from the sizes alone; they order bundles and say beforehand about how long a study takes.
"""

from __future__ import annotations

from factrank.databases import Database
from factrank.models import LayerShape, MemoryShape, OneHotShape, SequenceShape, TransformerShape
from factrank.training import Trial
from factrank.training.fused_run import products, sizes_of
from factrank.training.trial import SEQUENCES


def epoch_products(trial: Trial, database: Database) -> int:
    """About how many multiplications a model makes in the forward passes of one epoch.

    That is one pass over the facts or, for models of sequences, one batch. Weights that the tokens share are applied
    once per token, not once per place in a sequence.
    """
    model, n_facts = trial.model, len(database)
    n_keys, n_queries, n_values = database.shape
    if isinstance(model, LayerShape):
        return products(sizes_of(model, database.shape), n_facts)
    if isinstance(model, TransformerShape):
        mlp = 2 * n_facts * model.d_model * model.mlp_width
        return model.n_layers * (products(sizes_of(model.layer, database.shape), n_facts) + mlp)
    if isinstance(model, MemoryShape):
        weights = model.d_model**2 if model.width is None else 2 * model.d_model * model.width
        return n_facts * (weights + model.d_model * n_values)
    batch, n_tokens = _batch(trial), model.tokens(n_keys, n_queries)
    if isinstance(model, OneHotShape):
        return batch * n_tokens * model.n_heads * (1 + n_values)
    heads = model.n_heads * (1 + model.d_vo)
    after = model.n_heads * model.d_vo + 2 * model.mlp_width + model.outputs(n_values)
    return n_tokens * model.d_model * heads + batch * (n_tokens * heads + model.d_model * after)


def working_numbers(trial: Trial, database: Database, *, in_lanes: bool) -> int:
    """About how many numbers a forward pass keeps for the backward pass, beside the weights."""
    model, n_facts = trial.model, len(database)
    n_keys, n_queries, n_values = database.shape
    if isinstance(model, LayerShape | TransformerShape):
        layer = model.layer if isinstance(model, TransformerShape) else model
        tables = (n_keys + n_queries) * layer.n_heads * (2 * layer.d_qk + layer.d_vo + n_values)
        return tables + (n_facts * n_values if in_lanes else 0)
    if isinstance(model, MemoryShape):
        return n_facts * (n_values + model.d_model + (model.width or 0))
    batch, n_tokens = _batch(trial), model.tokens(n_keys, n_queries)
    if isinstance(model, SequenceShape):
        heads = model.n_heads * (1 + model.d_vo)
        return n_tokens * heads + batch * (n_tokens + heads + model.d_model + model.mlp_width + model.outputs(n_values))
    return n_tokens * model.n_heads * (1 + n_values) + batch * (n_tokens + n_values)


def _batch(trial: Trial) -> int:
    return trial.training.batch_size or SEQUENCES
