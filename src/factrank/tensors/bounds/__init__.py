"""Bounds on the rank, the completion rank and the effective rank: certified, or labelled as estimates.

Contains: the registry of bounds, the ledger that runs them within a time budget, and the entry points `rank_bounds`,
`completion_bounds` and `effective_bounds`. The bounds themselves are in `lower` and `upper`, one per module, and are
listed in the registry.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.bounds.certified_bounds import Bound as Bound
    from factrank.tensors.bounds.certified_bounds import Estimate as Estimate
    from factrank.tensors.bounds.certified_bounds import RankBounds as RankBounds
    from factrank.tensors.bounds.certified_bounds import Skipped as Skipped
    from factrank.tensors.bounds.completion import completion_bounds as completion_bounds
    from factrank.tensors.bounds.effective import effective_bounds as effective_bounds
    from factrank.tensors.bounds.ledger import INTERRUPTED as INTERRUPTED
    from factrank.tensors.bounds.ledger import Ledger as Ledger
    from factrank.tensors.bounds.ledger import expected_of as expected_of
    from factrank.tensors.bounds.lower.counting import typical_effective_rank as typical_effective_rank
    from factrank.tensors.bounds.method import BoundMethod as BoundMethod
    from factrank.tensors.bounds.method import Stage as Stage
    from factrank.tensors.bounds.needs import functional as functional
    from factrank.tensors.bounds.rank import flattening_and_upper as flattening_and_upper
    from factrank.tensors.bounds.rank import rank_bounds as rank_bounds
    from factrank.tensors.bounds.rank import upper_bound as upper_bound
    from factrank.tensors.bounds.registry import BOUNDS as BOUNDS
    from factrank.tensors.bounds.registry import register_bound as register_bound
    from factrank.tensors.bounds.registry import registered_bound as registered_bound
    from factrank.tensors.bounds.steady_ledger import SteadyLedger as SteadyLedger
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
