"""The factual recall family: one-layer models that read sequences (Nichani, Lee and Bietti 2025).

What lives here: shapes, layouts, models, batches of sequences, measures, closed forms with certificates for every noise
context. What may enter: another model that answers from such sequences.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.factual_recall.certified_sizes import CertifiedSize as CertifiedSize
    from factrank.families.factual_recall.certified_sizes import smallest_factual_recall as smallest_factual_recall
    from factrank.families.factual_recall.factual_recall_form import (
        construct_factual_recall as construct_factual_recall,
    )
    from factrank.families.factual_recall.factual_recall_shape import (
        FactualRecallOneHotShape as FactualRecallOneHotShape,
    )
    from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape as FactualRecallShape
    from factrank.families.factual_recall.factual_recall_transformer import init_sequence_model as init_sequence_model
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
