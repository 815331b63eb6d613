"""File formats: read and write CSV, TSV, JSON Lines, N-Triples, N-Quads, Turtle and Parquet.

Contains: one module per format, and `formats`, which selects the format by file suffix. Add here: another format.
Every cell is text, and no file content is executed.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.databases.files.delimited import Delimited as Delimited
    from factrank.databases.files.formats import FORMATS as FORMATS
    from factrank.databases.files.formats import FileLayout as FileLayout
    from factrank.databases.files.formats import Format as Format
    from factrank.databases.files.formats import read as read
    from factrank.databases.files.formats import read_changes as read_changes
    from factrank.databases.files.formats import register_format as register_format
    from factrank.databases.files.formats import registered_format as registered_format
    from factrank.databases.files.formats import write as write
    from factrank.databases.files.records import Dialect as Dialect
    from factrank.databases.files.split_files import read_splits as read_splits
    from factrank.databases.files.split_files import write_splits as write_splits
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
