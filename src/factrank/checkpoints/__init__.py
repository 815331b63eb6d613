"""Checkpoints of pretrained models.

Contains: `readers` of files, the attention `heads` of many architectures as factors, and the first block of ViT, BERT
and GPT-2, which turns text or images into token vectors. Add here: another architecture, but no analysis.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.checkpoints.architectures import FAMILIES as FAMILIES
    from factrank.checkpoints.checkpoint import BUNDLED_NAME as BUNDLED_NAME
    from factrank.checkpoints.checkpoint import FLOATING as FLOATING
    from factrank.checkpoints.checkpoint import TokenModel as TokenModel
    from factrank.checkpoints.checkpoint import bundled_folder as bundled_folder
    from factrank.checkpoints.checkpoint import random_weights as random_weights
    from factrank.checkpoints.checkpoint import read_family as read_family
    from factrank.checkpoints.checkpoint import read_model as read_model
    from factrank.checkpoints.configuration import read_object as read_object
    from factrank.checkpoints.layers import TokenStage as TokenStage
    from factrank.checkpoints.token_representations import CONTEXT_SIZE as CONTEXT_SIZE
    from factrank.checkpoints.token_representations import EXAMPLES as EXAMPLES
    from factrank.checkpoints.token_representations import TokenSource as TokenSource
    from factrank.checkpoints.token_representations import query_position as query_position
    from factrank.checkpoints.token_representations import representations as representations
    from factrank.checkpoints.token_representations import text_contexts as text_contexts
    from factrank.checkpoints.token_representations import tiny_model as tiny_model
    from factrank.checkpoints.token_representations import tokens_of as tokens_of
    from factrank.checkpoints.token_sources import digit_images as digit_images
    from factrank.checkpoints.token_sources import passage as passage
    from factrank.checkpoints.token_sources import windows as windows
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
