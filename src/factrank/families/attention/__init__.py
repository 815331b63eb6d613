"""The attention family: the single layer of Wong 2025 and its transformer options.

Contains: shapes and models, their tensors and ranks, the training task, measures and files; the fused engine
(`fused`), closed forms (`forms`), proofs (`proof`), editing (`editing`) and path analysis (`circuits`). Add here:
another option of these models.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.attention_arrays import model_from_arrays as model_from_arrays
    from factrank.families.attention.attention_layer import PARTS as PARTS
    from factrank.families.attention.attention_layer import AttentionLayer as AttentionLayer
    from factrank.families.attention.attention_layer import init_layer as init_layer
    from factrank.families.attention.attention_layer import layer_from_arrays as layer_from_arrays
    from factrank.families.attention.folded_layer import folded_parts as folded_parts
    from factrank.families.attention.layer_bounds import FlatteningRanks as FlatteningRanks
    from factrank.families.attention.layer_bounds import LayerRankBounds as LayerRankBounds
    from factrank.families.attention.layer_bounds import NumericalRanks as NumericalRanks
    from factrank.families.attention.layer_bounds import flattening_ranks_of as flattening_ranks_of
    from factrank.families.attention.layer_bounds import layer_rank_bounds as layer_rank_bounds
    from factrank.families.attention.layer_files import SavedLayer as SavedLayer
    from factrank.families.attention.layer_files import load_layer as load_layer
    from factrank.families.attention.layer_files import save_layer as save_layer
    from factrank.families.attention.layer_files import verdict as verdict
    from factrank.families.attention.layer_measures import Additive as Additive
    from factrank.families.attention.layer_measures import Hallucinations as Hallucinations
    from factrank.families.attention.layer_measures import PlantedCP as PlantedCP
    from factrank.families.attention.layer_measures import Ranks as Ranks
    from factrank.families.attention.layer_measures import Readings as Readings
    from factrank.families.attention.layer_shape import LayerShape as LayerShape
    from factrank.families.attention.layer_tensor import LayerTensor as LayerTensor
    from factrank.families.attention.pair_transformer import NORM_EPSILON as NORM_EPSILON
    from factrank.families.attention.pair_transformer import AnyLayer as AnyLayer
    from factrank.families.attention.pair_transformer import PairTransformer as PairTransformer
    from factrank.families.attention.pair_transformer import TransformerShape as TransformerShape
    from factrank.families.attention.pair_transformer import init_transformer as init_transformer
    from factrank.families.attention.pair_transformer import shared_rows as shared_rows
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
