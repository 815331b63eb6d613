"""Memory checks before training: the weights of all seeds, and the logits of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from factrank.cli.support.terminal import complain
from factrank.databases import Database
from factrank.host import memory_room, require_memory

if TYPE_CHECKING:
    from factrank.experiments.specs import Training, Trial

BYTES_OF_TRAINING, BYTES_KEPT = 16, 4
"""Bytes per parameter: weight, gradient and Adam's two moments during training; the weight alone afterwards."""

BYTES_OF_STEP, BYTES_OF_CHECK = 16, 8
"""Bytes per logit: the logit, its softmax and their gradients in a step; the logit and a copy while counting recall."""

FRACTION, FRACTION_OF_BATCH = 0.5, 0.125
"""Fraction of the memory allowed for the logits of a step, and the fraction that automatic batches aim for."""


def require_weights_fit(parameters: int, seeds: int) -> None:
    """Raise if the layers do not fit in memory."""
    layers = f"{seeds:,} layers of" if seeds > 1 else "a layer of"
    needed = parameters * (BYTES_OF_TRAINING + BYTES_KEPT * seeds)
    remedy = "choose smaller widths, fewer heads or fewer seeds"
    require_memory(needed, f"{layers} {parameters:,} parameters", remedy)


def fitting_batches(trial: Trial, database: Database) -> Training:
    """Return the training of a trial, with batches if the logits of all facts at once would not fit in memory.

    The fused engine stores no logits. Counting recall takes one logit per fact and value for any batch size; a table
    for which these do not fit is refused.
    """
    import jax  # noqa: PLC0415 - takes a second to load

    from factrank.families.attention.fused import platform_of  # noqa: PLC0415

    training, n_facts, n_values = trial.training, len(database), database.n_values
    if not n_facts or platform_of(trial, database.shape, jax.default_backend()) is not None:
        return training
    logits = f"the logits of {n_facts:,} facts and {n_values:,} values"
    require_memory(BYTES_OF_CHECK * n_facts * n_values, logits, "train on fewer facts or values")
    room = int(FRACTION * memory_room())
    needed = BYTES_OF_STEP * (training.batch_size or n_facts) * n_values
    if needed <= room:
        return training
    if training.batch_size is not None:
        least = room // (BYTES_OF_STEP * n_values)
        step = f"a step on {training.batch_size:,} facts with {n_values:,} values"
        require_memory(2 * needed, step, f"choose a --batch-size of at most {least:,}")
        return training
    largest = int(FRACTION_OF_BATCH * memory_room()) // (BYTES_OF_STEP * n_values)
    size = 2 ** (max(largest, 1).bit_length() - 1)
    complain(
        f"a step on all {n_facts:,} facts with {n_values:,} values would take {needed / 2**30:,.1f} GiB; training in "
        f"batches of {size:,} (--batch-size) instead"
    )
    return replace(training, batch_size=size)
