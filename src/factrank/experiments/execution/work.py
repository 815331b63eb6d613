"""How much work a trial is: multiplications of an epoch, and the numbers that are held while it trains.

Both are estimates, from the sizes alone; they order bundles and say beforehand about how long a study takes.
"""

from __future__ import annotations

from typing import cast

from factrank.databases.database import Database
from factrank.experiments.specs.trial import EXAMPLES, SEQUENCES, Trial, require_fitting
from factrank.families.attention.fused.fused_run import products, sizes_of
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.memoriser.examples.examples import AnyDatabase, Examples, VectorExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory.memory_shape import MemoryShape


def stored_scalars(trial: Trial, database: AnyDatabase) -> int:
    """All scalars of the model of a trial."""
    model = trial.model
    if isinstance(model, MemoriserShape):
        examples = _examples(trial, database)
        return model.parameters(examples.d_input, examples.n_outputs)
    return model.parameters(*_facts(trial, database).shape)


def epoch_products(trial: Trial, database: AnyDatabase) -> int:
    """About how many multiplications a model makes in the forward passes of one epoch.

    That is one pass over the facts or, for models of sequences and memorisers, one batch. Weights that the tokens share
    are applied once per token, not once per place in a sequence; a memoriser reads contexts as they are (`Memoriser`).
    """
    model = trial.model
    if isinstance(model, MemoriserShape):
        return _memoriser_products(trial, model, _examples(trial, database))
    facts = _facts(trial, database)
    n_facts, shape = len(facts), facts.shape
    n_keys, n_queries, n_values = shape
    if isinstance(model, LayerShape):
        return products(sizes_of(model, shape), n_facts)
    if isinstance(model, TransformerShape):
        mlp = 2 * n_facts * model.d_model * model.mlp_width
        return model.n_layers * (products(sizes_of(model.layer, shape), n_facts) + mlp)
    if isinstance(model, MemoryShape):
        weights = model.d_model**2 if model.width is None else 2 * model.d_model * model.width
        return n_facts * (weights + model.d_model * n_values)
    batch, n_tokens = _batch(trial), model.tokens(n_keys, n_queries)
    if isinstance(model, FactualRecallOneHotShape):
        return batch * n_tokens * model.n_heads * (1 + n_values)
    heads = model.n_heads * (1 + model.d_vo)
    after = model.n_heads * model.d_vo + 2 * model.mlp_width + model.outputs(n_values)
    return n_tokens * model.d_model * heads + batch * (n_tokens * heads + model.d_model * after)


def working_numbers(trial: Trial, database: AnyDatabase, *, in_lanes: bool) -> int:
    """About how many numbers a forward pass keeps for the backward pass, beside the weights."""
    model = trial.model
    if isinstance(model, MemoriserShape):
        return _memoriser_numbers(trial, model, _examples(trial, database))
    facts = _facts(trial, database)
    n_facts, (n_keys, n_queries, n_values) = len(facts), facts.shape
    if isinstance(model, LayerShape | TransformerShape):
        layer = model.layer if isinstance(model, TransformerShape) else model
        tables = (n_keys + n_queries) * layer.n_heads * (2 * layer.d_qk + layer.d_vo + n_values)
        return tables + (n_facts * n_values if in_lanes else 0)
    if isinstance(model, MemoryShape):
        return n_facts * (n_values + model.d_model + (model.width or 0))
    batch, n_tokens = _batch(trial), model.tokens(n_keys, n_queries)
    if isinstance(model, FactualRecallShape):
        heads = model.n_heads * (1 + model.d_vo)
        return n_tokens * heads + batch * (n_tokens + heads + model.d_model + model.mlp_width + model.outputs(n_values))
    return n_tokens * model.n_heads * (1 + n_values) + batch * (n_tokens + n_values)


def _memoriser_products(trial: Trial, model: MemoriserShape, examples: Examples) -> int:
    """Embedded queries, the table of keys, scores, values, pooling, outputs."""
    batch, n_rows = trial.training.batch_size or EXAMPLES, _table_rows(examples)
    heads, n, d_input, d_model = model.n_heads, examples.context_size, examples.d_input, model.d_model
    table = heads * n_rows * d_model * (model.d_qk + model.d_vo)
    folded = heads * n_rows * d_model * (model.d_qk + batch)  # W_Q times the table first
    in_two = heads * batch * model.d_qk * (d_model + n_rows)
    contexts = 0 if examples.number_of_contexts == 1 else heads * n * d_input * (1 + model.d_vo)
    after = heads * model.d_vo * (n + examples.n_outputs)
    return table + min(folded, in_two) + batch * (d_input * d_model + contexts + after)


def _memoriser_numbers(trial: Trial, model: MemoriserShape, examples: Examples) -> int:
    """What the forward pass of a batch keeps, and the vectors themselves where they were given."""
    batch, n_rows, heads = trial.training.batch_size or EXAMPLES, _table_rows(examples), model.n_heads
    shared, n = examples.number_of_contexts == 1, examples.context_size
    own = 0 if shared else n * examples.d_input + heads * (n_rows + n * model.d_vo)
    tables = heads * n_rows * (model.d_qk + model.d_model + model.d_vo)
    each = examples.d_input + model.d_model + heads * (2 * n + model.d_vo) + examples.n_outputs
    given = examples.queries.size + examples.contexts.size if isinstance(examples, VectorExamples) else 0
    return given + tables + batch * (own + each)


def _table_rows(examples: Examples) -> int:
    """Rows of the table of keys: the tokens of the one context, or the dimensions of vectors and the positions."""
    shared = examples.number_of_contexts == 1
    return examples.context_size if shared else examples.d_input + examples.context_size


def _examples(trial: Trial, database: AnyDatabase) -> Examples:
    require_fitting(trial.model, database)
    return cast("Examples", database)


def _facts(trial: Trial, database: AnyDatabase) -> Database:
    require_fitting(trial.model, database)
    return cast("Database", database)


def _batch(trial: Trial) -> int:
    return trial.training.batch_size or SEQUENCES
