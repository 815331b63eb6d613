"""Publish the results of a paper's studies in a folder that can be read and checked without a store.

    text.md        prose with placeholders (`lab_report`), written by hand; a first draft is generated
    README.md      the text with the numbers filled in
    claims.csv     every claim: published, ours, interval, seeds, p-value, detectable difference, standard deviations
                   between tables and between trainings of a table, when it was fixed, verdict, why, quote, note
    claims.md      the same for readers
    summaries/     every summary, as CSV
    tables/        the results of the trials (`factrank.report.publishing.published_tables`)
    charts/        every chart and summary, as SVG
    checksums.txt  the SHA-256 of each of these files (`factrank.report.publishing.published_checks`)

Everything is computed from tables/ as written, so anyone with the folder can recompute it. `differences` checks this:
claims, summaries and texts are computed again, pictures are compared by their checksums only.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isclose
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.csv

from factrank.errors import InputError
from factrank.experiments.statistics import Claim, Verdict, fixed
from factrank.experiments.store import Tables, as_data, write_table
from factrank.experiments.study import Results, Size, Study, StudyResults, asked_trials, results_of
from factrank.host import replacing, require_file, waiting_for_others
from factrank.report.markdown import inline, steady_table
from factrank.report.publishing.lab_report import drawn_parts, first_text, picture_name, pictures_named, render
from factrank.report.publishing.published_checks import (
    CHECKSUMS,
    checksum_differences,
    checksums_text,
    require_size,
    row_differences,
)
from factrank.report.publishing.published_tables import (
    TABLES,
    data_used,
    load_published,
    published_claims,
    published_size,
    require_published,
    table_path,
    write_published,
)
from factrank.report.publishing.small_svg import small_svg
from factrank.report.study import claims_text, pictures, published_text, quotes_text

TEXT, README, CLAIMS, CLAIMS_TEXT = "text.md", "README.md", "claims.csv", "claims.md"
SUMMARIES, CHARTS = "summaries", "charts"
MADE = f"<!-- Made from {TEXT} by `factrank study publish`: edit that file. -->\n\n"

CLAIM_COLUMNS: dict[str, tuple[pa.DataType, Callable[[StudyResults, Claim, Verdict], Any]]] = {
    "study": (pa.string(), lambda found, _claim, _verdict: found.study.name),
    "claim": (pa.string(), lambda _, claim, _verdict: claim.name),
    "statement": (pa.string(), lambda _, claim, _verdict: claim.statement),
    "place": (pa.string(), lambda _, claim, _verdict: claim.place),
    "extension": (pa.bool_(), lambda _, claim, _verdict: claim.extension),
    "published": (pa.string(), lambda _, claim, _verdict: published_text(claim)),
    "value": (pa.float64(), lambda _, _claim, verdict: verdict.value),
    "low": (pa.float64(), lambda _, _claim, verdict: verdict.interval and verdict.interval[0]),
    "high": (pa.float64(), lambda _, _claim, verdict: verdict.interval and verdict.interval[1]),
    "seeds": (pa.int64(), lambda _, _claim, verdict: verdict.n_seeds),
    "p": (pa.float64(), lambda _, _claim, verdict: verdict.p),
    "detectable": (pa.float64(), lambda _, _claim, verdict: verdict.detectable),
    "between": (pa.float64(), lambda _, _claim, verdict: verdict.between),
    "within": (pa.float64(), lambda _, _claim, verdict: verdict.within),
    "fixed": (pa.string(), lambda found, claim, _verdict: fixed(claim, found.fixed)),
    "verdict": (pa.string(), lambda _, _claim, verdict: verdict.status),
    "why": (pa.string(), lambda _, _claim, verdict: verdict.why),
    "quote": (pa.string(), lambda _, claim, _verdict: claim.quote),
    "note": (pa.string(), lambda _, claim, _verdict: claim.note),
}
"""The columns of claims.csv: their types, and their cells from the results of a study, a claim and its verdict."""


@dataclass(frozen=True, eq=False)
class Publication:
    """The published results, and the files in the folder that belong to no study."""

    results: Results
    strange: list[Path]


def publish(
    paper: str,
    studies: Sequence[Study],
    size: Size,
    tables: Tables,
    folder: Path,
    fixed_claims: Mapping[str, Mapping[str, str] | None] = MappingProxyType({}),
) -> Publication:
    """Write the folder from the tables of a store; an existing text.md is kept, everything else is overwritten.

    Waits while another process publishes to the same folder.

    Arguments:
        paper: Name of the paper.
        studies: Its studies.
        size: "quick" or "full".
        tables: Tables of the store.
        folder: Where to publish.
        fixed_claims: By study, the hashes of the claims that were recorded before its run (`Store.fixed_claims`).

    Raises:
        InputError: If the folder cannot be written, if its text quotes a result or shows a picture that does not exist,
            or if only the quick size was run of a study that is to be published in full.
    """
    for study in studies:
        require_size(study, size, tables.trials)
    try:
        for name in (TABLES, SUMMARIES, CHARTS):
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot create the folder: {error.strerror or error}") from None
    with waiting_for_others(folder):
        return _publish(
            paper, [results_of(study, size, tables, fixed_claims.get(study.name)) for study in studies], folder
        )


def _publish(paper: str, stored_results: Sequence[StudyResults], folder: Path) -> Publication:
    results: dict[str, StudyResults] = {}
    drawn: set[str] = set()
    studies = [stored.study for stored in stored_results]
    for stored in stored_results:
        study = stored.study
        write_published(folder / TABLES, stored)
        results[study.name] = found = published_results(folder, study)
        require_published(stored, found)
        drawn |= _write_pictures(folder, found)
        for summary, table in found.summaries:
            write_table(steady_table(table), folder / _summary_name(study, summary.name))
    write_table(claims_table(results), folder / CLAIMS)
    _write(folder / CLAIMS_TEXT, all_claims_text(results))
    if not (folder / TEXT).exists():
        _write(folder / TEXT, first_text(paper, results, drawn))
    readme = _readme(folder, results)
    absent = sorted(pictures_named(readme) - drawn)
    if absent:
        raise InputError(f"{folder / TEXT}: it shows {', '.join(absent)}, but there are no results to draw")
    _write(folder / README, readme)
    _write(folder / CHECKSUMS, checksums_text(folder, _names(studies, drawn)))
    return Publication(results, _strange(folder, _names(studies, drawn)))


def differences(folder: str | Path, studies: Sequence[Study]) -> list[str]:
    """Return how a published folder differs from its checksums, its tables, its text and the studies."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    found = checksum_differences(folder, _names(studies))
    results: dict[str, StudyResults] = {}
    drawn: set[str] = set()
    try:
        for study in studies:
            size, tables = published_size(folder, study), load_published(folder, study)
            trials = asked_trials(study, size, tables.trials)  # takes as long as all else: listed once
            result = results_of(study, size, tables, published_claims(folder, study), trials)
            results[study.name] = result
            drawn |= {picture_name(study, part.name) for part, _ in result.drawn}
            found += row_differences(folder, study, tables, trials)
            if result.n_missing:
                found.append(f"{study.name}: {result.n_missing:,} of its trials are not in its table")
        claims = claims_table(results)
    except InputError as error:
        return list(dict.fromkeys([*found, str(error)]))
    found += _table_differences(folder / CLAIMS, claims)
    for result in results.values():
        for summary, table in result.summaries:
            found += _table_differences(folder / _summary_name(result.study, summary.name), steady_table(table))
    found += _line_differences(folder / CLAIMS_TEXT, lambda: all_claims_text(results))
    found += _line_differences(folder / README, lambda: _readme(folder, results))
    readme = folder / README
    shown = pictures_named(readme.read_text(encoding="utf-8", errors="replace")) if readme.is_file() else set()
    found += [f"{folder / one}: no such file" for one in sorted(shown | drawn) if not (folder / one).is_file()]
    found += [f"{path}: not of this paper" for path in _strange(folder, _names(studies, drawn))]
    return list(dict.fromkeys(found))  # a missing file is found several times


