"""The mathematics of a table of facts: its tensor, and certified bounds on its three ranks.

Contains: 0/1 tensors and exact decompositions (`core`), exact ranks of integer matrices (`matrix`), numerical CP
decompositions and proofs that they exist (`cp`), low-rank tensors with a given readout (`codes`), and lower and upper
bounds (`bounds`). Only exact mathematics on 3-tensors and matrices belongs here. It needs NumPy, SciPy and, for exact
ranks, python-flint, and does not depend on any model.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.measurement import DEFAULT_BUDGET as DEFAULT_BUDGET
    from factrank.tensors.measurement import Measurement as Measurement
    from factrank.tensors.measurement import measure as measure
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
