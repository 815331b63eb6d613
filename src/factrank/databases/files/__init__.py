"""File formats: databases from and to CSV, TSV, JSON Lines, N-Triples, Turtle and Parquet.

What lives here: a module per format, and `formats`, which chooses among them by the suffix of a file. What may enter:
another format. Every cell is text; nothing in a file is executed.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.databases.files.formats import FileLayout as FileLayout
    from factrank.databases.files.formats import read as read
    from factrank.databases.files.formats import read_changes as read_changes
    from factrank.databases.files.formats import write as write
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
