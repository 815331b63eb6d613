"""Write the report of a study: the page, and its charts as pictures beside it."""

from __future__ import annotations

from pathlib import Path

from factrank.errors import InputError
from factrank.experiments.store import Store
from factrank.experiments.study import StudyResults
from factrank.host import replacing
from factrank.report.study.study_page import build_page
from factrank.report.study.study_pictures import save_charts


def report_path(found: StudyResults, store: Store) -> Path:
    """Where the report of a study lies in its store."""
    return store.folder / "reports" / f"{found.study.name}-{found.size}.html"


def write_report(found: StudyResults, store: Store, command: str, path: Path | None = None) -> Path:
    """Write the page to a file, or to its place in the store, and the charts as SVG and PNG beside it.

    `command` is what the page says under how to run it again. A page that was there is replaced as a whole.
    """
    if path is None:
        store.require_writable()
        path = report_path(found, store)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{path.parent}: cannot be made: {error.strerror or error}; -o writes elsewhere") from None
    page = build_page(found, store.problems(), command)
    with replacing(path) as stream:
        stream.write(page.encode())
    save_charts(found, path.parent)
    return path
