"""Lanes: any model by `jit(vmap(scan))` over trials of equal shape.

What lives here: compiled programs, which trials run side by side, bundles of lanes with their checkpoints, the ladder
of widths, the memory of devices, optimisers. What may enter: what makes lanes faster or safer for every family.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.lanes.ladder import rung_above as rung_above
    from factrank.experiments.lanes.ladder import rung_below as rung_below
    from factrank.experiments.lanes.ladder import widths as widths
    from factrank.experiments.lanes.lane_checkpoints import lane_marks as lane_marks
    from factrank.experiments.lanes.lane_groups import Fillable as Fillable
    from factrank.experiments.lanes.lane_groups import side_by_side as side_by_side
    from factrank.experiments.lanes.lane_programs import Recipe as Recipe
    from factrank.experiments.lanes.lane_programs import arithmetic as arithmetic
    from factrank.experiments.lanes.lane_programs import program_for as program_for
    from factrank.experiments.lanes.lane_programs import recipe_of as recipe_of
    from factrank.experiments.lanes.lanes_engine import run_lanes as run_lanes
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
