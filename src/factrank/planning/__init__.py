"""Planning: how large a layer must be for given facts.

Contains: the capacity atlas (`atlas`), its law (`law`), and `plan`, which reports proved, trained and excluded sizes.
Add here: another source of sizes, kept apart from the others.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.planning.exclusions import EXCLUDED_BITS as EXCLUDED_BITS
    from factrank.planning.exclusions import Exclusion as Exclusion
    from factrank.planning.exclusions import exclusion as exclusion
    from factrank.planning.low_rank_updates import UpdatePlan as UpdatePlan
    from factrank.planning.plans import LayerLimits as LayerLimits
    from factrank.planning.plans import Plan as Plan
    from factrank.planning.plans import plan as plan
    from factrank.planning.proved_sizes import ProvedLayer as ProvedLayer
    from factrank.planning.smallest_layers import Probed as Probed
    from factrank.planning.smallest_layers import Smallest as Smallest
    from factrank.planning.smallest_layers import smallest as smallest
    from factrank.planning.table_sizes import TableSizes as TableSizes
    from factrank.planning.trained_sizes import TrainedLayer as TrainedLayer
    from factrank.planning.validation import Validation as Validation
    from factrank.planning.validation import validate as validate
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
