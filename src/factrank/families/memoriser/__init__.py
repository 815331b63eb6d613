"""The memoriser family: multi-head attention that memorises vectors (Mahdavi et al. 2024).

What lives here: shapes, the model, its task and measures; examples (`examples`), the closed form with its proof
(`solving`), ranks of vectors and of the model (`ranks`). What may enter: another model that memorises labelled vectors.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.memoriser.memoriser import Memoriser as Memoriser
    from factrank.families.memoriser.memoriser import init_memoriser as init_memoriser
    from factrank.families.memoriser.memoriser_shape import MemoriserShape as MemoriserShape
    from factrank.families.memoriser.memoriser_shape import ScaledBy as ScaledBy
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
