"""Families of real models: how ViT, BERT and GPT-2 turn text or images into token vectors, up to their first layer.

What lives here: one file per family, the layers that they share, checkpoint folders, and `representations`. What may
enter: another family. It computes on the host, in NumPy and float64, and needs neither PyTorch nor a network; nothing
in a folder is executed.
"""

from factrank.models.token_families.checkpoint import FAMILIES as FAMILIES
from factrank.models.token_families.checkpoint import TokenModel as TokenModel
from factrank.models.token_families.checkpoint import bundled_folder as bundled_folder
from factrank.models.token_families.checkpoint import random_weights as random_weights
from factrank.models.token_families.checkpoint import read_family as read_family
from factrank.models.token_families.checkpoint import read_model as read_model
from factrank.models.token_families.layers import STAGES as STAGES
from factrank.models.token_families.layers import Stage as Stage
from factrank.models.token_families.representations import SOURCES as SOURCES
from factrank.models.token_families.representations import Source as Source
from factrank.models.token_families.representations import query_position as query_position
from factrank.models.token_families.representations import representations as representations
from factrank.models.token_families.representations import tokens_of as tokens_of
