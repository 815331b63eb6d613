"""Partial correlations: how two columns go together when others are held constant.

With weights w of the units, let S = sum_u w_u M_u be the moments of z = (x, y, 1, c_1, ..., c_m), M_u = sum z z^T over
the rows of unit u. The residuals of x and y after least squares on the constant and the controls c are a.z and b.z,
and

    rho = a^T S b / sqrt(a^T S a  b^T S b)

Residuals are orthogonal to the controls, so a change of the regression coefficients does not change these products to
first order: d(a^T S b) / dw_u = a^T M_u b. Both the regression and the correlation are recomputed on every draw.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

EXPLAINED = 1e-12
"""A column whose residuals have at most this fraction of its squares is determined by the controls."""


def partial_correlation(
    moments: Float[np.ndarray, "units p p"], weights: Float[np.ndarray, "draws units"]
) -> tuple[Float[np.ndarray, " draws"], Float[np.ndarray, "draws units"]]:
    """Return the partial correlation of the first two columns on each draw, and its derivative by each weight.

    Arguments:
        moments: Sums of products of x, y, 1 and the controls, for each unit.
        weights: How often each unit occurs in each draw.

    Returns:
        NaN on draws on which x or y is constant, or determined by the controls.
    """
    total = np.tensordot(weights, moments, axes=1)
    controls = total[:, 2:, 2:]
    coefficients = np.linalg.pinv(controls, rcond=EXPLAINED, hermitian=True) @ total[:, 2:, :2]
    left = np.zeros((len(weights), moments.shape[1], 2))
    left[:, [0, 1], [0, 1]] = 1.0
    left[:, 2:] -= coefficients
    spread = np.einsum("dit,dij,djs->dts", left, total, left)
    squares = total[:, [0, 1], [0, 1]]
    own = np.where(spread[:, [0, 1], [0, 1]] <= EXPLAINED * squares, np.nan, spread[:, [0, 1], [0, 1]])
    scale = np.sqrt(own.prod(axis=1))
    found = spread[:, 0, 1] / scale
    by_unit = np.stack(
        [
            np.einsum("di,uij,dj->du", left[:, :, first], moments, left[:, :, second], optimize=True)
            for first, second in ((0, 1), (0, 0), (1, 1))
        ]
    )
    relative = by_unit[1] / own[:, :1] + by_unit[2] / own[:, 1:]
    return found, by_unit[0] / scale[:, None] - found[:, None] * relative / 2
