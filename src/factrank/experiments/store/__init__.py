"""Store: results of trials in immutable Parquet parts, and their weights.

Contains: rows and columns, parts and tables, weights, detection of lost data, exports. Add here: another kind of result
that every family can have.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.store.columns import PUBLISHED_ONLY as PUBLISHED_ONLY
    from factrank.experiments.store.columns import READING as READING
    from factrank.experiments.store.columns import RUN_COLUMNS as RUN_COLUMNS
    from factrank.experiments.store.columns import TRIAL_GROUPS as TRIAL_GROUPS
    from factrank.experiments.store.columns import WEIGHTS_KEPT as WEIGHTS_KEPT
    from factrank.experiments.store.columns import Row as Row
    from factrank.experiments.store.columns import failed_row as failed_row
    from factrank.experiments.store.columns import in_order as in_order
    from factrank.experiments.store.columns import plain_text as plain_text
    from factrank.experiments.store.columns import row_of as row_of
    from factrank.experiments.store.columns import trial_columns as trial_columns
    from factrank.experiments.store.columns import trial_of as trial_of
    from factrank.experiments.store.exports import as_data as as_data
    from factrank.experiments.store.exports import write_table as write_table
    from factrank.experiments.store.losses import CURVES as CURVES
    from factrank.experiments.store.losses import READINGS as READINGS
    from factrank.experiments.store.parquet_parts import ARROW as ARROW
    from factrank.experiments.store.parquet_parts import as_texts as as_texts
    from factrank.experiments.store.parquet_parts import table_of as table_of
    from factrank.experiments.store.result_tables import ROW_NAMES as ROW_NAMES
    from factrank.experiments.store.result_tables import STORED as STORED
    from factrank.experiments.store.result_tables import DataName as DataName
    from factrank.experiments.store.result_tables import Tables as Tables
    from factrank.experiments.store.result_tables import many_rows as many_rows
    from factrank.experiments.store.result_tables import plural as plural
    from factrank.experiments.store.result_tables import require_data as require_data
    from factrank.experiments.store.store import Store as Store
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
