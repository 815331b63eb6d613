"""The basic objects of the mathematics: 0/1 tensors and exact decompositions.

Contains: tensors stored as the coordinates of their ones, rank-one terms in rational arithmetic, exact margins.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.core.decomposition import Decomposition as Decomposition
    from factrank.tensors.core.decomposition import Factor as Factor
    from factrank.tensors.core.decomposition import concatenate as concatenate
    from factrank.tensors.core.decomposition import lift as lift
    from factrank.tensors.core.decomposition import lifted as lifted
    from factrank.tensors.core.fiber_sets import FiberSets as FiberSets
    from factrank.tensors.core.integer_margins import IntegerLogits as IntegerLogits
    from factrank.tensors.core.integer_margins import rounded as rounded
    from factrank.tensors.core.zero_one import AXES as AXES
    from factrank.tensors.core.zero_one import AXIS_NAMES as AXIS_NAMES
    from factrank.tensors.core.zero_one import Core as Core
    from factrank.tensors.core.zero_one import ZeroOneTensor as ZeroOneTensor
    from factrank.tensors.core.zero_one import components as components
    from factrank.tensors.core.zero_one import distinct as distinct
    from factrank.tensors.core.zero_one import equal_runs as equal_runs
    from factrank.tensors.core.zero_one import flattening as flattening
    from factrank.tensors.core.zero_one import others as others
    from factrank.tensors.core.zero_one import pair_index as pair_index
    from factrank.tensors.core.zero_one import ranges as ranges
    from factrank.tensors.core.zero_one import run_starts as run_starts
    from factrank.tensors.core.zero_one import stacked_slices as stacked_slices
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
