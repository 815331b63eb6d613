"""The mathematics of a table of facts: its tensor, and certified bounds on its three ranks.

What lives here: 0/1 tensors and the moves that keep their rank, exact and modular ranks of sparse integer matrices,
bounds from above (each with a decomposition) and below, and `measure`, which runs them within a budget. What may enter:
another bound, another proof. It touches NumPy, SciPy and the databases; python-flint only inside the functions that
need exact arithmetic.
"""

from factrank.tensors.bounds import Bound as Bound
from factrank.tensors.bounds import Estimate as Estimate
from factrank.tensors.bounds import RankBounds as RankBounds
from factrank.tensors.bounds import Skipped as Skipped
from factrank.tensors.decomposition import Decomposition as Decomposition
from factrank.tensors.measure import Measurement as Measurement
from factrank.tensors.measure import measure as measure
from factrank.tensors.zero_one import ZeroOneTensor as ZeroOneTensor
