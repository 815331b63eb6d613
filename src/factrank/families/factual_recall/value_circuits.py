r"""Value circuits: low-rank matrices of the heads that map the vectors read to the answer.

Group g of heads reads the vector $z_g(f)$ for fact f and writes $z_g A_g B_g$, where $A_g B_g = \sum_h W_V^h W_O^h$ has
rank at most (heads of the group) x d_vo. The logits are $\sum_g z_g A_g B_g U$.

*Votes.* Key k votes for all its answers and query q for its range; only the correct answer gets both votes. With X the
embeddings of the tokens read by a group, Y their votes (0 or 1) and U the unembeddings, one row per output, a matrix
with $X M U^T \approx Y$ is

    outer product   $X^T Y U$, in the paper $\sum_k e_k (\sum_q u_{a(k,q)})^T$ and $\sum_q e_q (\sum_{a \in A_q} u_a)^T$
    least squares   $X^+ Y U$
    two-sided       $X^+ Y (U^T)^+$

*Logistic.* The circuits form a linear associative memory of the facts with features $[z_g(f)]_g$. It is fitted to the
correct answers by cross-entropy (`nn.logistic`), and finds full-rank circuits for all facts if there are any.

*Low rank.* Votes are truncated to the rank of each group by SVD. For the logistic form, L-BFGS then optimises the
factors. This problem is not convex, so if it fails, another start may succeed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from factrank.databases import Database
from factrank.nn import MatrixForm, logistic

TARGET = 3.0
"""Smallest margin at which logistic forms stop, far above rounding errors of logits of that size."""

STEPS = 500
MEMORY = 20
"""Number of steps and of stored gradients of L-BFGS."""

START_SIZE = 3.0
"""Mean logit of the correct answers at which low-rank factors start."""

Read = Float[np.ndarray, "facts d_model"]
Outputs = Float[np.ndarray, "outputs d_model"]
Values = Int[np.ndarray, " facts"]
Square = Float[np.ndarray, "d_model d_model"]


class Circuit(NamedTuple):
    """Factors A and B of one group of heads."""

    inward: Float[np.ndarray, "d_model rank"]
    outward: Float[np.ndarray, "rank d_model"]


def fit_circuits(
    read: Sequence[Read], ranks: Sequence[int], outputs: Outputs, values: Values, votes: Sequence[Square]
) -> list[Circuit]:
    """Return the circuits of all groups by the logistic form, which starts from votes when ranks are low."""
    features = np.hstack(read)
    if min(ranks) >= read[0].shape[1]:
        matrix = logistic(features, outputs, values, margin=TARGET).matrix
        return cut_to_rank(np.split(matrix, len(read)), ranks)
    cut = cut_to_rank(votes, ranks)
    right = (features @ np.vstack([a @ b for a, b in cut]) * outputs[values]).sum(axis=1)
    scale = (START_SIZE / max(float(np.abs(right).mean()), 1e-12)) ** 0.5
    start = [Circuit(scale * inward, scale * outward) for inward, outward in cut]
    return _Factors(read, outputs, values).improved(start, STEPS)


def vote_circuit(
    tokens: Float[np.ndarray, "tokens d_model"],
    votes: Float[np.ndarray, "tokens outputs"],
    outputs: Outputs,
    form: MatrixForm,
) -> Square:
    """Return the matrix that makes tokens vote, by one of the three forms; two-sided for the logistic form.

    >>> eye = np.eye(2)
    >>> vote_circuit(eye, np.array([[1.0, 1.0], [0.0, 1.0]]), eye, "outer product").tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    inward = tokens.T if form == "outer product" else np.linalg.pinv(tokens)
    outward = outputs if form in ("outer product", "least squares") else np.linalg.pinv(outputs.T)
    return np.asarray(inward @ votes @ outward)