def published_results(folder: Path, study: Study) -> StudyResults:
    """Return the results of a study from its published tables."""
    size, tables = published_size(folder, study), load_published(folder, study)
    return results_of(study, size, tables, published_claims(folder, study))


def claims_table(results: Results) -> pa.Table:
    """Return a table of all claims of a paper with our verdicts, one row each."""
    judged = [(found, *pair) for found in results.values() for pair in found.judged]
    columns = {name: pa.array([cell(*row) for row in judged], kind) for name, (kind, cell) in CLAIM_COLUMNS.items()}
    return steady_table(pa.table(columns))


def all_claims_text(results: Results) -> str:
    """Return the claims of all studies in Markdown: a table per study, followed by quotes and notes."""
    parts = [
        f"## {inline(found.study.title)}\n\n{claims_text(found, names=True)}\n"
        + (f"\n{quotes}\n" if (quotes := quotes_text(found)) else "")
        for found in results.values()
        if found.judged
    ]
    return "\n".join(["# Claims\n", *parts])


# ---------------------------------------------------------------- files


def _write(path: Path, text: str) -> None:
    with replacing(path) as stream:
        stream.write(text.encode())


def _text_of(path: Path) -> str:
    require_file(path)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text: {error}") from None


def _readme(folder: Path, results: Results) -> str:
    return MADE + render(_text_of(folder / TEXT), results, str(folder / TEXT))


