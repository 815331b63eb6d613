"""Attention heads of real models as factors: W_Q, W_K, W_V, W_O of each head, however a checkpoint stores them.

Contains: a table with one entry per architecture, and the code that follows it: fused projections, shared key and value
heads, rotary positions, norms, latent attention. Add here: another entry of the table, but no analysis.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.checkpoints.heads.architecture_table import ALIBI as ALIBI
    from factrank.checkpoints.heads.architecture_table import ARCHITECTURES as ARCHITECTURES
    from factrank.checkpoints.heads.architecture_table import OWN_MODEL as OWN_MODEL
    from factrank.checkpoints.heads.attention_factors import AttentionFactors as AttentionFactors
    from factrank.checkpoints.heads.attention_model import AttentionModel as AttentionModel
    from factrank.checkpoints.heads.attention_model import open_model as open_model
    from factrank.checkpoints.heads.attention_model import open_state_dict as open_state_dict
    from factrank.checkpoints.heads.head_layout import CheckpointSizes as CheckpointSizes
    from factrank.checkpoints.heads.head_layout import HeadLayout as HeadLayout
    from factrank.checkpoints.heads.rotary import Rotation as Rotation
    from factrank.checkpoints.heads.rounded import Rounded as Rounded
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
