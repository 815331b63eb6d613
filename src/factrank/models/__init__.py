"""Models: small networks that read [key, query] and answer with a value, and what is known of their tensors.

What lives here: the pure `AttentionLayer` with its tensor, rank bounds and files, and the `RecallTransformer` with the
options for open questions. What may enter: another model that can be trained on facts. It touches JAX and equinox,
and of factrank the databases and tensors.
"""

from factrank.models.attention_layer import AttentionLayer as AttentionLayer
from factrank.models.attention_layer import init_layer as init_layer
from factrank.models.attention_layer import layer_from_arrays as layer_from_arrays
from factrank.models.layer_shape import LayerShape as LayerShape
from factrank.models.layer_tensor import LayerTensor as LayerTensor
from factrank.models.recall_transformer import RecallTransformer as RecallTransformer
from factrank.models.recall_transformer import TransformerShape as TransformerShape
from factrank.models.recall_transformer import init_transformer as init_transformer
from factrank.models.recall_transformer import shared_rows as shared_rows
