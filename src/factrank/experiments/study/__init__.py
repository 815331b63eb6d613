"""Studies: a question, the trials that answer it, and how to present the answer, as plain data.

Contains: `Study`, study files, searches that request trials round by round, and the tables and results of a study
(`StudyResults`). Add here: another way to describe a study.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.study.chart_records import Cell as Cell
    from factrank.experiments.study.chart_records import ChartRecord as ChartRecord
    from factrank.experiments.study.chart_records import Records as Records
    from factrank.experiments.study.chart_records import is_number as is_number
    from factrank.experiments.study.names import require_name as require_name
    from factrank.experiments.study.searches import Rows as Rows
    from factrank.experiments.study.searches import TrialSearch as TrialSearch
    from factrank.experiments.study.searches import is_measured_number as is_measured_number
    from factrank.experiments.study.searches import measured_rows as measured_rows
    from factrank.experiments.study.searches import rounds_of as rounds_of
    from factrank.experiments.study.study import Chart as Chart
    from factrank.experiments.study.study import Size as Size
    from factrank.experiments.study.study import Source as Source
    from factrank.experiments.study.study import Study as Study
    from factrank.experiments.study.study import no_trials as no_trials
    from factrank.experiments.study.study_changes import changed_study as changed_study
    from factrank.experiments.study.study_files import load_python_study as load_python_study
    from factrank.experiments.study.study_files import load_study as load_study
    from factrank.experiments.study.study_results import Results as Results
    from factrank.experiments.study.study_results import StudyResults as StudyResults
    from factrank.experiments.study.study_results import paper_statements as paper_statements
    from factrank.experiments.study.study_results import results_of as results_of
    from factrank.experiments.study.summary_records import drawn_fields as drawn_fields
    from factrank.experiments.study.summary_records import facet_columns as facet_columns
    from factrank.experiments.study.trials_of_study import MISSING as MISSING
    from factrank.experiments.study.trials_of_study import asked_trials as asked_trials
    from factrank.experiments.study.trials_of_study import study_tables as study_tables
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
