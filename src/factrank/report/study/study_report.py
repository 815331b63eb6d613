"""Write the report of a study: the page, its charts as pictures, and its table of trials."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from factrank.errors import InputError
from factrank.experiments.store import Store, write_table
from factrank.experiments.study import StudyResults
from factrank.host import replacing
from factrank.report.study.study_page import build_page
from factrank.report.study.study_pictures import save_charts


def write_report(found: StudyResults, store: Store, command: str, path: Path | None = None) -> Path:
    """Write the page to a file, by default in the store, and its charts and its table of trials next to it.

    `command` is the command shown on the page to run the study again. An existing page is replaced atomically.

    >>> import tempfile
    >>> from factrank import LayerShape, Study, Training, Trial, generated, results_of, train_many
    >>> trials = [Trial(generated("unit", n=3), LayerShape(3, 1, 1, 2), Training(epochs=20))]
    >>> study = Study("mine", "A study of mine", None, "Does it learn?", "One seed.", lambda size: trials)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.append(train_many(trials))
    ...     page = write_report(results_of(study, "quick", store.tables()), store, "factrank study run mine.yaml")
    ...     page.name, "Does it learn?" in page.read_text()
    ('mine-quick.html', True)
    """
    if path is None:
        store.require_writable()
        path = store.folder / "reports" / f"{found.study.name}-{found.size}.html"
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{path.parent}: cannot create the folder: {error.strerror or error}; use -o") from None
    table = path.with_suffix(".csv")
    page = build_page(found, store.problems(), command, written=f"{date.today():%d %B %Y}".lstrip("0"), data=table.name)
    with replacing(path) as stream:
        stream.write(page.encode())
    write_table(found.table, table)
    save_charts(found, path.parent)
    return path
