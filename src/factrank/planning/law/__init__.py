"""The law of the atlas: how much of a table a trained layer recalls, from sizes alone, with an interval.

Contains: the formula, its fit, the intervals around it, the sizes that the atlas has, and the size that a recall needs.
Add here: another formula, with its error on the same rows.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.planning.law.calibration import Calibration as Calibration
    from factrank.planning.law.calibration import calibrate as calibrate
    from factrank.planning.law.fitted import AtlasLaw as AtlasLaw
    from factrank.planning.law.fitted import atlas_law as atlas_law
    from factrank.planning.law.fitting import fit_law as fit_law
    from factrank.planning.law.known_sizes import KnownSizes as KnownSizes
    from factrank.planning.law.law import LAW_KINDS as LAW_KINDS
    from factrank.planning.law.law import USUAL_EPOCHS as USUAL_EPOCHS
    from factrank.planning.law.law import CapacityLaw as CapacityLaw
    from factrank.planning.law.law import LayerColumns as LayerColumns
    from factrank.planning.law.law import columns_of_rows as columns_of_rows
    from factrank.planning.law.needed import search_sizes as search_sizes
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
