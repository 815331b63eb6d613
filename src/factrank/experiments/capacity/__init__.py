"""Capacity: the largest size that meets a criterion, as an interval whose two ends were both run.

Contains: brackets, the search, and its result. Add here: another strategy for choosing the sizes to try.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.capacity.capacity_interval import CapacityInterval as CapacityInterval
    from factrank.experiments.capacity.capacity_interval import Criterion as Criterion
    from factrank.experiments.capacity.capacity_interval import Probe as Probe
    from factrank.experiments.capacity.capacity_search import CapacitySearch as CapacitySearch
    from factrank.experiments.capacity.find_capacities import capacity as capacity
    from factrank.experiments.capacity.find_capacities import run_searches as run_searches
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
