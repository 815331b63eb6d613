"""Readouts: turn logits into answers, and measure how many are correct.

Contains: argmax and softmax>=tau, margins, recall, ranks of held-out facts and attention statistics, for any model that
computes logits of pairs (`ReadsFacts`). Add here: another readout, or another metric of logits and facts alone.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.readouts.attention_statistics import HeadStatistics as HeadStatistics
    from factrank.readouts.database_ranks import certified_ranks as certified_ranks
    from factrank.readouts.evaluation_blocks import BLOCK_CELLS as BLOCK_CELLS
    from factrank.readouts.evaluation_blocks import ReadsFacts as ReadsFacts
    from factrank.readouts.evaluation_blocks import cells_per_pair as cells_per_pair
    from factrank.readouts.evaluation_blocks import full_precision as full_precision
    from factrank.readouts.evaluation_blocks import in_blocks as in_blocks
    from factrank.readouts.evaluation_blocks import require_code as require_code
    from factrank.readouts.evaluation_blocks import require_match as require_match
    from factrank.readouts.fiber_margins import cross_entropies as cross_entropies
    from factrank.readouts.fiber_margins import margins as margins
    from factrank.readouts.fiber_margins import probabilities as probabilities
    from factrank.readouts.fiber_values import fiber_sizes as fiber_sizes
    from factrank.readouts.fiber_values import fibers_of as fibers_of
    from factrank.readouts.handing_in import AnyModel as AnyModel
    from factrank.readouts.handing_in import code_of as code_of
    from factrank.readouts.handing_in import handed_in as handed_in
    from factrank.readouts.handing_in import reserved_code as reserved_code
    from factrank.readouts.handing_in import with_facts as with_facts
    from factrank.readouts.plain_data import finite_data as finite_data
    from factrank.readouts.plain_data import percent as percent
    from factrank.readouts.ranking_report import HITS as HITS
    from factrank.readouts.ranking_report import FactRanks as FactRanks
    from factrank.readouts.ranking_report import RankingMetrics as RankingMetrics
    from factrank.readouts.ranking_report import RankingReport as RankingReport
    from factrank.readouts.ranking_report import ranking as ranking
    from factrank.readouts.reading import readings_of as readings_of
    from factrank.readouts.readout import logits_at as logits_at
    from factrank.readouts.readout import require_threshold as require_threshold
    from factrank.readouts.readout import softmax_at as softmax_at
    from factrank.readouts.readout import threshold_tensor as threshold_tensor
    from factrank.readouts.recall_report import DEFAULT_TAU as DEFAULT_TAU
    from factrank.readouts.recall_report import FactMargins as FactMargins
    from factrank.readouts.recall_report import QueryRecall as QueryRecall
    from factrank.readouts.recall_report import RecallReport as RecallReport
    from factrank.readouts.recall_report import margins_of as margins_of
    from factrank.readouts.recall_report import recall as recall
    from factrank.readouts.recall_report import share as share
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
