"""Facts: the `Database`, where it comes from and where it goes.

What lives here: the frozen `Database` with its vocabularies, readers and writers for the usual files and tables,
generators, bundled samples. What may enter: another file format, another generator. It touches NumPy and Arrow only,
and nothing else of factrank.
"""

from factrank.databases.database import COLUMNS as COLUMNS
from factrank.databases.database import Column as Column
from factrank.databases.database import Database as Database
from factrank.databases.database import Fact as Fact
from factrank.databases.vocabulary import Vocabulary as Vocabulary
