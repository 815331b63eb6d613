"""The memoriser family: multi-head attention that memorises labelled vectors (Mahdavi et al. 2024).

Contents: shapes, the model, its task and measures; examples (`examples`); the closed form and its proof (`solving`);
ranks of vectors and of the model (`ranks`). Another model that memorises labelled vectors belongs here.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.memoriser.memoriser import Memoriser as Memoriser
    from factrank.families.memoriser.memoriser import init_memoriser as init_memoriser
    from factrank.families.memoriser.memoriser_shape import MemoriserShape as MemoriserShape
    from factrank.families.memoriser.memoriser_shape import ScaledBy as ScaledBy
    from factrank.families.memoriser.memoriser_specs import Assumptions as Assumptions
    from factrank.families.memoriser.memoriser_specs import Saturation as Saturation
    from factrank.families.memoriser.memoriser_specs import Tolerance as Tolerance
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
