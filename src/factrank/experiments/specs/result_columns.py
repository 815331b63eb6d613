"""Declaration of a column of results."""

from __future__ import annotations

from typing import NamedTuple


class ResultColumn(NamedTuple):
    """A column of results: its name, the label shown to users, its unit and its meaning.

    A name that ends in `*` declares all columns with this prefix, such as `recall_*`, one per threshold. A `*` in the
    label is replaced by the number at the end of the column's name.
    """

    name: str
    label: str = ""
    unit: str = ""
    meaning: str = ""
