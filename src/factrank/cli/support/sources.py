"""Where a command's facts come from: files, standard input or a bundled sample, and how they are to be read.

Every command that reads a table takes the same options. It asks for them with one parameter, `table: Table`, and
`reads_table` turns that into the options of the command line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import wraps
from typing import Annotated, Any

import typer

from factrank.databases import STANDARD_INPUT, STANDARD_INPUT_NAME, Database, sample
from factrank.databases.files import FileLayout, read
from factrank.errors import InputError

SAMPLE_PREFIX = "sample:"

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...|sample:NAME",
        help="A table of facts, or several to be read together; - for standard input; or a bundled sample.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="TEXT",
        help="A cell with this text, such as NA, is empty: a row without a value holds no fact. Repeatable.",
        show_default=False,
    ),
]
Long = Annotated[
    tuple[str, str, str] | None,
    typer.Option(
        "--long",
        metavar="KEY QUERY VALUE",
        help="The three columns of a table with one fact per row, by name or by position from 1.",
    ),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="The table has one key per row (first column) and one query per column.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV or TSV file names the columns or is a fact.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHARACTER",
        help="What separates the columns, such as ';' or tab; by the suffix if not given.",
    ),
]
NoQuotes = Annotated[bool, typer.Option("--no-quotes", help="Quotes are ordinary letters, and enclose nothing.")]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Of text files, such as latin-1; UTF-8 or UTF-16 if not given."),
]
Suffix = Annotated[
    str | None,
    typer.Option(
        "--suffix",
        metavar="SUFFIX",
        help="Read files as if their names ended so, such as .jsonl; standard input is .csv if not given.",
    ),
]
Multi = Annotated[bool, typer.Option("--multi", help="Allow several values for one (key, query).")]


@dataclass(frozen=True)
class Table:
    """How to read a table, in the words of the command line."""

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
        """The same for the functions that read files."""
        quotes, missing = not self.no_quotes, self.missing or ()
        return FileLayout(
            self.long, self.wide, self.header, missing, self.delimiter, quotes, self.encoding, self.suffix
        )

    def load(self, sources: Sequence[str]) -> Database:
        """The facts of a bundled sample, or of all these files."""
        if not any(source.startswith(SAMPLE_PREFIX) for source in sources):
            return read(sources, multi=self.multi, **asdict(self.layout))
        if len(sources) > 1:
            raise InputError(
                f"{title(sources)}: a bundled sample is read alone, and a file of that name as ./sample:..."
            )
        if self.layout != FileLayout():
            raise InputError(f"{sources[0]} is a bundled sample: --long, --wide, --header and the like are for files")
        return sample(sources[0].removeprefix(SAMPLE_PREFIX))


def title(sources: Sequence[str]) -> str:
    """What a report calls the sources of its facts."""
    return ", ".join(STANDARD_INPUT_NAME if source == STANDARD_INPUT else source for source in sources)


def reads_table(command: Callable[..., None], *, without: Sequence[str] = ()) -> Callable[..., None]:
    """The command with one option for each field of its parameter `table`, except those that it goes `without`."""
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