def _summary_name(study: Study, summary: str) -> str:
    return f"{SUMMARIES}/{study.name}-{summary}.csv"


def _write_pictures(folder: Path, found: StudyResults) -> set[str]:
    """Write the non-empty pictures of a study; returns their names."""
    names = set()
    for part, picture in pictures(found):
        name = picture_name(found.study, part)
        names.add(name)
        svg = io.StringIO()
        picture.save(svg, format="svg")
        _write(folder / name, small_svg(svg.getvalue()))
    return names


def _names(studies: Sequence[Study], drawn: Collection[str] | None = None) -> set[str]:
    """Return the names of all published files, with the pictures in `drawn` or, by default, all possible ones."""
    names = {TEXT, README, CLAIMS, CLAIMS_TEXT}
    names |= {table_path(Path(TABLES), study, data).as_posix() for study in studies for data in data_used(study)}
    names |= {_summary_name(study, summary.name) for study in studies for summary in study.summaries}
    possible = {picture_name(study, part.name) for study in studies for part in drawn_parts(study)}
    return names | (possible if drawn is None else set(drawn))


def _strange(folder: Path, names: Collection[str]) -> list[Path]:
    """Return files that belong to no study, for example after a study was renamed."""
    known = {folder / name for name in names}
    return [
        path
        for name in (TABLES, SUMMARIES, CHARTS)
        if (folder / name).is_dir()
        for path in sorted((folder / name).iterdir())
        if path not in known and not path.name.startswith(".")
    ]


# ---------------------------------------------------------------- comparisons


def _table_differences(path: Path, expected: pa.Table) -> list[str]:
    """Return the cells of a CSV file that are not as expected, up to rounding errors."""
    expected = as_data(expected)
    kinds = {field.name: field.type for field in expected.schema}
    options = pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False)
    lines = pyarrow.csv.ParseOptions(newlines_in_values=True)  # in notes
    try:
        require_file(path)
        table = pyarrow.csv.read_csv(path, parse_options=lines, convert_options=options)
    except (InputError, pa.ArrowInvalid) as error:
        return [str(error) if isinstance(error, InputError) else f"{path}: not a readable CSV file: {error}"]
    if table.schema.names != expected.schema.names or table.num_rows != expected.num_rows:
        return [f"{path}: it has other columns, or {table.num_rows} rows where there are {expected.num_rows}"]
    return [
        f"{path}, row {row}: {name} is {written!r}, but the tables give {computed!r}"
        for name in expected.schema.names
        for row, (written, computed) in enumerate(
            zip(table[name].to_pylist(), expected[name].to_pylist(), strict=True), start=1
        )
        if not _agree(written, computed)
    ]


def _agree(written: object, computed: object) -> bool:
    if isinstance(written, float) and isinstance(computed, float):
        return isclose(written, computed, rel_tol=1e-6, abs_tol=1e-9)
    return written == ("" if computed is None and isinstance(written, str) else computed)


def _line_differences(path: Path, expected: Callable[[], str]) -> list[str]:
    """Return the first line of a text that is not as expected."""
    try:
        written, computed = _text_of(path).splitlines(), expected().splitlines()
    except InputError as error:
        return [str(error)]
    for line, (own, other) in enumerate(zip_longest(written, computed, fillvalue=""), start=1):
        if own != other:
            return [f"{path}, line {line}: {own!r}, but it should be {other!r}"]
    return []
