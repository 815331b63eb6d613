r"""Closed forms of associative memories: matrices that map features to output embeddings.

Input x has features $\phi_x$ (row x of $\Phi$: its embedding, or the output of a random first layer), and output y has
embedding $u_y$ (row y of U). A matrix A stores f: [N] -> [M] if $\phi_x A \cdot u_y$ is largest at y = f(x) for all x.
With $U_f$ the matrix of rows $u_{f(x)}$ and Y the N x M indicator matrix of f:

    outer product   $\Phi^T U_f$ (Hebb's rule), with centred features if their mean is not 0
    least squares   $\Phi^+ U_f$, minimises $|\Phi A - U_f|$
    two-sided       $\Phi^+ Y (U^T)^+$, minimises $|\Phi A U^T - Y|$
    logistic        minimises the cross-entropy of $\Phi A U^T$, which is convex in A

Logistic regression separates all facts if any matrix does. For N facts with N outputs and embeddings in $R^d$, the
outer product stores up to about $N \ln N / d^2 = 1/8$; the limit of all matrices is 1/2 as d grows
(`tensors.memory_limit`).
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
"""Logistic regression starts from the outer product times this factor."""

LEAST_MARGIN = 0.01
"""Logistic regression stops when all margins exceed this, which is above the float32 rounding error of the logits."""

STEPS = 2_000
MEMORY = 20
"""Steps and history size of L-BFGS."""

FLATTEST = 1e-9
"""Logistic regression also stops at the minimum, when no entry of the gradient exceeds this."""


def closed_form(
    form: MatrixForm, features: Features, outputs: Outputs, values: Values, *, centred: bool = False
) -> Matrix:
    r"""Return the matrix of a closed form.

    Arguments:
        form: Name of the closed form.
        features: $\Phi$, one row per input.
        outputs: U, one row per output.
        values: f(x) for every input x.
        centred: Centre the features of the outer product, which is also where logistic regression starts.
    """
    if form == "outer product":
        return outer_product(features, outputs, values, centred=centred)
    if form == "logistic":
        return logistic(features, outputs, values, centred=centred).matrix
    return (least_squares if form == "least squares" else two_sided)(features, outputs, values)


def outer_product(features: Features, outputs: Outputs, values: Values, *, centred: bool = False) -> Matrix:
    """Return the sum over all facts of the outer product of features and output embedding.

    Features with a nonzero mean, such as the outputs of a ReLU, add the same large term to the scores of all inputs;
    `centred` subtracts the mean over the inputs before storing.
    """
    stored = features - features.mean(axis=0) if centred else features
    return np.asarray(stored.T @ outputs[values])


def least_squares(features: Features, outputs: Outputs, values: Values) -> Matrix:
    """Return the least-squares map from features to output embeddings, exact if the features are independent."""
    return np.asarray(np.linalg.pinv(features) @ outputs[values])


def two_sided(features: Features, outputs: Outputs, values: Values) -> Matrix:
    """Return the matrix whose logits are closest to 1 at f(x) and 0 elsewhere."""
    return np.asarray(np.linalg.pinv(features) @ np.linalg.pinv(outputs.T)[values])


@dataclass(frozen=True, eq=False)
class Logistic:
    """Result of logistic regression: the matrix, its smallest margin and the number of steps."""

    matrix: Matrix
    margin: float
    steps: int

    @property
    def separates(self) -> bool:
        """Whether every fact is recalled."""
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
    """Minimise the mean cross-entropy with L-BFGS in float64, until all margins exceed `margin`.

    If no matrix separates the facts, it stops at the minimum or after `steps` steps. Near the capacity limit, more
    steps may separate facts that the default does not.
    """
    from scipy.optimize import OptimizeResult, minimize  # noqa: PLC0415 - only this form needs it

    problem = _Problem(features, outputs, values)
    start = START_SCALE * outer_product(features, outputs, values, centred=centred)

    def enough(intermediate_result: OptimizeResult[Any]) -> None:
        # `problem.margin` is the margin at the last evaluation, which may be a trial point of the line search.
        if problem.margin > margin and problem.least_margin(intermediate_result.x) > margin:
            raise StopIteration

    if problem.least_margin(start.ravel()) > margin:
        return Logistic(start, problem.margin, 0)
    options: Any = {"maxiter": steps, "maxfun": 4 * steps, "maxcor": MEMORY, "gtol": FLATTEST, "ftol": 0.0}
    found = minimize(problem, start.ravel(), jac=True, method="L-BFGS-B", callback=enough, options=options)
    return Logistic(found.x.reshape(start.shape), problem.least_margin(found.x), int(found.nit))


class _Problem:
    """Cross-entropy and its gradient, and the smallest margin of the last matrix that was evaluated."""

    def __init__(self, features: Features, outputs: Outputs, values: Values) -> None:
        self.features, self.outputs, self.values = features, outputs, values
        self.places = np.arange(len(values)), values
        self.margin = -np.inf

    def __call__(self, flat: Float[np.ndarray, " n"]) -> tuple[float, Float[np.ndarray, " n"]]:
        """Return the mean of log sum_y exp(l_y - l_f) and its gradient; works in place on one N x M array."""
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
        self._leads(flat)
        return self.margin

    def _leads(self, flat: Float[np.ndarray, " n"]) -> Float[np.ndarray, "inputs outputs"]:
        """Return the lead of each output over the correct one; minus infinity at the correct one itself."""
        matrix = flat.reshape(self.features.shape[1], -1)
        logits: Float[np.ndarray, "inputs outputs"] = self.features @ matrix @ self.outputs.T
        logits -= logits[self.places][:, None]
        logits[self.places] = -np.inf
        self.margin = -float(logits.max())
        return logits
