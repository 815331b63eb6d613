"""Notebooks as pages of the site: text, code and, if they are run, what the code shows."""

from __future__ import annotations

import html
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PICTURE = "image/svg+xml"
CHARTS_AS_PICTURES = "import altair; altair.renderers.enable('svg');"
"""Run first: altair's HTML would load scripts from the network."""
LONGEST = 600


def page(notebook: Path, folder: Path, *, run: bool) -> str:
    """Return a notebook as Markdown.

    Arguments:
        notebook: An .ipynb file.
        folder: Where the page will be; the notebook and its charts are written there.
        run: Execute the notebook first, and show the outputs.
    """
    cells = executed(notebook) if run else json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    shutil.copyfile(notebook, folder / notebook.name)
    parts = []
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        outputs = joined(cell.get("outputs", ()))
        parts += [shown(output, folder, f"{notebook.stem}-{number}") for output in outputs]
    title, _, rest = parts[0].partition("\n")
    download = f'<a href="{notebook.name}" download>Download this notebook</a>, or open it in `examples/notebooks`.'
    return "\n\n".join([title, download, rest.strip(), *parts[1:]]) + "\n"


def executed(notebook: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook with their outputs, run in a new kernel and a folder that is deleted.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    import tempfile  # noqa: PLC0415 - only pages with outputs need a kernel

    import nbclient  # noqa: PLC0415
    import nbformat  # noqa: PLC0415

    content = nbformat.read(notebook, as_version=4)
    content.cells.insert(0, nbformat.v4.new_code_cell(CHARTS_AS_PICTURES))
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            content,
            timeout=LONGEST,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=ERROR"],  # a kernel on loopback warns that it is not encrypted
        )
        client.execute(env={**os.environ, "PYTHONWARNINGS": "ignore"})
    return list(content.cells)[1:]


def joined(outputs: Iterable[Any]) -> list[Any]:
    """Return outputs with consecutive pieces of printed text as one: a kernel sends them when it likes."""
    whole: list[Any] = []
    for output in outputs:
        if output["output_type"] == "stream" and whole and whole[-1]["output_type"] == "stream":
            whole[-1] = {**whole[-1], "text": whole[-1]["text"] + output["text"]}
        else:
            whole.append(output)
    return whole


def shown(output: Any, folder: Path, name: str) -> str:
    """Return an output as Markdown: a chart as a picture, an object as its own HTML, everything else as text."""
    if output["output_type"] == "stream":
        return f"```text\n{output['text'].rstrip()}\n```"
    data = output["data"]
    if PICTURE in data:
        (folder / f"{name}.svg").write_text("".join(data[PICTURE]), encoding="utf-8")
        return f'<img src="{name}.svg" alt="The chart of this cell">'
    if "text/html" in data and "<script" not in data["text/html"]:
        return f'<div class="output">{" ".join("".join(data["text/html"]).split())}</div>'
    return f"<pre><code>{html.escape(''.join(data['text/plain']))}</code></pre>"
