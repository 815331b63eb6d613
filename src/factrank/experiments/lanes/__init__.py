"""Lanes: train any model with `jit(vmap(scan))` over trials of equal shape.

Contains: compiled programs and their times, grouping of trials, bundles of lanes and their checkpoints, bundle widths,
device memory, optimisers. Add here: anything that makes lanes faster or safer for every family.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.lanes.ladder import rung_above as rung_above
    from factrank.experiments.lanes.ladder import rung_below as rung_below
    from factrank.experiments.lanes.ladder import widths as widths
    from factrank.experiments.lanes.lane_checkpoints import lane_marks as lane_marks
    from factrank.experiments.lanes.lane_groups import Paddable as Paddable
    from factrank.experiments.lanes.lane_groups import side_by_side as side_by_side
    from factrank.experiments.lanes.lane_programs import Recipe as Recipe
    from factrank.experiments.lanes.lane_programs import arithmetic as arithmetic
    from factrank.experiments.lanes.lane_programs import program_for as program_for
    from factrank.experiments.lanes.lane_programs import recipe_of as recipe_of
    from factrank.experiments.lanes.lane_times import measured_lanes as measured_lanes
    from factrank.experiments.lanes.lanes_engine import run_lanes as run_lanes
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
