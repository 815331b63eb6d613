"""Layers trained in bulk: hundreds of thousands of tables and shapes, without an object for each.

Contains: many layers as a few long arrays, how the GPU reads their facts, and the two backends. A layer ends with the
same bits as the same trial under `train_many`. Add here: another backend.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.fused.bulk.bulk_blocks import BulkBlocks as BulkBlocks
    from factrank.families.attention.fused.bulk.bulk_layers import ALL_PARTS as ALL_PARTS
    from factrank.families.attention.fused.bulk.bulk_layers import BulkLayers as BulkLayers
    from factrank.families.attention.fused.bulk.bulk_layers import BulkResults as BulkResults
    from factrank.families.attention.fused.bulk.bulk_layers import first_weights as first_weights
    from factrank.families.attention.fused.bulk.bulk_packing import PackedLayers as PackedLayers
    from factrank.families.attention.fused.bulk.bulk_packing import pack as pack
    from factrank.families.attention.fused.bulk.bulk_packing import plans_of as plans_of
    from factrank.families.attention.fused.bulk.bulk_threads import train_on_threads as train_on_threads
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
