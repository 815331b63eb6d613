"""Presentation of results.

Contains: terminal tables, charts, the reports of studies (`study`) and published folders (`publishing`). Add here:
another way to show a result, but nothing that trains or measures.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.answers import answer_tables as answer_tables
    from factrank.report.assumption_tables import assumptions_table as assumptions_table
    from factrank.report.assumption_tables import plain_assumptions as plain_assumptions
    from factrank.report.charts import require_chart_path as require_chart_path
    from factrank.report.charts import save_chart as save_chart
    from factrank.report.charts import sizes_chart as sizes_chart
    from factrank.report.column_tables import columns_text as columns_text
    from factrank.report.constructed_tables import add_details as add_details
    from factrank.report.constructed_tables import claim_in_words as claim_in_words
    from factrank.report.constructed_tables import constructed_table as constructed_table
    from factrank.report.constructed_tables import worst_fact as worst_fact
    from factrank.report.display.description import Description as Description
    from factrank.report.display.description import Kind as Kind
    from factrank.report.display.description import Words as Words
    from factrank.report.display.description import described as described
    from factrank.report.display.description import plain_table as plain_table
    from factrank.report.edited_tables import edited_table as edited_table
    from factrank.report.layer_words import layer_lines as layer_lines
    from factrank.report.measurement_tables import measurement_table as measurement_table
    from factrank.report.measurement_tables import samples_table as samples_table
    from factrank.report.measurement_tables import skipped_table as skipped_table
    from factrank.report.plain_output import json_text as json_text
    from factrank.report.plain_output import many as many
    from factrank.report.plain_output import name_text as name_text
    from factrank.report.plain_output import number as number
    from factrank.report.planned_tables import plan_chart as plan_chart
    from factrank.report.planned_tables import plan_tables as plan_tables
    from factrank.report.planned_tables import validation_text as validation_text
    from factrank.report.recalls import examination_tables as examination_tables
    from factrank.report.recalls import ranking_tables as ranking_tables
    from factrank.report.recalls import recall_tables as recall_tables
    from factrank.report.term_words import terms_in_words as terms_in_words
    from factrank.report.trained_tables import trained_table as trained_table
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
