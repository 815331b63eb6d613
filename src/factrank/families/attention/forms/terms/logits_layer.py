r"""Logits with few terms: one head and one coordinate per term, for functional and set-valued tables.

The layer has the *bent* logits (see `tensors.codes.separation_loss`)

$$L[k, q, v] = \beta_v + \sum_{r \le R} c_r[v] \tanh(a_r[k]\, b_r[q] / 2)$$

up to a factor $1 + 2^{-40}$: d_model = R + 1, R heads, d_qk = d_vo = 1, so $(R + 1)(K + Q + V) + 4 R (R + 1)$ numbers.
With $\mu = 2^{-40}$, coordinates $e_1, \dots, e_R$ and the constant coordinate $e_0$,

$$x_k = \sum_r a_r[k]\, e_r + e_0, \quad x_q = \mu \sum_r b_r[q]\, e_r - e_0, \quad
  W_Q^r = e_r / \mu, \quad W_K^r = e_r, \quad W_V^r = e_0, \quad W_O^r = e_r, \quad U[r] = c_r, \quad U[0] = -\beta.$$

Proof. The score of head r is $z = b_r[q] (a_r[k] - \mu b_r[q])$. It adds 1 from the key and -1 from the query with
the weights $\sigma(z)$ and $1 - \sigma(z)$: it writes $2 \sigma(z) - 1 = \tanh(z / 2)$. The direct path adds
$\beta_v + \mu \sum_r b_r[q]\, c_r[v]$. Keys and queries share all R coordinates because queries are scaled by μ there:
their effect on scores and logits is $2^{-40}$ of that of keys, far below the margins. A fiber may have any number of
values.

*Terms from a search.* Bent logits are trained as in `tensors.codes.trained_logits`, with fewer and fewer terms, and
accepted if their layer, rounded to the precision, has positive proved margins.

*Terms from a tensor.* If $T = \sum_r a_r \otimes b_r \otimes c_r$ recalls every fact, so do the bent logits of
$\epsilon a_r$, $b_r$ and $2 c_r / \epsilon$ for small ε: since $|\tanh(x) - x| \le |x|^3 / 3$, a logit is off by at
most $\epsilon^2 \sum_r |c_r|\, |a_r b_r|^3 / 12$. So a layer needs at most as many heads as the effective rank of the
table, in exact arithmetic. Rounding errors grow like 1/ε (see `with_angles` in `from_cp`).
"""

from __future__ import annotations

import time
from functools import partial
from math import ceil

import numpy as np
from jaxtyping import Float

from factrank.certificates import prove
from factrank.databases import Database
from factrank.errors import SearchError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.building import Terms, spread_rows
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch, host_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.proof import AttentionProver
from factrank.nn import Precision
from factrank.tensors.codes import LARGEST_LOGITS, LogitGoal, expected_terms, fewer_terms
from factrank.tensors.core import Core, ZeroOneTensor

QUERY_SCALE = 2.0**-40
"""Scale μ of queries in the coordinates that they share with keys."""

DEPTH = 0.1
"""Margin that training aims at; the rounding errors of float32 are usually below a tenth of it."""

FIRST = 0.5
"""The search starts at this fraction of the terms that a random table needs."""

MOST_TERMS = 4
"""The search ends at this multiple of the terms that a random table needs."""


class Logits(ClosedForm):
    """The form `logits`."""

    name, functional, estimated = "logits", False, True

    def _limit(self, database: Database, precision: Precision) -> str | None:
        if precision == "bfloat16":
            return "attention weights between 0 and 1 have too few digits in bfloat16"
        n_logits = database.n_fibers * database.n_values
        if n_logits > LARGEST_LOGITS:
            return f"{n_logits:,} logits are too many to search ({LARGEST_LOGITS:,} at most)"
        return None

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the shape for a random table of this size; structure makes it smaller."""
        return logits_shape(expected_terms(ZeroOneTensor.of(database)) + 1)

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        core, rng = Core.of(ZeroOneTensor.of(database)), np.random.default_rng(search.seed)
        goal = LogitGoal(
            partial(_proved, database, core, precision), bent=True, depth=DEPTH, first=FIRST, clock=time.thread_time
        )
        most = MOST_TERMS * (expected_terms(core.tensor) + 1)
        # Seconds of computing: on a busy machine the search takes longer, but finds what it finds on a quiet one.
        deadline = time.thread_time() + search.seconds
        from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

        # The problems are small and dense: several BLAS threads would only wait for each other.
        with threadpool_limits(1, user_api="blas"):
            layers = [None, *fewer_terms(core.tensor, (1, most + 1), deadline, rng, goal)]
        if layers[-1] is None:
            raise SearchError(f"no certified terms were found in {ceil(search.seconds)} s; more budget may help")
        return Built(layers[-1], self.name)


def logits_shape(n_terms: int) -> LayerShape:
    """Return the shape of a layer with this many terms.

    >>> logits_shape(10).parameters(14, 55, 14)
    1353
    """
    return LayerShape(d_model=n_terms + 1, n_heads=n_terms, d_qk=1, d_vo=1)


def bent_layer(terms: Terms, biases: Float[np.ndarray, " values"], precision: Precision) -> AttentionLayer:
    """Return the layer whose logits are beta_v + sum_r c_r[v] tanh(a_r[k] b_r[q] / 2), rounded to the precision."""
    (n_keys, n_terms), n_queries, n_values = terms.keys.shape, len(terms.queries), len(terms.values)
    every = np.arange(n_terms)
    embedding = np.zeros((n_keys + n_queries, n_terms + 1))
    embedding[:n_keys, 1:], embedding[n_keys:, 1:] = terms.keys, terms.queries * QUERY_SCALE
    embedding[:n_keys, 0], embedding[n_keys:, 0] = 1.0, -1.0
    w_q, w_k, w_v = np.zeros((3, n_terms, n_terms + 1, 1))
    w_o, unembedding = np.zeros((n_terms, 1, n_terms + 1)), np.zeros((n_terms + 1, n_values))
    w_q[every, 1 + every], w_k[every, 1 + every], w_v[:, 0] = 1 / QUERY_SCALE, 1.0, 1.0
    w_o[every, 0, 1 + every] = 1.0
    unembedding[0], unembedding[1:] = -biases, terms.values.T
    parts = {"embedding": embedding, "w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o, "unembedding": unembedding}
    return host_layer(n_keys, precision, parts)


def _proved(
    database: Database,
    core: Core,
    precision: Precision,
    factors: tuple[Float[np.ndarray, "_ _"], ...],
    biases: Float[np.ndarray, " values"],
) -> AttentionLayer | None:
    """Return the layer of bent logits of a core, if its margins are proved; values without facts are far below."""
    a, b, c = (spread_rows(f, classes) for f, classes in zip(factors, core.classes, strict=True))
    lowest = -1.0 - np.abs(biases).max() - 2 * np.abs(c).max(axis=0).sum()
    used = core.classes[2] >= 0
    layer = bent_layer(Terms(a, b, c), np.where(used, biases[core.classes[2]], lowest), precision)
    return layer if prove(AttentionProver(layer, database)).holds else None
