"""Capacity: the largest size that still meets a criterion, as an interval whose two ends were both run.

What lives here: `CapacitySearch`, which a study runs beside its trials, and `capacity` for direct use. What may enter:
another search over sizes. It touches `runs` and what lies below; it trains nothing itself and draws nothing.
"""

from factrank.capacity.find import capacity as capacity
from factrank.capacity.find import run_searches as run_searches
from factrank.capacity.interval import CapacityInterval as CapacityInterval
from factrank.capacity.interval import Criterion as Criterion
from factrank.capacity.interval import Probe as Probe
from factrank.capacity.search import CapacitySearch as CapacitySearch
