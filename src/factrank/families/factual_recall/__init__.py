"""The factual recall family: one-layer models that read sequences (Nichani, Lee and Bietti 2025).

Contents: shapes, layouts, models, batches of sequences, measures, and closed forms certified for every noise context.
Another model that answers from such sequences belongs here.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.factual_recall.certified_sizes import CertifiedSize as CertifiedSize
    from factrank.families.factual_recall.certified_sizes import smallest_factual_recall as smallest_factual_recall
    from factrank.families.factual_recall.fact_sequences import FactSequences as FactSequences
    from factrank.families.factual_recall.fact_sequences import PartsAlone as PartsAlone
    from factrank.families.factual_recall.fact_sequences import RelationAlone as RelationAlone
    from factrank.families.factual_recall.fact_sequences import TestRecall as TestRecall
    from factrank.families.factual_recall.factual_recall_form import (
        construct_factual_recall as construct_factual_recall,
    )
    from factrank.families.factual_recall.factual_recall_shape import (
        FactualRecallOneHotShape as FactualRecallOneHotShape,
    )
    from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape as FactualRecallShape
    from factrank.families.factual_recall.factual_recall_transformer import init_factual_recall as init_factual_recall
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
