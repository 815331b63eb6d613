"""Fits: a summary as a linear combination of terms, and how well it predicts settings that were left out.

With one row per setting, values y and terms X, the coefficients c minimise |X c - y|^2. The leave-one-out error of
setting i is (y - X c)_i / (1 - H_ii), with the hat matrix H = X (X^T X)^-1 X^T. Both errors are reported next to the
errors of the constant fit, the mean, as a baseline.

On request, each coefficient has a 95 % confidence interval over n settings and p terms, by Student's t:

    c_j +- t_{n-p}(0.975) sqrt(s^2 (X^T X)^-1_jj),    s^2 = |X c - y|^2 / (n - p)

This assumes that residuals are independent and identically distributed. Claims, in contrast, have intervals over seeds.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from scipy.special import stdtrit

from factrank.errors import InputError
from factrank.experiments.statistics.expressions import columns_in, numbers
from factrank.experiments.statistics.summaries import QUANTITY, Summary
from factrank.experiments.study import require_name

NEARLY_ONE = 1 - 1e-9
"""A setting with at least this leverage determines a coefficient alone, so it cannot be left out."""


@dataclass(frozen=True)
class Fit:
    """Values of a summary as a linear combination of terms, each an expression over its settings; "1" is the constant.

    Arguments:
        summary: Name of the summary.
        terms: Expressions over the settings of the summary.
        quantity: Label of the quantity; optional if the summary has only one.
        intervals: Whether to compute intervals of the coefficients.
    """

    name: str
    title: str
    summary: str
    terms: tuple[str, ...]
    quantity: str = ""
    intervals: bool = False

    def __post_init__(self) -> None:
        require_name("the name of a fit", self.name)
        terms: Any = self.terms
        object.__setattr__(self, "terms", (terms,) if isinstance(terms, str) else tuple(terms))
        if not self.terms or len(set(self.terms)) < len(self.terms):
            raise InputError(f"fit {self.name}: expected one or more different terms; got {self.terms}")
        try:
            for term in self.terms:
                columns_in(term)  # raises if an expression is invalid
        except InputError as error:
            raise InputError(f"fit {self.name}: {error}") from None


@dataclass(frozen=True)
class FitResult:
    """Result of a fit: coefficients in the order of the terms, and root mean square errors.

    `left_out` is the leave-one-out error; `constant_error` and `constant_left_out` are the errors of the mean. Numbers
    that are not defined are None, and `why` gives the reason. `n_without` settings had no value.
    """

    name: str
    quantity: str
    terms: tuple[str, ...]
    n_settings: int
    n_without: int = 0
    coefficients: tuple[float, ...] | None = None
    error: float | None = None
    left_out: float | None = None
    r_squared: float | None = None
    constant_error: float | None = None
    constant_left_out: float | None = None
    why: str = ""
    intervals: tuple[tuple[float, float], ...] | None = None
    """Intervals of the coefficients, if requested and if there are more settings with a value than terms."""

    @property
    def formula(self) -> str:
        """The fit as a formula with short column names; empty if there is no fit.

        >>> FitResult("rule", "best d_vo", ("1", "model.d_model"), 9, coefficients=(-0.5, 0.25)).formula
        'best d_vo = -0.5 + 0.25 d_model'
        """
        if self.coefficients is None:
            return ""
        text = ""
        for term, coefficient in zip(self.terms, self.coefficients, strict=True):
            sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
            text += f"{sign}{abs(coefficient):.3g}{'' if term == '1' else f' {_shown(term)}'}"
        return f"{self.quantity} = {text}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the formula."""
        return asdict(self) | {"formula": self.formula}


def require_columns_of(fit: Fit, summary: Summary) -> None:
    """Raise an `InputError` unless the summary has the quantity and the settings that a fit uses."""
    labels = [label for label, _ in summary.quantities]
    if fit.quantity not in (labels if len(labels) > 1 else ["", *labels]):
        raise InputError(f"fit {fit.name}: quantity must be one of {', '.join(labels)}; got {fit.quantity!r}")
    unknown = [
        name for term in fit.terms if term not in summary.over for name in columns_in(term) if name not in summary.over
    ]
    if unknown:
        settings = ", ".join(summary.over) or "no setting"
        raise InputError(
            f"fit {fit.name}: {unknown[0]!r} is not a setting of summary {summary.name}; it has {settings}"
        )


