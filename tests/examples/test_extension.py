"""A package of somebody else's, installed in a folder of its own: everything that it adds is found and works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension"
ADDED = {
    "generators": "clock",
    "formats": ".psv",
    "forms": "wide-margin",
    "bounds": "values in use",
    "families": "lookup",
}

USED = """
import json, sys
from factrank.cli import app

def command(*words):
    app(words, standalone_mode=False)

for kind in ("generators", "formats", "forms", "bounds", "families"):
    command("ls", kind, "--json")
    print("---")
command("generate", "clock", "--set", "hours=5", "-o", "clock.psv")
print("---")
command("construct", "clock.psv", "--only", "wide-margin", "--json", "-o", "clock.safetensors")
print("---")

import factrank
from factrank_extension.lookup import LookupShape
facts = factrank.read("clock.psv")
rank = factrank.measure(facts, budget=0.0).rank
trained = factrank.train(facts, LookupShape(), factrank.Training(epochs=60, learning_rate=0.1))
print(json.dumps([[bound.method for bound in rank.tried], trained.recall]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of the example, and of a package whose entry point leads nowhere."""
    folder = tmp_path_factory.mktemp("packages")
    options = "--quiet --disable-pip-version-check --no-deps --no-build-isolation --no-compile --no-index --target"
    subprocess.run([sys.executable, "-m", "pip", "install", *options.split(), folder, EXAMPLE], check=True)
    broken = folder / "broken-0.1.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    (broken / "entry_points.txt").write_text("[factrank.generators]\nnone = nowhere:nothing\n")
    return folder


def test_everything_that_a_package_adds_is_found_and_works(installed, tmp_path):
    searched = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, "-c", USED],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": searched},
    )
    *listed, said, constructed, used = run.stdout.split("---\n")
    for (kind, name), rows in zip(ADDED.items(), listed, strict=True):
        added = [row["name"] for row in json.loads(rows) if row["package"] == "factrank-extension"]
        assert added == [name], kind
    assert "15 facts written to clock.psv" in said
    assert (tmp_path / "clock.psv").read_text().splitlines()[1] == "0|+0|0"
    layer = json.loads(constructed)
    assert (layer["construction"], layer["certificate"]["certified"]) == ("wide-margin", True)
    tried, recall = json.loads(used)
    assert "values in use" in tried
    assert recall == 1.0
    left_out = "the generator 'none' of broken is left out: ModuleNotFoundError: No module named 'nowhere'"
    assert run.stderr.count("is left out") == 1
    assert left_out in run.stderr
