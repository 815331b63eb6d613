"""Training of attention layers in a hand-written loop: all epochs of one model in one call, for any shape.

Tables per token t (all keys, then all queries) and head h, with s = score_scale / sqrt(d_qk):

    keys = x_t W_K,   queries = s x_t W_Q,   values = x_t W_V,   readers = W_O U,   circuits = values readers

Per fiber (k, q) with a set S of m values (m = 1 if the database is functional), n facts in total:

    A_h  = sigma(queries[h,q] . (keys[h,k] - keys[h,q]))
    z    = base[q] + sum_h A_h (circuits[h,k] - circuits[h,q]),     base[q] = x_q U + sum_h circuits[h,q]
    loss = sum over v in S of (log sum exp z - z_v) / n

Backward, where a prime (in code: a trailing underscore) denotes the gradient of the loss:

    z' = (m softmax(z) - [v in S]) / n
    base'[q] += z';   circuits'[h,k] += A_h z';   circuits'[h,q] -= A_h z'
    a  = z' . (circuits[h,k] - circuits[h,q]) A_h (1 - A_h)                       (the gradient of the score)
    queries'[h,q] += a (keys[h,k] - keys[h,q]);   keys'[h,k] += a queries[h,q];   keys'[h,q] -= a queries[h,q]

After all fibers, with P = [W_K, s W_Q, W_V] side by side and tables = X P containing keys, queries and values:

    circuits'[h,q] += base'[q];   values' = circuits' readers^T;   readers' = values^T circuits'
    W_O' = readers' U^T;   U' = X_Q^T base' + sum_h W_O^T readers'
    P' = X^T tables';      X' = tables' P^T, and for queries also base' U^T

One model is one sequence of operations in one thread with private scratch memory, so its result does not depend on what
else is running. Rows are padded to whole vectors: padding is zero, except in base (and therefore in z), where it is
minus infinity. Fibers are processed in groups, one step at a time, so the processor always has independent rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from factrank.families.attention.fused.simd import (
    LANES,
    exponential,
    greatest,
    load,
    logistic,
    maximum,
    multiply_add,
    splat,
    store,
    total,
)

Array = NDArray[Any]
Sizes = tuple[int, int, int, int, int, int, int]
"""n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo."""

Facts = tuple[Array, Array, Array, Array]
"""starts, keys, queries, values: fiber f is (keys[f], queries[f]) and has values[starts[f] : starts[f + 1]]."""

Arrays = tuple[Array, ...]
Function = TypeVar("Function", bound=Callable[..., Any])

GROUP = 8192
"""Number of logits in one group of fibers, small enough to remain in a fast cache."""


def compiled(function: Function) -> Function:
    """Compile a function for each type of arguments.

    `fastmath` is off, so the result does not depend on inlining or reordering by the compiler. Cached and freshly
    compiled code give the same bits, and NaN keeps its meaning.
    """
    return cast("Function", njit(error_model="numpy", nogil=True, cache=True)(inspect.unwrap(function)))


# ---------------------------------------------------------------- matrices


@compiled
def padded(size: int) -> int:
    """Round up to a multiple of the vector length."""
    return (size + LANES - 1) // LANES * LANES


@compiled
def add_product(a: Array, b: Array, out: Array) -> None:
    """Add a b to `out`, whose rows are padded like those of b."""
    add_product_of_views(a[:, :], b[:, :], out[:, :])


@compiled
def add_product_of_views(a: Array, b: Array, out: Array) -> None:
    """Add a b to `out` for matrices of any layout, four rows at a time; the last row is repeated when fewer remain."""
    last = out.shape[0] - 1
    for i in range(0, out.shape[0], 4):
        i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        for c in range(out.shape[1] // LANES):
            row, row1, row2, row3 = load(out, i, c), load(out, i1, c), load(out, i2, c), load(out, i3, c)
            for j in range(b.shape[0]):
                other = load(b, j, c)
                row = multiply_add(a[i, j], other, row)
                row1 = multiply_add(a[i1, j], other, row1)
                row2 = multiply_add(a[i2, j], other, row2)
                row3 = multiply_add(a[i3, j], other, row3)
            store(out, i, c, row)
            store(out, i1, c, row1)
            store(out, i2, c, row2)
            store(out, i3, c, row3)


@compiled
def add_rows(rows: Array, out: Array, start: int) -> None:
    """Add `rows` to the rows of `out`, starting at `start`."""
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1] // LANES):
            store(out, start + i, c, load(out, start + i, c) + load(rows, i, c))


@compiled
def copy_transposed(matrix: Array, out: Array) -> None:
    """Write the transposed matrix into the upper left corner of `out`, truncated to the rows of `out`."""
    for j in range(out.shape[0]):
        for i in range(matrix.shape[0]):
            out[j, i] = matrix[i, j]


# ---------------------------------------------------------------- memory


@compiled
def parts(flat: Array, sizes: Sizes) -> Arrays:
    """Return the six weight arrays as views of one flat array, in the order of the layer's fields."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes
    n_tokens, n_qk, n_vo = n_keys + n_queries, n_heads * d_model * d_qk, n_heads * d_model * d_vo
    w_q = n_tokens * d_model
    w_k, w_v, w_o, u = w_q + n_qk, w_q + 2 * n_qk, w_q + 2 * n_qk + n_vo, w_q + 2 * n_qk + 2 * n_vo
    return (
        flat[:w_q].reshape((n_tokens, d_model)),
        flat[w_q:w_k].reshape((n_heads, d_model, d_qk)),
        flat[w_k:w_v].reshape((n_heads, d_model, d_qk)),
        flat[w_v:w_o].reshape((n_heads, d_model, d_vo)),
        flat[w_o:u].reshape((n_heads, d_vo, d_model)),
        flat[u:].reshape((d_model, n_values)),
    )


