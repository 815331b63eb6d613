"""Facts: the `Database`, where it comes from and where it goes; and vectors with labels, `Examples`.

What lives here: the frozen `Database` with its vocabularies, readers and writers for the usual files and tables,
generators, bundled samples; random and given `Examples`. What may enter: another file format, another generator. It
touches NumPy and Arrow only, and nothing else of factrank.
"""

from factrank.databases.answer_sets import answer_sets as answer_sets
from factrank.databases.associations import associations as associations
from factrank.databases.database import COLUMNS as COLUMNS
from factrank.databases.database import Column as Column
from factrank.databases.database import Database as Database
from factrank.databases.database import Fact as Fact
from factrank.databases.examples import AnyDatabase as AnyDatabase
from factrank.databases.examples import Examples as Examples
from factrank.databases.examples import RandomExamples as RandomExamples
from factrank.databases.examples import VectorExamples as VectorExamples
from factrank.databases.files import read as read
from factrank.databases.files import read_changes as read_changes
from factrank.databases.files import write as write
from factrank.databases.generators import bijections as bijections
from factrank.databases.generators import disjoint as disjoint
from factrank.databases.generators import structured as structured
from factrank.databases.generators import uniform as uniform
from factrank.databases.generators import zipf as zipf
from factrank.databases.known_rank import KnownRank as KnownRank
from factrank.databases.known_rank import boxes as boxes
from factrank.databases.known_rank import overlapping_boxes as overlapping_boxes
from factrank.databases.named import diagonal as diagonal
from factrank.databases.named import diagonal2 as diagonal2
from factrank.databases.named import matmul as matmul
from factrank.databases.named import unit as unit
from factrank.databases.named import w_state as w_state
from factrank.databases.recoding import recode as recode
from factrank.databases.registry import GENERATORS as GENERATORS
from factrank.databases.registry import generate as generate
from factrank.databases.samples import SAMPLES as SAMPLES
from factrank.databases.samples import Sample as Sample
from factrank.databases.samples import sample as sample
from factrank.databases.tables import from_table as from_table
from factrank.databases.tables import to_table as to_table
from factrank.databases.vocabulary import Vocabulary as Vocabulary
