"""The demo runs and leaves something worth looking at."""

import subprocess
import sys
from pathlib import Path

from factrank.databases.sample_tables import sample
from factrank.families.attention.layer_files import load_layer

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_demo(tmp_path):
    run = subprocess.run([sys.executable, DEMO, tmp_path / "out"], capture_output=True, text=True, check=True)
    assert "sample:astrid" in run.stdout
    assert "(Astrid + Bernard + Colin) x (born_in + lives_in) x Singapore" in run.stdout
    for words in (
        "7,072 parameters",
        "of 4 seeds recall every fact",
        "hallucinations",
        "(Gold, symbol) -> Au",
        "certified: every fact",
    ):
        assert words in run.stdout
    assert run.stderr == ""
    made = {path.name for path in (tmp_path / "out").iterdir()}
    layers = {"elements.safetensors", "constructed.safetensors"}
    assert made == {"sizes.html", "sizes.svg", "sizes.png", *layers, "store", "explorer.html"}
    assert run.stdout.rstrip().endswith("(open it in a browser)")
    assert (tmp_path / "out" / "store" / "reports" / "vo-against-qk-quick.html").stat().st_size > 100_000
    for name in ("elements.safetensors", "constructed.safetensors"):
        assert load_layer(tmp_path / "out" / name).database == sample("elements")
