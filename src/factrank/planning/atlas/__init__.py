"""The capacity atlas: about a million trained layers, each on its own table.

Contains: its rows and their trials, the design, the bulk runner, its files. Add here: another part of the design, or
another kind of table.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.planning.atlas.atlas_batches import trained_here as trained_here
    from factrank.planning.atlas.atlas_design import MAIN_RANGES as MAIN_RANGES
    from factrank.planning.atlas.atlas_design import PARTS_OF_ATLAS as PARTS_OF_ATLAS
    from factrank.planning.atlas.atlas_design import PLANNED_LOADS as PLANNED_LOADS
    from factrank.planning.atlas.atlas_design import design as design
    from factrank.planning.atlas.atlas_files import read_rows as read_rows
    from factrank.planning.atlas.atlas_rows import TABLE_KINDS as TABLE_KINDS
    from factrank.planning.atlas.atlas_rows import AtlasRows as AtlasRows
    from factrank.planning.atlas.atlas_rows import join_rows as join_rows
    from factrank.planning.atlas.atlas_rows import n_rows as n_rows
    from factrank.planning.atlas.atlas_rows import products_of as products_of
    from factrank.planning.atlas.atlas_rows import row_parameters as row_parameters
    from factrank.planning.atlas.atlas_rows import take_rows as take_rows
    from factrank.planning.atlas.atlas_trials import table_of_row as table_of_row
    from factrank.planning.atlas.atlas_trials import trained_recalls as trained_recalls
    from factrank.planning.atlas.atlas_trials import trial_of_row as trial_of_row
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
