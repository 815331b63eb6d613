"""Columns of results: their labels and meanings, each declared once.

Contains: the columns that families declare with their measures, columns of settings and runs, and labels. Add here:
another column that every family has.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.columns.declared_columns import LONG as LONG
    from factrank.experiments.columns.declared_columns import RUN as RUN
    from factrank.experiments.columns.declared_columns import SEARCHES as SEARCHES
    from factrank.experiments.columns.declared_columns import SETTINGS as SETTINGS
    from factrank.experiments.columns.labels import label as label
    from factrank.experiments.columns.labels import short_label as short_label
    from factrank.experiments.columns.measured import OF_EVERY_FAMILY as OF_EVERY_FAMILY
    from factrank.experiments.columns.measured import columns_of as columns_of
    from factrank.experiments.columns.measured import is_measured as is_measured
    from factrank.experiments.columns.measured import measure_of as measure_of
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
