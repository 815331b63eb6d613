"""Constructors shared by the studies of all papers."""

from __future__ import annotations

from functools import partial

from factrank.experiments.statistics import Claim, Quantity, Summary, Where
from factrank.experiments.study import Chart

curves_chart, curves_summary = partial(Chart, data="curves"), partial(Summary, data="curves")
curves_claim = partial(Claim, data="curves")
readings_chart, readings_summary = partial(Chart, data="readings"), partial(Summary, data="readings")
readings_claim = partial(Claim, data="readings")
searches_chart, searches_summary = partial(Chart, data="searches"), partial(Summary, data="searches")
searches_claim = partial(Claim, data="searches")
"""Charts, summaries and claims of recorded epochs, of readings and of searches."""


def mean_difference(column: str, where: Where, other: Where, within: tuple[str, ...] = ()) -> Quantity:
    """Returns the mean of a column in some rows minus its mean in other rows."""
    return Quantity(
        "mean", column, within=within, where=where, minus=Quantity("mean", column, within=within, where=other)
    )
