"""Renderers of a study's results.

Contains: the terminal, JSON, Markdown, charts and the HTML page. Add here: another renderer; results are computed in
`factrank.experiments.study`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.study.plain_studies import catalogue_data as catalogue_data
    from factrank.report.study.plain_studies import results_data as results_data
    from factrank.report.study.plain_studies import run_data as run_data
    from factrank.report.study.plain_studies import study_data as study_data
    from factrank.report.study.study_charts import chart_text as chart_text
    from factrank.report.study.study_charts import lines_of as lines_of
    from factrank.report.study.study_charts import theme as theme
    from factrank.report.study.study_figures import Figure as Figure
    from factrank.report.study.study_figures import chart_figure as chart_figure
    from factrank.report.study.study_figures import summary_figure as summary_figure
    from factrank.report.study.study_findings import claims_text as claims_text
    from factrank.report.study.study_findings import fit_text as fit_text
    from factrank.report.study.study_findings import fixed_text as fixed_text
    from factrank.report.study.study_findings import published_text as published_text
    from factrank.report.study.study_findings import quotes_text as quotes_text
    from factrank.report.study.study_findings import spread_text as spread_text
    from factrank.report.study.study_findings import statements_text as statements_text
    from factrank.report.study.study_findings import summary_text as summary_text
    from factrank.report.study.study_findings import verdict_text as verdict_text
    from factrank.report.study.study_page import page_part as page_part
    from factrank.report.study.study_page import script_data as script_data
    from factrank.report.study.study_page import script_policy as script_policy
    from factrank.report.study.study_page import vega_library as vega_library
    from factrank.report.study.study_pictures import pictures as pictures
    from factrank.report.study.study_report import write_report as write_report
    from factrank.report.study.study_terminal import catalogue_table as catalogue_table
    from factrank.report.study.study_terminal import claims_table as claims_table
    from factrank.report.study.study_terminal import dry_run_lines as dry_run_lines
    from factrank.report.study.study_terminal import duration as duration
    from factrank.report.study.study_terminal import failures_text as failures_text
    from factrank.report.study.study_terminal import study_lines as study_lines
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
