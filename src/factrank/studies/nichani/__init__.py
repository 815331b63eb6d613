"""Nichani, Lee and Bietti 2025, "Understanding factual recall in transformers via associative memories" (2412.06538).

Each study has a module of its own; those on associative memories are in `memories`. `settings` holds what all of them
share, `factual_recall_settings` what the studies of factual recall share. `STUDIES` lists them in the order of the lab
report.
"""

from __future__ import annotations

from factrank.experiments.study import Study
from factrank.studies.nichani.attention_against_mlp import ATTENTION_AGAINST_MLP
from factrank.studies.nichani.attention_against_mlp_criteria import ATTENTION_AGAINST_MLP_CRITERIA
from factrank.studies.nichani.beyond_memorisation import BEYOND_MEMORISATION
from factrank.studies.nichani.factual_recall_capacity import RECALL_CAPACITY
from factrank.studies.nichani.factual_recall_capacity_criteria import RECALL_CAPACITY_CRITERIA
from factrank.studies.nichani.factual_recall_capacity_variants import RECALL_CAPACITY_VARIANTS
from factrank.studies.nichani.factual_recall_dynamics import RECALL_DYNAMICS
from factrank.studies.nichani.frequent_facts_first import FREQUENT_FACTS_FIRST
from factrank.studies.nichani.hallucination import HALLUCINATION
from factrank.studies.nichani.memories.linear_memory import LINEAR_MEMORY
from factrank.studies.nichani.memories.linear_memory_limit import LINEAR_MEMORY_LIMIT
from factrank.studies.nichani.memories.linear_memory_training import LINEAR_MEMORY_TRAINING
from factrank.studies.nichani.memories.mlp_memory import MLP_MEMORY
from factrank.studies.nichani.memories.mlp_memory_few_outputs import MLP_MEMORY_FEW_OUTPUTS
from factrank.studies.nichani.where_facts_are import WHERE_FACTS_ARE

STUDIES: tuple[Study, ...] = (
    LINEAR_MEMORY,
    MLP_MEMORY,
    MLP_MEMORY_FEW_OUTPUTS,
    LINEAR_MEMORY_LIMIT,
    LINEAR_MEMORY_TRAINING,
    RECALL_CAPACITY,
    RECALL_CAPACITY_CRITERIA,
    RECALL_CAPACITY_VARIANTS,
    ATTENTION_AGAINST_MLP,
    ATTENTION_AGAINST_MLP_CRITERIA,
    RECALL_DYNAMICS,
    HALLUCINATION,
    WHERE_FACTS_ARE,
    FREQUENT_FACTS_FIRST,
    BEYOND_MEMORISATION,
)
