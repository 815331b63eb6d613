"""Searching: the smallest layer that is certified, by closed forms and by training.

Contains: `construct`, training for margins, the search over sizes, and the folder in which a search is kept. Add here:
another way to find a layer; the certificate does not care how it was found.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.searching.margin_training import Rounds as Rounds
    from factrank.families.attention.searching.margin_training import train_margins as train_margins
    from factrank.families.attention.searching.search_folder import SearchFolder as SearchFolder
    from factrank.families.attention.searching.search_folder import TriedSize as TriedSize
    from factrank.families.attention.searching.smallest_certified import Method as Method
    from factrank.families.attention.searching.smallest_certified import construct as construct
    from factrank.families.attention.searching.trained_search import TrainedSearch as TrainedSearch
    from factrank.families.attention.searching.trained_search import search_trained as search_trained
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
