r"""Closed forms of associative memories: a matrix between given features and given output embeddings.

Input x has the features $\phi_x$ (row x of $\Phi$: its embedding, or what a random first layer makes of it), output y
the embedding $u_y$ (row y of U). A matrix A stores f: [N] -> [M] when $\phi_x A \cdot u_y$ is largest at y = f(x). With
$U_f$ the rows $u_{f(x)}$ and Y the N x M indicator of f:

    outer product   $\Phi^T U_f$, Hebb's rule; of centred features where they do not have mean 0 by themselves
    least squares   $\Phi^+ U_f$, which minimises $|\Phi A - U_f|$
    two-sided       $\Phi^+ Y (U^T)^+$, which minimises $|\Phi A U^T - Y|$
    logistic        the minimiser of the cross-entropy of $\Phi A U^T$, which is convex in A

Logistic regression separates all facts if any matrix does. For N facts with N outputs and embeddings in $R^d$ the outer
product holds about $N \ln N / d^2 = 1/8$, the limit of all matrices is 1/2 as d grows (`tensors.memory_limit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

MatrixForm = Literal["outer product", "least squares", "two-sided", "logistic"]
Features = Float[np.ndarray, "inputs features"]
Outputs = Float[np.ndarray, "outputs d_model"]
Values = Int[np.ndarray, " inputs"]
Matrix = Float[np.ndarray, "features d_model"]

START_SCALE = 10.0
"""Logistic regression starts from so many times the outer product."""

LEAST_MARGIN = 0.01
"""It ends when all margins are at least this: beyond the rounding of float32 at the sizes that logits have then."""

STEPS = 2_000
MEMORY = 20
"""Steps and remembered gradients of L-BFGS."""

FLATTEST = 1e-9
"""Where no matrix separates the facts it ends at the minimum: no entry of the gradient exceeds this."""


def closed_form(
    form: MatrixForm, features: Features, outputs: Outputs, values: Values, *, centred: bool = False
) -> Matrix:
    """The matrix of the form of this name; `centred` as in `outer_product`, where logistic regression starts too."""
    if form == "outer product":
        return outer_product(features, outputs, values, centred=centred)
    if form == "logistic":
        return logistic(features, outputs, values, centred=centred).matrix
    return (least_squares if form == "least squares" else two_sided)(features, outputs, values)


def outer_product(features: Features, outputs: Outputs, values: Values, *, centred: bool = False) -> Matrix:
    """The sum of the outer products of features and output embeddings of all facts.

    Features that share a mean, such as those behind a relu, add the same large term to the scores of all inputs;
    `centred` subtracts the mean over the inputs from the stored side.
    """
    stored = features - features.mean(axis=0) if centred else features
    return np.asarray(stored.T @ outputs[values])


def least_squares(features: Features, outputs: Outputs, values: Values) -> Matrix:
    """The matrix that takes features closest to the output embeddings; exact while the features are independent."""
    return np.asarray(np.linalg.pinv(features) @ outputs[values])


def two_sided(features: Features, outputs: Outputs, values: Values) -> Matrix:
    """The matrix whose logits are closest to 1 at f(x) and 0 elsewhere."""
    return np.asarray(np.linalg.pinv(features) @ np.linalg.pinv(outputs.T)[values])


@dataclass(frozen=True, eq=False)
class Logistic:
    """What logistic regression found: the matrix, its least margin, and the steps it took."""

    matrix: Matrix
    margin: float
    steps: int

    @property
    def separates(self) -> bool:
        """Whether every fact is right."""
        return self.margin > 0


def logistic(
    features: Features,
    outputs: Outputs,
    values: Values,
    *,
    margin: float = LEAST_MARGIN,
    steps: int = STEPS,
    centred: bool = False,
) -> Logistic:
    """L-BFGS on the mean cross-entropy until all margins exceed `margin`, in float64.

    Where no matrix separates the facts it ends at the minimum or after so many `steps`; near the limit of what a memory
    can hold more steps may separate facts that these do not.
    """
    from scipy.optimize import OptimizeResult, minimize  # noqa: PLC0415 - only this form needs it

    problem = _Problem(features, outputs, values)
    start = START_SCALE * outer_product(features, outputs, values, centred=centred)

    def enough(intermediate_result: OptimizeResult[Any]) -> None:
        # The margin noted is that of the point evaluated last, which may be a trial of the line search beyond this one.
        if problem.margin > margin and problem.least_margin(intermediate_result.x) > margin:
            raise StopIteration

    if problem.least_margin(start.ravel()) > margin:
        return Logistic(start, problem.margin, 0)
    options: Any = {"maxiter": steps, "maxfun": 4 * steps, "maxcor": MEMORY, "gtol": FLATTEST, "ftol": 0.0}
    found = minimize(problem, start.ravel(), jac=True, method="L-BFGS-B", callback=enough, options=options)
    return Logistic(found.x.reshape(start.shape), problem.least_margin(found.x), int(found.nit))


class _Problem:
    """The cross-entropy and its gradient, and the least margin of the matrix that was evaluated last."""

    def __init__(self, features: Features, outputs: Outputs, values: Values) -> None:
        self.features, self.outputs, self.values = features, outputs, values
        self.places = np.arange(len(values)), values
        self.margin = -np.inf

    def __call__(self, flat: Float[np.ndarray, " n"]) -> tuple[float, Float[np.ndarray, " n"]]:
        """Mean of log sum_y exp(l_y - l_f), and its gradient; one N x M array is worked on in place."""
        leads = self._leads(flat)
        top = np.maximum(leads.max(axis=1), 0.0)
        probabilities = np.exp(np.subtract(leads, top[:, None], out=leads), out=leads)
        probabilities[self.places] = np.exp(-top)
        total = probabilities.sum(axis=1)
        probabilities /= total[:, None] * len(total)
        probabilities[self.places] -= 1 / len(total)
        gradient = self.features.T @ (probabilities @ self.outputs)
        return float((np.log(total) + top).mean()), gradient.ravel()

    def least_margin(self, flat: Float[np.ndarray, " n"]) -> float:
        """The least margin of this matrix."""
        self._leads(flat)
        return self.margin

    def _leads(self, flat: Float[np.ndarray, " n"]) -> Float[np.ndarray, "inputs outputs"]:
        """By how much each output leads the right one; minus infinity at the right one itself."""
        matrix = flat.reshape(self.features.shape[1], -1)
        logits: Float[np.ndarray, "inputs outputs"] = self.features @ matrix @ self.outputs.T
        logits -= logits[self.places][:, None]
        logits[self.places] = -np.inf
        self.margin = -float(logits.max())
        return logits
