"""Claims: published statements as data.

A claim consists of a quantity of a table of results, the published result (a number with a tolerance, or a direction)
and its source. `factrank.experiments.statistics.verdicts` judges it, `statements` combines the claims about one
published sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, get_args

from factrank.errors import InputError
from factrank.experiments.statistics.expressions import Where, columns_in, frozen_where
from factrank.experiments.store import DataName, require_data

Kind = Literal[
    "mean",
    "slope",
    "correlation",
    "rank correlation",
    "best",
    "least",
    "least near best",
    "first",
    "greatest",
    "fraction",
]
Direction = Literal["greater", "less", "rises", "falls", "flat", "not rising"]

OF_ONE_COLUMN = ("mean", "greatest")
"""Kinds that do not take a second column."""
OF_SLACK = ("least", "least near best")
"""Kinds that take a slack."""
CORRELATIONS = ("correlation", "rank correlation")
"""Kinds that can hold other columns constant."""


@dataclass(frozen=True)
class Quantity:
    """A number computed from the rows of a table.

    Arguments:
        kind: One of

            - "mean": the mean of `column`
            - "slope": the slope of its least-squares line against another column, `against`
            - "correlation", "rank correlation": Pearson's or Spearman's correlation with `against`
            - "best": the value of `against` with the largest mean of `column` (the average of several; undefined if all
              means are equal)
            - "least": the smallest value of `against` whose mean of `column` is within `slack` of the mean at the
              largest value of `against`
            - "least near best": the smallest value of `against` whose mean of `column` is within `slack` of the largest
              mean
            - "first": the smallest value of `against` with `column >= 0`, for each seed, averaged over seeds
            - "greatest": the maximum of `column` for each seed, averaged over seeds
            - "fraction": the sum of `column` divided by the sum of `against`
        column: A column, or arithmetic on columns (`factrank.experiments.statistics.expressions`).
        against: Another column, or arithmetic.
        within: Compute the quantity for each group of rows with equal values in these columns, then average over
            groups.
        where: Only use rows with these values.
        minus: A quantity to subtract, computed on the same seeds.
        slack: See "least" and "least near best".
        given: Columns to hold constant, for correlations: the partial correlation, of what least squares on these
            columns leaves of both (of the ranks of all, for "rank correlation").
    """

    kind: Kind
    column: str
    against: str = ""
    within: tuple[str, ...] = ()
    where: Where = ()
    minus: Quantity | None = None
    slack: int | float = 0.0
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"the kind of a quantity must be one of {', '.join(get_args(Kind))}; got {self.kind!r}")
        if bool(self.against) == (self.kind in OF_ONE_COLUMN):
            needs = "takes no second column" if self.kind in OF_ONE_COLUMN else "needs a second column, `against`"
            raise InputError(f"a quantity of kind {self.kind} {needs}; got {self.against!r}")
        if isinstance(self.slack, bool) or not (isfinite(self.slack) and self.slack >= 0):
            raise InputError(f"the slack of a quantity must be 0 or more; got {self.slack!r}")
        if self.slack and self.kind not in OF_SLACK:
            raise InputError(f"slack requires one of the kinds {', '.join(OF_SLACK)}; got {self.kind}")
        object.__setattr__(self, "slack", float(self.slack))
        within: Any = self.within
        object.__setattr__(self, "within", (within,) if isinstance(within, str) else tuple(within))
        object.__setattr__(self, "where", frozen_where(self.where))
        given: Any = self.given
        object.__setattr__(self, "given", (given,) if isinstance(given, str) else tuple(given))
        if self.given and self.kind not in CORRELATIONS:
            raise InputError(f"columns are held constant (`given`) in correlations; got the kind {self.kind}")
        self.columns  # noqa: B018 - raises if an expression is invalid

    @property
    def columns(self) -> list[str]:
        """Columns that the quantity depends on."""
        return [name for text in self.texts for name in columns_in(text)]

    @property
    def texts(self) -> list[str]:
        """Columns and expressions that the quantity names."""
        selected = (name for name, _ in self.where)
        return [self.column, *filter(None, [self.against]), *self.within, *self.given, *selected]

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """The quantity itself, followed by the quantities that are subtracted."""
        return (self, *(self.minus.parts if self.minus else ()))


@dataclass(frozen=True)
class Claim:
    """A published statement: its wording, its source, and the quantity that it is about.

    Arguments:
        published: Published number or direction; None if no comparable result was published, and `note` explains why.
        tolerance: Equivalence margin: the largest difference from a published number that still counts as the same, or
            the bound for "flat" and "not rising".
        place: Section, figure or table of the statement.
        quote: The published sentence. Claims with the same quote test one statement together (`statements`).
        by_construction: Why the claim cannot fail, such as a theorem; it is then checked, but not counted.
        kinds: A column, or arithmetic, that tells the kind of table. The interval is then over kinds, of which there
            must be at least 10; otherwise it is over tables, and kinds are fixed.
        data: Table that the quantity is computed from: one row per trial, per trial and recorded epoch or reading, or
            per search (`factrank.experiments.store.result_tables`).
    """

    name: str
    statement: str
    quantity: Quantity
    published: int | float | Direction | None
    tolerance: int | float = 0.0
    place: str = ""
    quote: str = ""
    note: str = ""
    extension: bool = False
    """True for our extension, which is not in the paper; judged by the same rules but counted separately."""
    data: DataName = "trials"
    by_construction: str = ""
    kinds: str = ""

    def __post_init__(self) -> None:
        require_data(f"claim {self.name}: the data", self.data)
        if self.published is None:
            if self.tolerance:
                raise InputError(f"claim {self.name}: a tolerance requires a published result; got {self.tolerance}")
        elif isinstance(self.published, str):
            if self.published not in get_args(Direction):
                choices = ", ".join(get_args(Direction))
                raise InputError(f"claim {self.name}: the direction must be one of {choices}; got {self.published!r}")
        elif isinstance(self.published, bool) or not isfinite(self.published):
            raise InputError(f"claim {self.name}: a published number must be finite; got {self.published!r}")
        else:
            object.__setattr__(self, "published", float(self.published))
        if isinstance(self.tolerance, bool) or not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise InputError(f"claim {self.name}: the tolerance must be 0 or more; got {self.tolerance!r}")
        if self.published == "flat" and not self.tolerance:
            raise InputError(f"claim {self.name}: flat requires a tolerance above 0, since no measurement is exactly 0")
        if isinstance(self.published, float) and not (self.tolerance or self.by_construction):
            raise InputError(
                f"claim {self.name}: a published number requires a tolerance above 0, the difference from "
                f"{self.published:g} that still counts as the same"
            )
        object.__setattr__(self, "tolerance", float(self.tolerance))
