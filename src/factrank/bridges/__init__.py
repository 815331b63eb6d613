"""Bridges: one-layer models of PyTorch and TransformerLens as layers, layers as PyTorch modules, and examinations.

Contains: readers of state dicts, the folding of biases and positions, self-checks, and `examine`. Add here: a reader
for another library, which must account for every tensor and compare logits.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.bridges.examination import Examination as Examination
    from factrank.bridges.examination import examine as examine
    from factrank.bridges.pytorch import from_torch as from_torch
    from factrank.bridges.tensor_roles import Wiring as Wiring
    from factrank.bridges.torch_modules import to_torch as to_torch
    from factrank.bridges.transformer_lens import from_transformer_lens as from_transformer_lens
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
