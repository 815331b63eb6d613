"""A real notebook: objects have displays, plots are charts, progress is a line, Ctrl-C keeps what is finished."""

import pytest

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
nbformat = pytest.importorskip("nbformat")

CELLS = {
    "facts": "import factrank\nfactrank.show_progress(False)\ndb = factrank.sample('astrid')\ndb",
    "measurement": "size = factrank.measure(db, budget=0.5)\nsize",
    "bounds": "size.rank",
    "bound": "size.rank.upper",
    "witness": "size.rank.upper.witness()",
    "constructed": "built = factrank.construct(db)\nbuilt",
    "layer": "built.model",
    "certificate": "built.certificate",
    "recall": "factrank.recall(built)",
    "answer": "factrank.answer(built, 'Astrid', 'born_in')",
    "diagnosis": "factrank.diagnose(built)",
    "attribution": "factrank.attribute_facts(built)",
    "plot": "db.plot()",
    "progress": """
import time, factrank.notebook_progress as progress
factrank.show_progress(True)
progress.PATIENCE = 0.05
with progress.ProgressLine("measuring") as line:
    line.update("first")
    time.sleep(0.5)
    line.update("second")
    seen = line._bundle()
print(seen["text/plain"])
""",
    "silence": """
factrank.show_progress(False)
with progress.ProgressLine("measuring") as line:
    time.sleep(0.3)
""",
    "trained": """
factrank.train(db, factrank.LayerShape(4, 1, 2, 2), factrank.Training(epochs=2))
""",
    "interruption": """
import os, signal
from factrank import LayerShape, Trial, Training, generated, train_many
facts, shape = generated("unit", n=3), LayerShape(3, 1, 1, 2)
trials = [Trial(facts, shape, Training(epochs=epochs)) for epochs in (1, 10**9)]
train_many(trials, on_result=lambda _: os.kill(os.getpid(), signal.SIGINT))
""",
    "study": """
import tempfile
from factrank import Store, Study, run_study

class Stop:
    def update(self, *progress):
        raise KeyboardInterrupt

study = Study("mine", "Mine", None, "", "", lambda size: trials[:1])
with tempfile.TemporaryDirectory() as folder:
    summary = run_study(study, "quick", Store(folder), meter=Stop())
""",
    "afterwards": "import sys\nprint(type(sys.last_value).__name__, [one.epochs for one in sys.last_value.finished])",
}


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each cell, run in one kernel."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS.values()])
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", allow_errors=True).execute()
    return dict(zip(CELLS, (cell.outputs for cell in notebook.cells), strict=True))


SHOWN = [*[*CELLS][: [*CELLS].index("plot")], "trained"]


@pytest.mark.filterwarnings("default")  # of the libraries that talk to kernels
def test_every_object_has_a_rich_display(outputs):
    for name in SHOWN:
        (output,) = outputs[name]
        assert output.output_type == "execute_result", name
        assert output.data["text/html"].startswith("<div"), name
        assert output.data["text/plain"], name


def test_plots_are_charts(outputs):
    (output,) = outputs["plot"]
    assert any("vega" in kind for kind in output.data) or "vega" in output.data["text/html"]


def test_progress_is_one_line_that_goes_away(outputs):
    line, printed = outputs["progress"]
    assert (line.output_type, line.data) == ("display_data", {"text/plain": ""})
    assert printed.text == "measuring: second\n"
    assert outputs["silence"] == []


def test_an_interruption_keeps_what_is_finished(outputs):
    error = outputs["interruption"][-1]
    assert error.ename == "Interrupted"
    assert "1 of 2 models are finished" in error.evalue
    assert "checkpoints=FOLDER" in error.evalue
    assert outputs["study"][0].data["text/plain"] == "interrupted: 1 of 1 trials are left; the same call resumes"
    assert outputs["afterwards"][0].text == "Interrupted [1]\n"
