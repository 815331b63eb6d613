"""The `Database` of facts, and how to read, write, generate and compare databases.

Contains: databases, their vocabularies and splits, conversion from and to Arrow, polars and pandas tables, file formats
(`files`), generators (`generators`) and samples. Add here: another format, generator or sample. Depends on NumPy, SciPy
and Arrow, and on no model.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.databases.agreement import Agreement as Agreement
    from factrank.databases.agreement import agreement_of as agreement_of
    from factrank.databases.close_spelling import close_names as close_names
    from factrank.databases.database import COLUMNS as COLUMNS
    from factrank.databases.database import Column as Column
    from factrank.databases.database import Database as Database
    from factrank.databases.recoding import known_facts as known_facts
    from factrank.databases.recoding import recode as recode
    from factrank.databases.sample_tables import SAMPLES as SAMPLES
    from factrank.databases.sample_tables import SampleTable as SampleTable
    from factrank.databases.sample_tables import sample as sample
    from factrank.databases.source_files import STANDARD_INPUT as STANDARD_INPUT
    from factrank.databases.source_files import STANDARD_INPUT_NAME as STANDARD_INPUT_NAME
    from factrank.databases.source_files import reading as reading
    from factrank.databases.source_files import require_one_standard_input as require_one_standard_input
    from factrank.databases.source_files import source_file as source_file
    from factrank.databases.splits import Splits as Splits
    from factrank.databases.splits import split_facts as split_facts
    from factrank.databases.tables import from_table as from_table
    from factrank.databases.tables import to_table as to_table
    from factrank.databases.vocabulary import NAME_TYPE as NAME_TYPE
    from factrank.databases.vocabulary import Vocabulary as Vocabulary
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
