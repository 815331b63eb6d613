"""The demo runs and leaves something worth looking at."""

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_demo(tmp_path):
    run = subprocess.run([sys.executable, DEMO, tmp_path / "out"], capture_output=True, text=True, check=True)
    assert "sample:astrid" in run.stdout
    assert "(Astrid + Bernard + Colin) x (born_in + lives_in) x Singapore" in run.stdout
    assert run.stderr == ""
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"sizes.html", "sizes.svg", "sizes.png"}
