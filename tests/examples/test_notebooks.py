"""The notebooks run from the first cell to the last, are kept without outputs, and link to what is there."""

import json
import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FORGET = "%reset -f\nimport gc; gc.collect();"
"""Between two notebooks, which share a kernel: libraries are imported, and models compiled, once."""


@pytest.mark.filterwarnings("default")  # of the libraries that talk to kernels
def test_every_notebook_runs(tmp_path):
    pytest.importorskip("torch")
    cells = []
    for path in NOTEBOOKS:
        code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        cells += [nbformat.v4.new_code_cell(text) for text in (FORGET, *code)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    shown = [output for cell in cells for output in cell.outputs]
    assert [output for output in shown if output.output_type == "error" or output.get("name") == "stderr"] == []
    assert sum("text/html" in output.get("data", {}) for output in shown) > 15


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_plain(path):
    content = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(content)
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert content["cells"][0]["source"][0].startswith("# ")
    text = "".join("".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert "://" in target or (path.parent / target).exists(), target
