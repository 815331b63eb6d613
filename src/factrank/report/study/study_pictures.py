"""The pictures of a study: those of its charts and of its summaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from factrank.errors import InputError
from factrank.experiments.statistics import Summary
from factrank.experiments.store import Tables
from factrank.experiments.study import Chart, Size, Study, study_tables, summarise
from factrank.report.charts import save_chart
from factrank.report.study.chart_records import Records, chart_records
from factrank.report.study.study_charts import draw
from factrank.report.study.summary_charts import draw_summary, summary_records


def pictures(study: Study, size: Size, tables: Tables) -> list[tuple[str, Any]]:
    """Every chart and summary that has something to show, by name, as Vega-Lite for a light page."""
    own = study_tables(study, size, tables)
    return [
        (part.name, draw(part, records) if isinstance(part, Chart) else draw_summary(part, records))
        for part, records in shown_parts(study, own, summarise(study, size, tables))
    ]


def shown_parts(
    study: Study, own: Tables, summaries: Sequence[tuple[Summary, pa.Table]]
) -> list[tuple[Chart | Summary, Records]]:
    """Every chart and summary that has something to show, with what it shows; `own` are the tables of the study."""
    parts: list[tuple[Chart | Summary, Records]] = [(chart, chart_records(chart, own)) for chart in study.charts]
    parts += [(summary, summary_records(summary, table)) for summary, table in summaries]
    return [(part, records) for part, records in parts if records.rows]


def save_charts(study: Study, size: Size, tables: Tables, folder: str | Path) -> list[Path]:
    """Write every chart and summary that has something to show as SVG and PNG; gives the paths."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: charts cannot be written there: {error.strerror}") from None
    paths = []
    for name, picture in pictures(study, size, tables):
        for suffix in ("svg", "png"):
            paths.append(folder / f"{study.name}-{size}-{name}.{suffix}")
            save_chart(picture, paths[-1])
    return paths
