"""The report of a study: its page, its charts and pictures, its tables.

What lives here: renderers of a study's results. What may enter: another renderer.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.study.study_findings import claims_text as claims_text
    from factrank.report.study.study_findings import fit_text as fit_text
    from factrank.report.study.study_findings import published_text as published_text
    from factrank.report.study.study_findings import quotes_text as quotes_text
    from factrank.report.study.study_findings import summary_text as summary_text
    from factrank.report.study.study_findings import verdict_text as verdict_text
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
