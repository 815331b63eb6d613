"""Ranks of vectors and of memorisers: Kruskal ranks, label ranks, and the assumptions of the memorisation theorem.

Contents: exact and sampled ranks. Other ranks that memorisation theorems need belong here.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.memoriser.ranks.assumptions import AssumptionVerdict as AssumptionVerdict
    from factrank.families.memoriser.ranks.assumptions import CheckedAssumptions as CheckedAssumptions
    from factrank.families.memoriser.ranks.assumptions import check_assumptions as check_assumptions
    from factrank.families.memoriser.ranks.assumptions import in_words as in_words
    from factrank.families.memoriser.ranks.assumptions import queries_of as queries_of
    from factrank.families.memoriser.ranks.kruskal import Indices as Indices
    from factrank.families.memoriser.ranks.kruskal import KruskalRank as KruskalRank
    from factrank.families.memoriser.ranks.kruskal import SubsetSample as SubsetSample
    from factrank.families.memoriser.ranks.kruskal import kruskal_rank as kruskal_rank
    from factrank.families.memoriser.ranks.label_ranks import MemoriserRank as MemoriserRank
    from factrank.families.memoriser.ranks.label_ranks import memoriser_capacity as memoriser_capacity
    from factrank.families.memoriser.ranks.label_ranks import memoriser_rank as memoriser_rank
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
