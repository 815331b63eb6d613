"""Pictures of databases, layers and results.

Contains: pure functions that turn an object into at most 5,000 records, aggregated if it is larger (`..._records`), and
the altair charts of these records (`..._pictures`). Add here: another picture of an object. Add its line to the
registry of displays.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.report.pictures.audit_pictures import draw_circuit_values as draw_circuit_values
    from factrank.report.pictures.audit_pictures import draw_distances as draw_distances
    from factrank.report.pictures.audit_pictures import draw_effective_ranks as draw_effective_ranks
    from factrank.report.pictures.audit_pictures import draw_update_ranks as draw_update_ranks
    from factrank.report.pictures.axis_blocks import MOST_MARKS as MOST_MARKS
    from factrank.report.pictures.axis_blocks import AxisBlocks as AxisBlocks
    from factrank.report.pictures.axis_blocks import block_means as block_means
    from factrank.report.pictures.axis_blocks import block_sides as block_sides
    from factrank.report.pictures.axis_blocks import blocks_of as blocks_of
    from factrank.report.pictures.axis_blocks import distinct_labels as distinct_labels
    from factrank.report.pictures.fact_records import contribution_records as contribution_records
    from factrank.report.pictures.fact_records import margin_records as margin_records
    from factrank.report.pictures.grid import Grid as Grid
    from factrank.report.pictures.layer_records import attention_grid as attention_grid
    from factrank.report.pictures.layer_records import circuits_grid as circuits_grid
    from factrank.report.pictures.layer_records import direct_grid as direct_grid
    from factrank.report.pictures.layer_records import logits_grid as logits_grid
    from factrank.report.pictures.table_records import slices_grid as slices_grid
    from factrank.report.pictures.table_records import table_grid as table_grid
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
