"""Models: small networks that read [key, query] and answer with a value, and what is known of their tensors.

What lives here: the pure `AttentionLayer` with its tensor, rank bounds and files, the `RecallTransformer` with the
options for open questions, associative memories, models that read a sequence with a key and a query somewhere in it,
and the multi-head memoriser, which reads vectors. What may enter: another model that can be trained on facts. It
touches JAX and equinox, and of factrank the databases and tensors.
"""

from factrank.models.associative_memory import AssociativeMemory as AssociativeMemory
from factrank.models.associative_memory import LinearMemory as LinearMemory
from factrank.models.associative_memory import MlpMemory as MlpMemory
from factrank.models.associative_memory import init_memory as init_memory
from factrank.models.attention_layer import AttentionLayer as AttentionLayer
from factrank.models.attention_layer import init_layer as init_layer
from factrank.models.attention_layer import layer_from_arrays as layer_from_arrays
from factrank.models.layer_bounds import FlatteningRanks as FlatteningRanks
from factrank.models.layer_bounds import LayerRankBounds as LayerRankBounds
from factrank.models.layer_bounds import NumericalRanks as NumericalRanks
from factrank.models.layer_bounds import flattening_ranks_of as flattening_ranks_of
from factrank.models.layer_bounds import layer_rank_bounds as layer_rank_bounds
from factrank.models.layer_files import SavedLayer as SavedLayer
from factrank.models.layer_files import Verdict as Verdict
from factrank.models.layer_files import load_layer as load_layer
from factrank.models.layer_files import save_layer as save_layer
from factrank.models.layer_files import verdict as verdict
from factrank.models.layer_shape import LayerShape as LayerShape
from factrank.models.layer_tensor import LayerTensor as LayerTensor
from factrank.models.memoriser import Memoriser as Memoriser
from factrank.models.memoriser import init_memoriser as init_memoriser
from factrank.models.memoriser_shape import MemoriserShape as MemoriserShape
from factrank.models.memory_shape import MemoryShape as MemoryShape
from factrank.models.part_arrays import model_from_arrays as model_from_arrays
from factrank.models.part_arrays import to_arrays as to_arrays
from factrank.models.recall_transformer import RecallTransformer as RecallTransformer
from factrank.models.recall_transformer import TransformerShape as TransformerShape
from factrank.models.recall_transformer import init_transformer as init_transformer
from factrank.models.recall_transformer import shared_rows as shared_rows
from factrank.models.sequence_layout import SequenceLayout as SequenceLayout
from factrank.models.sequence_shape import OneHotShape as OneHotShape
from factrank.models.sequence_shape import SequenceShape as SequenceShape
from factrank.models.sequence_transformer import OneHotTransformer as OneHotTransformer
from factrank.models.sequence_transformer import SequenceTransformer as SequenceTransformer
from factrank.models.sequence_transformer import init_sequence_model as init_sequence_model
from factrank.models.torch_exchange import from_torch_state_dict as from_torch_state_dict
from factrank.models.torch_exchange import to_torch_state_dict as to_torch_state_dict
from factrank.models.torch_exchange import torch_module as torch_module