def fit_result(fit: Fit, table: pa.Table) -> FitResult:
    """Fit the table of a summary by least squares; settings without a value are excluded and counted.

    >>> table = pa.table({"quantity": ["best"] * 4, "d": [1, 2, 3, 4], "value": [3.0, 5.0, 7.0, 9.0]})
    >>> result = fit_result(Fit("line", "A line", "best", ("1", "d")), table)
    >>> result.formula, round(result.error, 9), round(result.constant_error, 3)
    ('best = 1 + 2 d', 0.0, 2.236)
    """
    labels = table[QUANTITY].to_pylist()
    quantity = fit.quantity or next(iter(labels), "value")
    table = table.filter(pa.array([label == quantity for label in labels], pa.bool_()))
    y = numbers(table, "value")
    terms = np.stack([numbers(table, term) for term in fit.terms], axis=1)
    known = np.isfinite(y) & np.isfinite(terms).all(axis=1)
    n_settings = int(known.sum())
    base = FitResult(fit.name, quantity, fit.terms, n_settings, int((~known).sum()))
    return _fitted(base, terms[known], y[known], fit.intervals)


def _fitted(
    base: FitResult,
    terms: Float[np.ndarray, "settings terms"],
    y: Float[np.ndarray, " settings"],
    wants_intervals: bool,
) -> FitResult:
    n_settings, n_terms = terms.shape
    plain = asdict(base)
    if n_settings < n_terms:
        return FitResult(**plain | {"why": f"{n_settings} settings with a value: too few for {n_terms} terms"})
    scale = np.linalg.norm(terms, axis=0)
    scale[scale == 0] = 1.0
    coefficients, _, rank, _ = np.linalg.lstsq(terms / scale, y)
    if rank < n_terms:
        return FitResult(**plain | {"why": "over these settings one term is a combination of the others"})
    coefficients[abs(coefficients) <= 1e-13 * np.linalg.norm(y)] = 0.0  # rounding error
    residuals = y - terms @ (coefficients / scale)
    basis, _ = np.linalg.qr(terms / scale)
    leverage = (basis**2).sum(axis=1)
    around_mean = y - y.mean()
    plain["coefficients"] = tuple((coefficients / scale).tolist())
    plain["error"] = _root_mean_square(residuals)
    plain["constant_error"] = _root_mean_square(around_mean)
    if (around_mean**2).sum() > 1e-24 * (y**2).sum():
        plain["r_squared"] = float(1 - (residuals**2).sum() / (around_mean**2).sum())
    if wants_intervals and n_settings > n_terms:
        inverse = np.linalg.inv(np.linalg.qr(terms / scale, mode="r"))
        spread = np.sqrt((residuals**2).sum() / (n_settings - n_terms) * (inverse**2).sum(axis=1))
        reach = float(stdtrit(n_settings - n_terms, 0.975)) * spread
        ends = (coefficients - reach) / scale, (coefficients + reach) / scale
        plain["intervals"] = tuple(zip(*(end.tolist() for end in ends), strict=True))
    if n_settings > 1:
        plain["constant_left_out"] = _root_mean_square(around_mean * n_settings / (n_settings - 1))
    if (leverage < NEARLY_ONE).all():
        plain["left_out"] = _root_mean_square(residuals / (1 - leverage))
    else:
        plain["why"] = "one setting alone determines a coefficient, so that it cannot be left out"
    return FitResult(**plain)


def _root_mean_square(errors: Float[np.ndarray, " settings"]) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _shown(term: str) -> str:
    """Shorten the column names in a term; sums are put in parentheses."""
    short = re.sub(r"[A-Za-z_]\w*\.(?=[A-Za-z_])", "", term)
    return f"({short})" if " + " in short or " - " in short else short
