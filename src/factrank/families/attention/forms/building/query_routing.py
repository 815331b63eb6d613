r"""Routing: attention that depends on the query alone and is exactly 0 or 1.

Queries are partitioned into classes, one per head (or per bundle of heads with equal attention). With $s^h_q = 1$ if q
belongs to class h and -1 otherwise, every head has the score

$$(x_q W_Q^h)(x_k W_K^h - x_q W_K^h) = c\, s^h_q, \qquad d_{qk} = 1,$$

for every key: head h reads the key for the queries of its class, and the query itself for all others. Keys are 0 in the
*constant* coordinates, every query is 1 in one of them, and $W_K$ is $-c_2$ there and 0 elsewhere. Then
$x_k W_K = 0$ and $x_q W_K = -c_2$, and the only remaining condition is $x_q W_Q^h = c_1 s^h_q$ with $c = c_1 c_2$.

Queries that share a constant coordinate must differ in another coordinate. W_Q reads only queries, so this may be a
coordinate that keys use for data: query q is also 1 in its *own* coordinate, inside the block that its own head reads
from keys. This has no side effects: other heads do not read that block, and its own head reads the query with weight 0.
One query of each constant coordinate, its base, needs no own coordinate, and

$$W_Q^h[\text{constant}] = c_1 s^h_{\text{base}}, \qquad W_Q^h[\text{own } q] = c_1 (s^h_q - s^h_{\text{base}}).$$

A layer with one block per query thus needs only one coordinate in addition to its blocks, for any number of queries;
a one-hot code of the query needs Q, and points on a circle 3. All weights are integers that fit into 8 bits, and all
scores are exact in every precision.

Saturation: the logistic function of c is 1 and that of -c is 0 once $e^{-c}$ is less than half of the smallest positive
number, subnormals included: c above 103.98 in float32 (bfloat16 has the same exponents) and above 745.2 in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.errors import InputError
from factrank.nn import Precision

SATURATION: dict[Precision, float] = {"float64": 750.0, "float32": 104.0, "bfloat16": 104.0}
"""Scores of this size make attention exactly 0 or 1."""

STRENGTHS: dict[Precision, tuple[int, int]] = {"float64": (32, 25), "float32": (12, 10), "bfloat16": (12, 10)}
"""c_1 and c_2: their product exceeds saturation by more than rounding can take away, and twice each is below 2^7."""


class Routing(NamedTuple):
    """Rows of the queries, and query-key weights of each class."""

    tokens: Float[np.ndarray, "queries d_model"]
    w_q: Float[np.ndarray, "classes d_model 1"]
    w_k: Float[np.ndarray, "classes d_model 1"]


def block_routing(
    classes: Int[np.ndarray, " queries"],
    constants: Int[np.ndarray, " queries"],
    own: Int[np.ndarray, " queries"],
    d_model: int,
    precision: Precision,
) -> Routing:
    """Route queries to classes; scores are exactly c for the class of the query and -c for all others.

    Arguments:
        classes: the class of each query, from 0; -1 for a query that no head answers.
        constants: the constant coordinate of each query, in which keys are 0.
        own: the own coordinate of each query, in a block that only its class reads; -1 for a base.
        d_model: number of coordinates.
        precision: determines the size of saturated scores.

    >>> rows = block_routing(np.array([0, 1, 2]), np.full(3, 6), np.array([-1, 2, 4]), 7, "float32")
    >>> ((rows.tokens @ rows.w_q[..., 0].T) * -(rows.tokens @ rows.w_k[..., 0].T)).astype(int).tolist()
    [[120, -120, -120], [-120, 120, -120], [-120, -120, 120]]
    """
    n_queries, n_classes = len(classes), int(classes.max(initial=-1)) + 1
    towards_key, towards_query = STRENGTHS[precision]
    signs = np.where(classes[:, None] == np.arange(n_classes), 1.0, -1.0)
    bases = {int(constants[q]): q for q in range(n_queries - 1, -1, -1) if own[q] < 0}
    w_q, w_k = np.zeros((n_classes, d_model, 1)), np.zeros((n_classes, d_model, 1))
    tokens = np.zeros((n_queries, d_model))
    for q, constant in enumerate(constants.tolist()):
        base = signs[bases[constant]] if constant in bases else np.zeros(n_classes)
        tokens[q, constant] = 1.0
        w_q[:, constant, 0] = towards_key * base
        w_k[:, constant, 0] = -towards_query
        if own[q] >= 0:
            tokens[q, own[q]] = 1.0
            w_q[:, own[q], 0] = towards_key * (signs[q] - base)
        elif (base != signs[q]).any():
            raise InputError(f"query {q} needs its own coordinate: another base uses the constant {constant}")
    return Routing(tokens, w_q, w_k)
