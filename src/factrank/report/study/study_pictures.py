"""The pictures of a study: those of its charts and of its summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from factrank.errors import InputError
from factrank.experiments.study import Chart, StudyResults
from factrank.report.charts import save_chart
from factrank.report.study.study_charts import draw
from factrank.report.study.summary_charts import draw_summary


def pictures(found: StudyResults) -> list[tuple[str, Any]]:
    """Every chart and summary that has something to show, by name, as Vega-Lite for a light page."""
    return [
        (part.name, draw(part, records) if isinstance(part, Chart) else draw_summary(part, records))
        for part, records in found.drawn
    ]


def save_charts(found: StudyResults, folder: str | Path) -> list[Path]:
    """Write every chart and summary that has something to show as SVG and PNG; gives the paths."""
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
