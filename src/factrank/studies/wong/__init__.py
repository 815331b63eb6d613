"""Wong 2025, "Paying attention to facts" (arXiv 2502.05076): every experiment of the paper, and those it proposes.

Each study has a module of its own; `settings` holds what they share, and `questions` contains the studies of questions
that are still open. `STUDIES` lists them in the order of the lab report.
"""

from __future__ import annotations

from factrank.experiments.study import Study
from factrank.studies.wong.additive_motif import ADDITIVE_MOTIF
from factrank.studies.wong.architectures import ARCHITECTURES
from factrank.studies.wong.artifacts import ARTIFACTS
from factrank.studies.wong.attention_storage import ATTENTION_STORAGE
from factrank.studies.wong.cross_threshold import CROSS_THRESHOLD
from factrank.studies.wong.effective_rank import EFFECTIVE_RANK
from factrank.studies.wong.epochs_to_recall import EPOCHS_TO_RECALL
from factrank.studies.wong.heads_against_width import HEADS_AGAINST_WIDTH
from factrank.studies.wong.minimal_routing import MINIMAL_ROUTING
from factrank.studies.wong.questions.bits_by_family import BITS_BY_FAMILY
from factrank.studies.wong.questions.cp_at_scale import CP_AT_SCALE
from factrank.studies.wong.questions.least_d_qk import LEAST_D_QK
from factrank.studies.wong.questions.rank_or_information import RANK_OR_INFORMATION
from factrank.studies.wong.questions.sign_of_d_qk import SIGN_OF_D_QK
from factrank.studies.wong.questions.stored_bits import STORED_BITS
from factrank.studies.wong.questions.tables_or_trainings import TABLES_OR_TRAININGS
from factrank.studies.wong.rank_inflation import RANK_INFLATION
from factrank.studies.wong.rank_validity import RANK_VALIDITY
from factrank.studies.wong.scale_up import SCALE_UP
from factrank.studies.wong.softmax_distortion import SOFTMAX_DISTORTION
from factrank.studies.wong.vo_against_qk import VO_AGAINST_QK

STUDIES: tuple[Study, ...] = (
    RANK_VALIDITY,
    VO_AGAINST_QK,
    SOFTMAX_DISTORTION,
    SCALE_UP,
    CROSS_THRESHOLD,
    MINIMAL_ROUTING,
    RANK_INFLATION,
    ARTIFACTS,
    EPOCHS_TO_RECALL,
    HEADS_AGAINST_WIDTH,
    ADDITIVE_MOTIF,
    ARCHITECTURES,
    ATTENTION_STORAGE,
    EFFECTIVE_RANK,
    RANK_OR_INFORMATION,
    SIGN_OF_D_QK,
    STORED_BITS,
    BITS_BY_FAMILY,
    LEAST_D_QK,
    CP_AT_SCALE,
    TABLES_OR_TRAININGS,
)
