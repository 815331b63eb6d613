"""Generators: databases made from sizes and a seed, by name.

What lives here: random, structured and named databases, and the registry in which trials, studies and commands find
them. What may enter: another generator, a pure function of its arguments. Users register their own with `generator`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.databases.generators.answer_set_tables import answer_sets as answer_sets
    from factrank.databases.generators.argument_types import argument_type as argument_type
    from factrank.databases.generators.argument_types import value_of_text as value_of_text
    from factrank.databases.generators.association_tables import associations as associations
    from factrank.databases.generators.known_rank import KnownRank as KnownRank
    from factrank.databases.generators.known_rank import boxes as boxes
    from factrank.databases.generators.named import matmul as matmul
    from factrank.databases.generators.named import unit as unit
    from factrank.databases.generators.people_tables import ATTRIBUTES as ATTRIBUTES
    from factrank.databases.generators.people_tables import BIOS_BITS as BIOS_BITS
    from factrank.databases.generators.random_tables import disjoint as disjoint
    from factrank.databases.generators.random_tables import structured as structured
    from factrank.databases.generators.random_tables import uniform as uniform
    from factrank.databases.generators.random_tables import zipf as zipf
    from factrank.databases.generators.registry import GENERATORS as GENERATORS
    from factrank.databases.generators.registry import arguments_of as arguments_of
    from factrank.databases.generators.registry import call_generator as call_generator
    from factrank.databases.generators.registry import generate as generate
    from factrank.databases.generators.registry import generator as generator
    from factrank.databases.generators.registry import is_required as is_required
    from factrank.databases.generators.shared_function_tables import shared_functions as shared_functions
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
