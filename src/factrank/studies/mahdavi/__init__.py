"""Mahdavi, Liao and Thrampoulidis 2024, "Memorization capacity of multi-head attention in transformers" (2306.02010).

Each study has a module of its own, except that `heads` has the two on heads. `settings` holds what all of them share,
`growth` what the studies over heads and tokens share. `STUDIES` lists them in the order of the lab report.
"""

from __future__ import annotations

from factrank.experiments.study import Study
from factrank.studies.mahdavi.assumptions import ASSUMPTIONS
from factrank.studies.mahdavi.closed_form import CLOSED_FORM
from factrank.studies.mahdavi.context_size import CONTEXT_SIZE_STUDY
from factrank.studies.mahdavi.head_size import HEAD_SIZE_STUDY
from factrank.studies.mahdavi.heads import HEADS_CLASSIFICATION, HEADS_REGRESSION
from factrank.studies.mahdavi.knee import KNEE
from factrank.studies.mahdavi.saturation import SATURATION

STUDIES: tuple[Study, ...] = (
    HEADS_REGRESSION,
    HEADS_CLASSIFICATION,
    CONTEXT_SIZE_STUDY,
    HEAD_SIZE_STUDY,
    KNEE,
    SATURATION,
    ASSUMPTIONS,
    CLOSED_FORM,
)
