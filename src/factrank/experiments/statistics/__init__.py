"""Statistics: quantities of result tables, their confidence intervals, and claims about them.

Contains: expressions over columns, means and slopes, summaries, fits, claims. Add here: another quantity.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.statistics.claims import Claim as Claim
    from factrank.experiments.statistics.claims import Direction as Direction
    from factrank.experiments.statistics.claims import Quantity as Quantity
    from factrank.experiments.statistics.expressions import SOUND as SOUND
    from factrank.experiments.statistics.expressions import Value as Value
    from factrank.experiments.statistics.expressions import Where as Where
    from factrank.experiments.statistics.expressions import columns_in as columns_in
    from factrank.experiments.statistics.expressions import ended_soundly as ended_soundly
    from factrank.experiments.statistics.expressions import frozen_where as frozen_where
    from factrank.experiments.statistics.expressions import missing_columns as missing_columns
    from factrank.experiments.statistics.expressions import selected as selected
    from factrank.experiments.statistics.expressions import values as values
    from factrank.experiments.statistics.fits import Fit as Fit
    from factrank.experiments.statistics.fits import FitResult as FitResult
    from factrank.experiments.statistics.fits import fit_result as fit_result
    from factrank.experiments.statistics.fits import require_columns_of as require_columns_of
    from factrank.experiments.statistics.frozen_claims import fixed as fixed
    from factrank.experiments.statistics.frozen_claims import frozen as frozen
    from factrank.experiments.statistics.nested_variance import VarianceComponents as VarianceComponents
    from factrank.experiments.statistics.nested_variance import variance_components as variance_components
    from factrank.experiments.statistics.reference_lines import ReferenceLine as ReferenceLine
    from factrank.experiments.statistics.reference_lines import frozen_lines as frozen_lines
    from factrank.experiments.statistics.statements import Judged as Judged
    from factrank.experiments.statistics.statements import Statement as Statement
    from factrank.experiments.statistics.statements import counts as counts
    from factrank.experiments.statistics.statements import statements_of as statements_of
    from factrank.experiments.statistics.summaries import QUANTITY as QUANTITY
    from factrank.experiments.statistics.summaries import Summary as Summary
    from factrank.experiments.statistics.summaries import summary_table as summary_table
    from factrank.experiments.statistics.verdicts import ClaimStatus as ClaimStatus
    from factrank.experiments.statistics.verdicts import Verdict as Verdict
    from factrank.experiments.statistics.verdicts import evaluate as evaluate
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