@compiled
def make_tables(sizes: Sizes, like: Array) -> Arrays:
    """Allocate P, P^T, U, U^T, tables, readers, readers^T, circuits and base. Row h T + t of circuits is (h, t)."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes
    n_tokens, columns, entries = n_keys + n_queries, n_heads * (2 * padded(d_qk) + padded(d_vo)), padded(n_values)
    return (
        np.zeros((d_model, columns), like.dtype),
        np.zeros((columns, padded(d_model)), like.dtype),
        np.zeros((d_model, entries), like.dtype),
        np.zeros((n_values, padded(d_model)), like.dtype),
        np.zeros((n_tokens, columns), like.dtype),
        np.zeros((n_heads * d_vo, entries), like.dtype),
        np.zeros((n_heads * n_values, padded(d_vo)), like.dtype),
        np.zeros((n_heads * n_tokens, entries), like.dtype),
        np.zeros((n_queries, entries), like.dtype),
    )


@compiled
def make_slopes(sizes: Sizes, like: Array) -> Arrays:
    """Allocate the gradients of X, P, W_O, U, tables, readers, circuits and base."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes
    n_tokens, columns, entries = n_keys + n_queries, n_heads * (2 * padded(d_qk) + padded(d_vo)), padded(n_values)
    return (
        np.zeros((n_tokens, padded(d_model)), like.dtype),
        np.zeros((d_model, columns), like.dtype),
        np.zeros((n_heads * d_vo, padded(d_model)), like.dtype),
        np.zeros((d_model, entries), like.dtype),
        np.zeros((n_tokens, columns), like.dtype),
        np.zeros((n_heads * d_vo, entries), like.dtype),
        np.zeros((n_heads * n_tokens, entries), like.dtype),
        np.zeros((n_queries, entries), like.dtype),
    )


