r"""Attention map: one head whose attention weights encode the facts.

Let n be the number of values in use, with places $j_v = 0, \dots, n-1$ and centred labels $x_v = j_v - (n-1)/2$. A key
stores the score that gives it the weight $A[k,q] = (j_{f(k,q)} + 1/2)/n$. There is one coordinate per query, and a
last one:

$$x_k = (1 + Z[k,:],\; 1), \quad Z[k,q] = \ln \frac{j + 1/2}{n - j - 1/2}, \qquad x_q = (e_q,\; -1).$$

W_Q is $\sqrt{Q}$ times the identity on the query coordinates and W_K the identity there, d_qk = Q, so the score is
$e_q \cdot (1 + Z[k,:] - e_q) = Z[k,q]$. W_V reads the last coordinate and W_O writes n/2 times it back, which makes it

$$y - 1, \quad y = \frac{n}{2}\bigl(A - (1 - A)\bigr) = n A - \frac{n}{2} = x_{f(k,q)}.$$

The unembedding reads it with $2 x_v$, and every query coordinate with $1 + 2 x_v - x_v^2$:

$$L[k,q,v] = 1 + 2 x_v y - x_v^2 = 1 + x_f^2 - (x_v - x_f)^2,$$

a margin of at least 1 in exact arithmetic, also over values that no fact uses, whose logits are 0. Heads and d_vo
therefore impose no hard limit: d_model = Q + 1, H = 1 and d_vo = 1 store everything in the query-key circuit, and only
precision limits it. Attention does not saturate. With unit roundoff u, a term of a logit undergoes at most 12
roundings, and the sizes of the terms add up to less than $7n^2/4 + 2n$. The error of the weight is at most
$(0.85 (2Q + 5) + 6) u$ (score, logistic function, stored numbers), which changes a margin d^2 by 2dn times that. Recall
is proved if

$$48 (n + 1)^2 u + (4Q + 24)(n + 1) u \le 1:$$

589 values for 10 queries in float32, 13,698,537 in float64, and none in bfloat16.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import used_queries, used_values
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch, host_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import SIGNIFICAND, Precision


def most_levels(n_queries: int, precision: Precision) -> int:
    """Return the largest number of values that attention weights provably distinguish.

    >>> [most_levels(10, precision) for precision in ("bfloat16", "float32", "float64")]
    [0, 589, 13698537]
    >>> most_levels(1000, "bfloat16")
    0
    """
    half = (n_queries + 6) / 24
    return max(int(sqrt(half**2 + 2.0 ** SIGNIFICAND[precision] / 48) - half) - 1, 0)


def score_of(places: Int[np.ndarray, " n"], n_values: int) -> Float[np.ndarray, " n"]:
    """Return the entry of a key for the values at these places: 1 + Z.

    >>> score_of(np.array([0, 1]), 2).round(4).tolist()
    [-0.0986, 2.0986]
    """
    level = places + 0.5
    return np.asarray(1 + np.log(level / (n_values - level)))


class AttentionMap(ClosedForm):
    """The form `attention-map`."""

    name = "attention-map"

    def _limit(self, database: Database, precision: Precision) -> str | None:
        n_values, most = len(used_values(database)), most_levels(database.n_queries, precision)
        if n_values <= most:
            return None
        if most < 2:
            return f"attention weights in {precision} are not proved to tell even two values apart; it takes float32"
        return f"attention weights in {precision} are proved to tell {most:,} values apart; there are {n_values:,}"

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return one head with d_model = Q + 1 and d_qk = Q, for the queries with facts."""
        n_queries = len(used_queries(database))
        return LayerShape(n_queries + 1, 1, n_queries, 1)

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        used, values, d_model = used_queries(database), used_values(database), self.shape(database, precision).d_model
        starts = np.full(database.n_queries, -1)
        starts[used] = np.arange(len(used))
        place = np.zeros(database.n_values, dtype=np.int64)
        place[values] = np.arange(len(values))
        embedding = np.ones((database.n_keys + database.n_queries, d_model))
        embedding[database.n_keys :, :-1] = starts[:, None] == np.arange(len(used))
        embedding[database.n_keys :, -1] = -1.0
        embedding[database.triples[:, 0], starts[database.triples[:, 1]]] = score_of(
            place[database.triples[:, 2]], len(values)
        )
        last, identity = np.eye(d_model)[-1], np.eye(d_model, len(used))[None]
        labels = np.arange(len(values)) - (len(values) - 1) / 2
        unembedding = np.zeros((d_model, database.n_values))
        unembedding[:-1, values] = 1 + 2 * labels - labels**2
        unembedding[-1, values] = 2 * labels
        heads = {"w_q": sqrt(len(used)) * identity, "w_k": identity}
        heads |= {"w_v": last[None, :, None], "w_o": len(values) / 2 * last[None, None, :]}
        layer = host_layer(database.n_keys, precision, {"embedding": embedding, **heads, "unembedding": unembedding})
        return Built(layer, self.name, _editing(values, starts))


def _editing(values: Int[np.ndarray, " used"], starts: Int[np.ndarray, " queries"]) -> dict[str, Any]:
    """Return the editing data: one group, with the last coordinate as output and the query coordinates as constants.

    A key stores `score_of` the place of a value among `levels` levels; another number of levels needs new weights.
    """
    served = np.flatnonzero(starts >= 0)
    group = {"values": values.tolist(), "output": len(served), "constants": starts[served].tolist()}
    classes = np.where(starts >= 0, 0, -1).tolist()
    by_query = {"group": classes, "class": classes, "start": starts.tolist()}
    return {"code": "attention map", "levels": len(values), "groups": [group], "queries": by_query}
