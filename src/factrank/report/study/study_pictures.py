"""Pictures of a study: its charts and summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from factrank.errors import InputError
from factrank.experiments.study import Chart, StudyResults
from factrank.report.charts import save_chart
from factrank.report.study.study_charts import draw
from factrank.report.study.summary_charts import draw_summary


def pictures(found: StudyResults) -> list[tuple[str, Any]]:
    """Return (name, Vega-Lite) of every chart and summary with records, for a light page."""
    return [
        (part.name, draw(part, records) if isinstance(part, Chart) else draw_summary(part, records))
        for part, records in found.drawn
    ]


def save_charts(found: StudyResults, folder: str | Path) -> list[Path]:
    """Write every chart and summary with records as SVG and PNG; returns the paths."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: charts cannot be written there: {error.strerror}") from None
    paths = []
    for name, picture in pictures(found):
        for suffix in ("svg", "png"):
            paths.append(folder / f"{found.study.name}-{found.size}-{name}.{suffix}")
            save_chart(picture, paths[-1])
    return paths
