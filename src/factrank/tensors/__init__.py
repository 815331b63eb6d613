"""The mathematics of a table of facts: its tensor, and certified bounds on its three ranks.

What lives here: tensors and decompositions (`core`), exact ranks of matrices (`matrix`), CP decompositions (`cp`),
tables of low rank with a given readout (`codes`), and bounds (`bounds`). What may enter: exact mathematics on 3-tensors
and matrices. It needs NumPy, SciPy and, for exact ranks, python-flint; it knows no model.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.measurement import DEFAULT_BUDGET as DEFAULT_BUDGET
    from factrank.tensors.measurement import Measurement as Measurement
    from factrank.tensors.measurement import measure as measure
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
