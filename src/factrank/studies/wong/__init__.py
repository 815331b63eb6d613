"""Wong 2025, "Paying attention to facts" (arXiv 2502.05076): every experiment of the paper and those it asks for.

What lives here: one module per study. What may enter: another question of the paper; `STUDIES` lists them in the order
of the lab report.
"""

from __future__ import annotations

from factrank.runs.study import Study
from factrank.studies.wong.vo_against_qk import VO_AGAINST_QK

STUDIES: tuple[Study, ...] = (VO_AGAINST_QK,)
"""The studies of this paper."""