@compiled
def make_rows(sizes: Sizes, like: Array) -> tuple[Array, Array, Array, Array]:
    """Allocate one group: the logits (and a spare row), attention weights, largest logits, and sums of exp."""
    group = max(1, GROUP // padded(sizes[2]))
    return (
        np.zeros((group + 1, padded(sizes[2])), like.dtype),
        np.zeros((sizes[4], padded(group)), like.dtype),
        np.zeros(group, like.dtype),
        np.zeros(group, like.dtype),
    )


# ---------------------------------------------------------------- forward


@compiled
def fill_tables(weights: Arrays, sizes: Sizes, scale: float, tables_of: Arrays) -> None:
    """Compute the tables of the forward pass, and the transposed ones for the backward pass."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes
    embedding, w_q, w_k, w_v, w_o, u = weights
    p, p_t, unembedding, unembedding_t, tables, readers, readers_t, circuits, base = tables_of
    n_tokens, qk, width = n_keys + n_queries, padded(d_qk), 2 * padded(d_qk) + padded(d_vo)
    tables[:], readers[:], circuits[:], base[:] = 0, 0, 0, 0
    for h in range(n_heads):
        for j in range(d_model):
            for e in range(d_qk):
                p[j, h * width + e], p[j, h * width + qk + e] = w_k[h, j, e], scale * w_q[h, j, e]
            for e in range(d_vo):
                p[j, h * width + 2 * qk + e] = w_v[h, j, e]
    for j in range(d_model):
        for c in range(n_values):
            unembedding[j, c] = u[j, c]
    copy_transposed(p, p_t)
    copy_transposed(unembedding, unembedding_t)
    add_product(embedding, p, tables)
    add_product(embedding[n_keys:], unembedding, base)
    for h in range(n_heads):
        own_readers, own = readers[h * d_vo : (h + 1) * d_vo], circuits[h * n_tokens : (h + 1) * n_tokens]
        add_product(w_o[h], unembedding, own_readers)
        copy_transposed(own_readers, readers_t[h * n_values : (h + 1) * n_values])
        add_product(tables[:, h * width + 2 * qk : (h + 1) * width], own_readers, own)
        add_rows(own[n_keys:], base, 0)
    base[:, n_values:] = -np.inf


@compiled
def read(facts: Facts, first: int, last: int, sizes: Sizes, tables_of: Arrays, rows: Arrays) -> None:
    """Compute attention weights, logits and largest logits of the fibers of one group."""
    keys, queries, tables, circuits, base = facts[1], facts[2], tables_of[4], tables_of[7], tables_of[8]
    z, weights, largest = rows[0], rows[1], rows[2]
    n_keys, n_heads, n_tokens = sizes[0], sizes[4], sizes[0] + sizes[1]
    qk, width = padded(sizes[5]) // LANES, (2 * padded(sizes[5]) + padded(sizes[6])) // LANES
    for h in range(n_heads):
        for i in range(last - first):
            k, q = keys[first + i], n_keys + queries[first + i]
            score = splat(z.dtype.type(0))
            for c in range(h * width, h * width + qk):
                score = multiply_add(load(tables, q, c + qk), load(tables, k, c) - load(tables, q, c), score)
            weights[h, i] = total(score)
        for c in range(padded(last - first) // LANES):
            store(weights, h, c, logistic(load(weights, h, c)))
    for i in range(last - first):
        k, q = keys[first + i], n_keys + queries[first + i]
        highest = splat(z.dtype.type(-np.inf))
        for c in range(z.shape[1] // LANES):
            row = load(base, q - n_keys, c)
            for h in range(n_heads):
                difference = load(circuits, h * n_tokens + k, c) - load(circuits, h * n_tokens + q, c)
                row = multiply_add(weights[h, i], difference, row)
            store(z, i, c, row)
            highest = maximum(highest, row)
        largest[i] = greatest(highest)


@compiled
def measure(facts: Facts, first: int, last: int, rows: Arrays, margins: Array, probabilities: Array) -> float:
    """Compute margin and smallest probability of each fiber of a group; return its part of n times the loss."""
    starts, values, z, largest, loss = facts[0], facts[3], rows[0], rows[2], 0.0
    spare = z.shape[0] - 1
    for i in range(last - first):
        start, stop = starts[first + i], starts[first + i + 1]
        sums = splat(z.dtype.type(0))
        for c in range(z.shape[1] // LANES):
            row = load(z, i, c)
            store(z, spare, c, row)
            sums = sums + exponential(row - largest[i])
        log_sum, least = largest[i] + np.log(np.float64(total(sums))), np.inf
        for at in range(start, stop):
            logit = np.float64(z[i, values[at]])
            z[spare, values[at]] = -np.inf
            loss += log_sum - logit
            least = min(least, logit)
        highest = splat(z.dtype.type(-np.inf))
        for c in range(z.shape[1] // LANES):
            highest = maximum(highest, load(z, spare, c))
        sound = np.isfinite(log_sum)
        margins[start:stop] = least - greatest(highest) if sound else np.nan
        probabilities[start:stop] = np.exp(least - log_sum) if sound else np.nan
    return loss


# ---------------------------------------------------------------- backward


@compiled
def soften(facts: Facts, first: int, last: int, rows: Arrays) -> None:
    """Turn logits into a multiple of z': exp(z - largest), minus a fraction of their sum at the fiber's values."""
    starts, values, z, largest, sums = facts[0], facts[3], rows[0], rows[2], rows[3]
    for i in range(last - first):
        sums_of_row = splat(z.dtype.type(0))
        for c in range(z.shape[1] // LANES):
            row = exponential(load(z, i, c) - largest[i])
            store(z, i, c, row)
            sums_of_row = sums_of_row + row
        sums[i] = total(sums_of_row)
    for i in range(last - first):
        start, stop = starts[first + i], starts[first + i + 1]
        for at in range(start, stop):
            z[i, values[at]] -= sums[i] / z.dtype.type(stop - start)


@compiled
def spread(facts: Facts, first: int, last: int, sizes: Sizes, tables_of: Arrays, slopes: Arrays, rows: Arrays) -> None:
    """Backpropagate from z' to the tables."""
    starts, keys, queries, tables, circuits = facts[0], facts[1], facts[2], tables_of[4], tables_of[7]
    tables_, circuits_, base_, z, weights, sums = slopes[4], slopes[6], slopes[7], rows[0], rows[1], rows[3]
    real, n_facts, n_keys, n_heads, n_tokens = z.dtype.type, len(facts[3]), sizes[0], sizes[4], sizes[0] + sizes[1]
    qk, width = padded(sizes[5]) // LANES, (2 * padded(sizes[5]) + padded(sizes[6])) // LANES
    for i in range(last - first):
        k, q = keys[first + i], n_keys + queries[first + i]
        factor = real(starts[first + i + 1] - starts[first + i]) / (real(n_facts) * sums[i])
        for c in range(z.shape[1] // LANES):
            row = factor * load(z, i, c)
            store(z, i, c, row)
            store(base_, q - n_keys, c, load(base_, q - n_keys, c) + row)
        for h in range(n_heads):
            weight, here, there, products = weights[h, i], h * n_tokens + k, h * n_tokens + q, splat(real(0))
            for c in range(z.shape[1] // LANES):
                row = load(z, i, c)
                products = multiply_add(row, load(circuits, here, c) - load(circuits, there, c), products)
                store(circuits_, here, c, multiply_add(weight, row, load(circuits_, here, c)))
                store(circuits_, there, c, multiply_add(-weight, row, load(circuits_, there, c)))
            slope = total(products) * (weight * (real(1) - weight))
            for c in range(h * width, h * width + qk):
                difference, query = load(tables, k, c) - load(tables, q, c), slope * load(tables, q, c + qk)
                store(tables_, q, c + qk, multiply_add(slope, difference, load(tables_, q, c + qk)))
                store(tables_, k, c, load(tables_, k, c) + query)
                store(tables_, q, c, load(tables_, q, c) - query)


@compiled
def gather(weights: Arrays, sizes: Sizes, scale: float, tables_of: Arrays, slopes: Arrays, gradient: Arrays) -> None:
    """Backpropagate from the tables to the weights."""
    n_keys, n_queries, n_values, _, n_heads, d_qk, d_vo = sizes
    embedding, _, _, _, w_o, _ = weights
    _, p_t, _, unembedding_t, tables, _, readers_t, _, _ = tables_of
    x_, p_, all_w_o_, unembedding_, tables_, all_readers_, circuits_, base_ = slopes
    n_tokens, qk, width = n_keys + n_queries, padded(d_qk), 2 * padded(d_qk) + padded(d_vo)
    add_product(embedding[n_keys:].T, base_, unembedding_)
    add_product(base_, unembedding_t, x_[n_keys:])
    for h in range(n_heads):
        values, own_ = slice(h * width + 2 * qk, (h + 1) * width), circuits_[h * n_tokens : (h + 1) * n_tokens]
        readers_, w_o_ = all_readers_[h * d_vo : (h + 1) * d_vo], all_w_o_[h * d_vo : (h + 1) * d_vo]
        add_rows(base_, own_, n_keys)
        add_product(own_, readers_t[h * n_values : (h + 1) * n_values], tables_[:, values])
        add_product(tables[:, values].T, own_, readers_)
        add_product(readers_, unembedding_t, w_o_)
        add_product(w_o[h].T, readers_, unembedding_)
    add_product(embedding.T, tables_, p_)
    add_product(tables_, p_t, x_)
    write_gradient(sizes, scale, slopes, gradient)


@compiled
def write_gradient(sizes: Sizes, scale: float, slopes: Arrays, gradient: Arrays) -> None:
    """Write the gradients of the weights, without padding."""
    _, _, n_values, d_model, n_heads, d_qk, d_vo = sizes
    embedding_, w_q_, w_k_, w_v_, w_o_, u_ = gradient
    x_, p_, all_w_o_, unembedding_ = slopes[0], slopes[1], slopes[2], slopes[3]
    qk, width = padded(d_qk), 2 * padded(d_qk) + padded(d_vo)
    for t in range(embedding_.shape[0]):
        for j in range(d_model):
            embedding_[t, j] = x_[t, j]
    for h in range(n_heads):
        for j in range(d_model):
            for e in range(d_qk):
                w_k_[h, j, e], w_q_[h, j, e] = p_[j, h * width + e], scale * p_[j, h * width + qk + e]
            for e in range(d_vo):
                w_v_[h, j, e], w_o_[h, e, j] = p_[j, h * width + 2 * qk + e], all_w_o_[h * d_vo + e, j]
    for j in range(d_model):
        for c in range(n_values):
            u_[j, c] = unembedding_[j, c]


# ---------------------------------------------------------------- training


@compiled
def adam(state: Arrays, gradient: Array, trained: Array, numbers: tuple[float, ...], epoch: int) -> None:
    """Apply one step of Adam (Kingma and Ba 2015) with decoupled weight decay to the trained parts."""
    real = gradient.dtype.type
    _, learning_rate, weight_decay, b1, b2, epsilon = numbers
    rate, root = real(learning_rate / (1 - b1 ** (epoch + 1))), real(1 / (1 - b2 ** (epoch + 1)))
    old1, new1, old2, new2 = real(b1), real(1 - b1), real(b2), real(1 - b2)
    least, shrink = real(epsilon), real(learning_rate * weight_decay)
    for part in range(len(trained)):
        start, stop = trained[part]
        w, m, v, g = state[0][start:stop], state[1][start:stop], state[2][start:stop], gradient[start:stop]
        for i in range(len(w)):
            m[i] = old1 * m[i] + new1 * g[i]
            v[i] = old2 * v[i] + new2 * g[i] * g[i]
            w[i] -= rate * m[i] / (np.sqrt(v[i] * root) + least) + shrink * w[i]


@compiled
def run_epochs(  # noqa: PLR0913, PLR0917
    state: tuple[Array, Array, Array],
    facts: Facts,
    sizes: Sizes,
    options: tuple[tuple[float, ...], int, Array],
    trained: Array,
    span: tuple[int, int],
    checks: Array,
    records: Array,
) -> tuple[int, int]:
    """Train one model from epoch span[0] to span[1], and record its progress at the epochs of `checks`.

    A record is (epoch, loss, correct by argmax, correct at each tau), before the step of that epoch. With a stopping
    column, a run also ends when the loss is NaN or infinite; it always ends before the step. Steps depend only on the
    epoch number, so a run that is interrupted anywhere resumes bit for bit.

    Arguments:
        state: The weights and the two moments of Adam, flat; changed in place.
        facts: The fibers of the database.
        sizes: Sizes of the layer.
        options: The numbers (score scale / sqrt(d_qk), learning rate, weight decay, b1, b2, epsilon), the column of the
            record that stops the run when it counts every fact (0 for none), and the taus.
        trained: Ranges [start, stop) of the weights that are trained.
        span: The first epoch, and the one after the last.
        checks: Epochs at which progress is recorded.
        records: Where records are written, one row each.

    Returns:
        The epoch reached and the number of records.
    """
    numbers, stop_column, taus = options
    scale, n_fibers, n_facts, noted = state[0].dtype.type(numbers[0]), len(facts[1]), len(facts[3]), 0
    tables_of, slopes, rows = make_tables(sizes, state[0]), make_slopes(sizes, state[0]), make_rows(sizes, state[0])
    group, gradient = len(rows[2]), np.zeros_like(state[0])
    weights, gradient_parts = parts(state[0], sizes), parts(gradient, sizes)
    margins, probabilities = np.zeros(n_facts), np.zeros(n_facts)
    for epoch in range(span[0], span[1]):
        checking, loss = noted < len(checks) and checks[noted] == epoch, 0.0
        fill_tables(weights, sizes, scale, tables_of)
        for slope in slopes:
            slope[:] = 0
        for first in range(0, n_fibers, group):
            last = min(first + group, n_fibers)
            read(facts, first, last, sizes, tables_of, rows)
            if checking:
                loss += measure(facts, first, last, rows, margins, probabilities)
            soften(facts, first, last, rows)
            spread(facts, first, last, sizes, tables_of, slopes, rows)
        if checking:
            record = records[noted]
            record[0], record[1], record[2] = epoch, loss / n_facts, np.sum(margins > 0)
            for t in range(len(taus)):
                record[3 + t] = np.sum(probabilities >= taus[t])
            noted += 1
            if stop_column > 0 and (record[stop_column] == n_facts or not np.isfinite(loss)):
                return epoch, noted
        gather(weights, sizes, scale, tables_of, slopes, gradient_parts)
        adam(state, gradient, trained, numbers, epoch)
    return span[1], noted


@compiled
def evaluate(weights: Array, facts: Facts, sizes: Sizes, scale: float, margins: Array, probabilities: Array) -> float:
    """Compute the margin and the smallest probability of every fiber; return the loss."""
    tables_of, rows, loss = make_tables(sizes, weights), make_rows(sizes, weights), 0.0
    fill_tables(parts(weights, sizes), sizes, weights.dtype.type(scale), tables_of)
    for first in range(0, len(facts[1]), len(rows[2])):
        last = min(first + len(rows[2]), len(facts[1]))
        read(facts, first, last, sizes, tables_of, rows)
        loss += measure(facts, first, last, rows, margins, probabilities)
    return loss / len(facts[3])
