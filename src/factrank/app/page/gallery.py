"""The gallery of the explorer: published reproductions, from the folders that `factrank study publish` writes.

Statements and their verdicts come from claims.csv, figures are drawn from the published tables, and trials are the
rows of these tables. Nothing is judged anew; `factrank study publish --check` does that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from factrank.app.page.payload import coded
from factrank.errors import InputError
from factrank.experiments.columns import label
from factrank.experiments.study import Study, results_of
from factrank.report.publishing import CLAIMS, README, load_published, published_size
from factrank.report.study import Figure, chart_figure, summary_figure
from factrank.studies import PAPERS

MOST_TRIALS = 20_000
"""Number of trials of a study that the page lists; a table with more is cut, and the page says so."""
NOT_LISTED = ("hash", "trial", "status", "data.fingerprint")


def gallery_payload(folder: Path) -> dict[str, Any]:
    """Return the published papers in a folder of reproductions, as plain data.

    Raises:
        InputError: If the folder has no published paper, or a file in it cannot be read.
    """
    found = [_paper(name, folder / name) for name in PAPERS if (folder / name / CLAIMS).is_file()]
    if not found:
        raise InputError(
            f"{folder}: no reproductions here; expected folders such as {folder / next(iter(PAPERS))}, as "
            "`factrank study publish` writes them (--reproductions names another folder)"
        )
    return {"papers": found}


def _paper(name: str, folder: Path) -> dict[str, Any]:
    claims = _csv(folder / CLAIMS).to_pylist()
    title = re.search(r"^# (.+)$", (folder / README).read_text(encoding="utf-8"), re.MULTILINE)
    source = next((study.source for study in PAPERS[name] if study.source), None)
    return {
        "name": name,
        "label": f"{name[:-4].capitalize()} {name[-4:]}",
        "title": title[1] if title else name,
        "paper": source.paper if source else name,
        "link": source.link if source and source.link.startswith("https://") else "",
        "studies": [_study(study, folder, claims) for study in PAPERS[name]],
    }


def _study(study: Study, folder: Path, claims: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = results_of(study, published_size(folder, study), load_published(folder, study))
    figures = [chart_figure(chart, records) for chart, records in found.charts]
    drawn = zip(found.summaries, found.summary_charts, strict=True)
    figures += [summary_figure(summary, table, records) for (summary, table), (_, records) in drawn]
    return {
        "name": study.name,
        "title": study.title,
        "figure": study.source.figure if study.source else "",
        "question": study.question,
        "method": study.method,
        "claims": [
            {name: cell for name, cell in row.items() if name != "study"}
            for row in claims
            if row["study"] == study.name
        ],
        "figures": [_figure(figure) for figure in figures if figure.picture is not None],
        "trials": _trials(found.tables.trials),
    }


def _figure(figure: Figure) -> dict[str, Any]:
    notes = " ".join([figure.caption, *figure.notes]).strip()
    return {
        "name": figure.name,
        "title": figure.title,
        "alternative": figure.alternative,
        "caption": notes,
        "spec": figure.picture,
        "records": figure.n_records,
    }


def _trials(table: pa.Table) -> dict[str, Any]:
    """Return the columns of the finished trials that differ between them: codes of a few cells, or float32 numbers."""
    ended = table.filter(pc.is_in(table["status"], pa.array(["finished", "stopped"])))
    rows = ended.slice(0, MOST_TRIALS)
    columns = []
    for name in rows.column_names:
        column = rows[name].combine_chunks()
        if name in NOT_LISTED or pc.count_distinct(column, mode="all").as_py() < 2:
            continue
        columns.append({"name": name, "label": label(name), **_column(column)})
    return {"n": ended.num_rows, "listed": rows.num_rows, "columns": columns}


def _column(column: pa.Array) -> dict[str, Any]:
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return {"numbers": coded(np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float32))}
    texts = ["" if cell is None else str(cell) for cell in column.to_pylist()]
    words = sorted(set(texts))
    codes = {word: code for code, word in enumerate(words)}
    return {"words": words, "codes": coded(np.array([codes[text] for text in texts], np.int32))}


def _csv(path: Path) -> pa.Table:
    try:
        return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=False))
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: not a table of a published paper: {error}") from None
