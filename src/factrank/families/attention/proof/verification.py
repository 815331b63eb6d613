"""Verification: a certificate from the weights and the facts alone, knowing nothing of how the weights came about.

Two parts that share no code. `forward_pass` evaluates every fact with the layer's own forward pass in the layer's own
precision. `proofs` bounds the margins of every evaluation, in float64 with NumPy. A layer is certified when both find
every fact recalled.
"""

from __future__ import annotations

from math import inf

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import ARITHMETIC, fingerprint_of, precision_of, why_refuted
from factrank.databases import Database
from factrank.families.attention.pair_transformer import AnyLayer
from factrank.families.attention.proof.certificate import Certificate
from factrank.families.attention.proof.forward_pass import evaluate
from factrank.families.attention.proof.recall_proofs import prove
from factrank.readouts import require_match


def verify(layer: AnyLayer, database: Database) -> Certificate:
    """Check every fact with the layer's own forward pass, and prove that every other evaluation recalls it too.

    >>> from factrank import layer_from_arrays
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> heads = {name: np.ones((1, 2, 1), np.float32) for name in ("w_q", "w_k", "w_v")}
    >>> layer = layer_from_arrays(
    ...     2, embedding=np.array([[120, 1], [120, -1], [1, 0]], np.float32), w_o=np.array([[[0, 1]]], np.float32),
    ...     unembedding=np.array([[0, 0], [1, -1]], np.float32), **heads
    ... )
    >>> found = verify(layer, facts)
    >>> found.certified, found.recalled, found.worst
    (False, 1, ('Lima', 'country', 'Peru'))
    """
    require_match(layer, database)
    precision = precision_of(layer)
    # Weights may be so large that sums overflow: what is infinite or not a number proves nothing, as it should.
    with np.errstate(over="ignore", invalid="ignore"):
        forward, proof = evaluate(layer, database), prove(layer, database)
        right = forward.margins > 0
    n_facts, recalled = len(database), int(right.sum())
    bounds = None if proof.bounds is None else _of_fibers(proof.bounds, database)
    reasons = [proof.reason] if proof.reason else []
    if recalled < n_facts:
        reasons.insert(0, f"{n_facts - recalled:,} of {n_facts:,} facts are not recalled by the layer's forward pass")
    reasons += [text for text in [why_refuted(forward.margins, bounds, ARITHMETIC[precision])] if text]
    least = int(np.where(np.isnan(forward.margins), -inf, forward.margins).argmin()) if n_facts else None
    return Certificate(
        certified=not reasons,
        facts=n_facts,
        recalled=recalled,
        margin=inf if least is None else float(forward.margins[least]),
        proved_margin=proof.margin,
        worst=None if least is None else _named(database, database.triples[least]),
        silent_fibers=forward.silent_fibers,
        answered=forward.answered,
        artifacts=forward.artifacts,
        arithmetic=proof.arithmetic,
        precision=precision,
        reason="; ".join(reasons),
        weights=fingerprint_of(layer),
        database=database.fingerprint,
    )


def _of_fibers(bounds: Float[np.ndarray, " facts"], database: Database) -> Float[np.ndarray, " facts"]:
    """The least bound of each fact's fiber: the forward pass has one margin for all values of a fiber."""
    pairs = database.triples[:, 0].astype(np.int64) * database.n_queries + database.triples[:, 1]
    _, fiber = np.unique(pairs, return_inverse=True)
    least = np.full(database.n_fibers, inf)
    np.minimum.at(least, fiber, bounds)
    return np.asarray(least[fiber])


def _named(database: Database, triple: Int[np.ndarray, "3"]) -> tuple[str, str, str]:
    key, query, value = (int(code) for code in triple)
    return database.keys[key], database.queries[query], database.values[value]
