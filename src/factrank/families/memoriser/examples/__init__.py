"""Examples: a query vector and a context of vectors, with a label to memorise.

Contents: given, random and token examples, their vectors, and the batches of a step. Other sources of examples belong
here.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.memoriser.examples.example_batches import MOST_EXAMPLES as MOST_EXAMPLES
    from factrank.families.memoriser.examples.example_batches import MOST_VISITS as MOST_VISITS
    from factrank.families.memoriser.examples.example_batches import ExampleData as ExampleData
    from factrank.families.memoriser.examples.example_batches import ExampleLayout as ExampleLayout
    from factrank.families.memoriser.examples.example_batches import draw_orders as draw_orders
    from factrank.families.memoriser.examples.example_batches import examples_at as examples_at
    from factrank.families.memoriser.examples.example_batches import examples_of_step as examples_of_step
    from factrank.families.memoriser.examples.example_vectors import stored as stored
    from factrank.families.memoriser.examples.example_vectors import stored_labels as stored_labels
    from factrank.families.memoriser.examples.examples import Examples as Examples
    from factrank.families.memoriser.examples.examples import RandomExamples as RandomExamples
    from factrank.families.memoriser.examples.examples import VectorExamples as VectorExamples
    from factrank.families.memoriser.examples.token_examples import QueryKind as QueryKind
    from factrank.families.memoriser.examples.token_examples import TokenExamples as TokenExamples
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
