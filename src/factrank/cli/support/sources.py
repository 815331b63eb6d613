"""Sources of facts: files, standard input or a bundled sample, and the options that describe their layout.

Every command that reads a table takes the same options. It declares one parameter, `table: Table`, which `reads_table`
expands into options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import wraps
from typing import Annotated, Any

import typer

from factrank.databases import STANDARD_INPUT, STANDARD_INPUT_NAME, Database, recode, sample
from factrank.databases.files import FileLayout, read
from factrank.errors import InputError

SAMPLE_PREFIX = "sample:"

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help="A file of facts, or several to read as one table; - for standard input; sample:NAME for a sample.",
    ),
]


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="How to read the table", show_default=False, **settings)


Long = Annotated[
    tuple[str, str, str] | None,
    _option(
        "--long",
        metavar="KEY QUERY VALUE",
        help="The three columns of a table with one fact per row, by name or by position from 1.",
    ),
]
Wide = Annotated[bool, _option("--wide", help="The table has one key per row (first column) and one query per column.")]
Header = Annotated[
    bool | None,
    _option("--header/--no-header", help="Whether the first line of a CSV or TSV file names the columns or is a fact."),
]
Missing = Annotated[
    list[str] | None,
    _option(
        "--missing",
        metavar="TEXT",
        help="Treat cells with this text, such as NA, as empty: a row without a value is not a fact. Repeatable.",
    ),
]
Delimiter = Annotated[
    str | None,
    _option(
        "--delimiter", metavar="CHARACTER", help="Column separator, such as ';' or tab; by default, from the suffix."
    ),
]
NoQuotes = Annotated[bool, _option("--no-quotes", help="Read quotation marks as ordinary characters.")]
Encoding = Annotated[
    str | None,
    _option("--encoding", metavar="NAME", help="Encoding of text files, such as latin-1; UTF-8 or UTF-16 by default."),
]
Suffix = Annotated[
    str | None,
    _option(
        "--suffix",
        metavar="SUFFIX",
        help="Read files as if their names ended in this, such as .jsonl; standard input is .csv by default.",
    ),
]
Multi = Annotated[bool, _option("--multi", help="Allow several values for one (key, query).")]


@dataclass(frozen=True)
class Table:
    """The options that describe a table."""

    long: Long = None
    wide: Wide = False
    header: Header = None
    missing: Missing = None
    delimiter: Delimiter = None
    no_quotes: NoQuotes = False
    encoding: Encoding = None
    suffix: Suffix = None
    multi: Multi = False

    def __post_init__(self) -> None:
        if self.long is not None and self.wide:
            raise InputError("--long and --wide exclude each other: give one of them")

    @property
    def layout(self) -> FileLayout:
        """The layout for the functions that read files."""
        quotes, missing = not self.no_quotes, self.missing or ()
        return FileLayout(
            self.long, self.wide, self.header, missing, self.delimiter, quotes, self.encoding, self.suffix
        )

    def load(self, sources: Sequence[str]) -> Database:
        """Return the facts of a bundled sample, or of all these files."""
        if not any(source.startswith(SAMPLE_PREFIX) for source in sources):
            return read(sources, multi=self.multi, **asdict(self.layout))
        if len(sources) > 1:
            raise InputError(
                f"{title(sources)}: a bundled sample cannot be combined with other tables; ./sample:... is a file"
            )
        if self.layout != FileLayout():
            raise InputError(
                f"{sources[0]} is a bundled sample: --long, --wide, --header and similar options are for files"
            )
        return sample(sources[0].removeprefix(SAMPLE_PREFIX))

    def load_onto(self, sources: Sequence[str], stored: Database) -> Database:
        """Return the facts in the codes of the database that a layer stores."""
        facts = self.load(sources)
        try:
            return recode(facts, onto=stored)
        except InputError as error:
            raise InputError(f"{title(sources)}: the layer does not know this table: {error}") from None


def title(sources: Sequence[str]) -> str:
    """Return the title of a report on these sources."""
    return ", ".join(STANDARD_INPUT_NAME if source == STANDARD_INPUT else source for source in sources)


def reads_table(command: Callable[..., None], *, without: Sequence[str] = ()) -> Callable[..., None]:
    """Replace the parameter `table` of a command by one option for each field of `Table`, except those in `without`."""
    signature = inspect.signature(command, eval_str=True)
    options = [field for field in fields(Table) if field.name not in without]
    hints = inspect.get_annotations(Table, eval_str=True)

    @wraps(command)
    def expanded(**given: Any) -> None:
        table = Table(**{field.name: given.pop(field.name) for field in options})
        command(**given, table=table)

    own = [each for each in signature.parameters.values() if each.name != "table"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=hints[field.name]) for field in options
    ]
    parameters = [each.replace(kind=keyword) for each in own] + added
    expanded.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    return expanded