def votes_of(
    database: Database,
) -> tuple[Float[np.ndarray, "keys values"], Float[np.ndarray, "queries values"]]:
    """Return the votes of keys and of queries: 1 for answers of the key, and for values in the range of the query."""
    n_keys, n_queries, n_values = database.shape
    of_keys, of_queries = np.zeros((n_keys, n_values)), np.zeros((n_queries, n_values))
    of_keys[database.triples[:, 0], database.triples[:, 2]] = 1.0
    of_queries[database.triples[:, 1], database.triples[:, 2]] = 1.0
    return of_keys, of_queries


def cut_to_rank(matrices: Sequence[Square], ranks: Sequence[int]) -> list[Circuit]:
    """Return the best factors of given ranks in the Frobenius norm, padded with zeros if a rank exceeds the size.

    >>> [circuit] = cut_to_rank([np.diag([3.0, 1.0])], [1])
    >>> (circuit.inward @ circuit.outward).round(9).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    circuits = []
    for matrix, rank in zip(matrices, ranks, strict=True):
        left, sizes, right = np.linalg.svd(matrix)
        kept = min(rank, len(sizes))
        root = np.sqrt(sizes[:kept])
        fill = rank - kept
        inward = np.pad(left[:, :kept] * root, ((0, 0), (0, fill)))
        circuits.append(Circuit(inward, np.pad(root[:, None] * right[:kept], ((0, fill), (0, 0)))))
    return circuits


class _Factors:
    """Cross-entropy of the facts as a function of all factors, and the factors with the largest margin so far."""

    def __init__(self, read: Sequence[Read], outputs: Outputs, values: Values) -> None:
        self.read, self.outputs, self.values = read, outputs, values
        self.places = np.arange(len(values)), values
        self.best: tuple[float, Float[np.ndarray, " n"]] = -np.inf, np.empty(0)

    def improved(self, start: Sequence[Circuit], steps: int) -> list[Circuit]:
        """Return the factors with the largest minimum margin found by L-BFGS, which stops at `TARGET`."""
        from scipy.optimize import minimize  # noqa: PLC0415 - only needed by this form

        shapes = [part.shape for circuit in start for part in circuit]

        def parts(flat: Float[np.ndarray, " n"]) -> list[Float[np.ndarray, "_ _"]]:
            pieces = np.split(flat, np.cumsum([rows * columns for rows, columns in shapes])[:-1])
            return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

        def loss(flat: Float[np.ndarray, " n"]) -> tuple[float, Float[np.ndarray, " n"]]:
            return self._loss(flat, parts(flat))

        def enough(_: Float[np.ndarray, " n"]) -> None:
            if self.best[0] >= TARGET:
                raise StopIteration

        flat = np.concatenate([part.ravel() for circuit in start for part in circuit])
        options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": MEMORY, "gtol": 1e-12, "ftol": 0.0}
        minimize(
            cast("Any", loss),
            flat,
            jac=True,
            method="L-BFGS-B",
            callback=cast("Any", enough),
            options=cast("Any", options),
        )
        found = parts(self.best[1] if len(self.best[1]) else flat)
        return [Circuit(inward, outward) for inward, outward in zip(found[::2], found[1::2], strict=True)]

    def _loss(
        self, flat: Float[np.ndarray, " n"], parts: Sequence[Float[np.ndarray, "_ _"]]
    ) -> tuple[float, Float[np.ndarray, " n"]]:
        hidden = [z @ inward for z, inward in zip(self.read, parts[::2], strict=True)]
        logits = sum(h @ outward for h, outward in zip(hidden, parts[1::2], strict=True)) @ self.outputs.T
        right = logits[self.places]
        total = logsumexp(logits, axis=1)
        probabilities = np.exp(logits - total[:, None])
        logits[self.places] = -np.inf
        margin = float((right - logits.max(axis=1)).min())
        if margin > self.best[0]:
            self.best = margin, flat.copy()
        probabilities[self.places] -= 1.0
        pull = probabilities @ self.outputs / len(right)
        gradients = []
        for z, h, outward in zip(self.read, hidden, parts[1::2], strict=True):
            gradients += [z.T @ (pull @ outward.T), h.T @ pull]
        return float((total - right).mean()), np.concatenate([part.ravel() for part in gradients])
