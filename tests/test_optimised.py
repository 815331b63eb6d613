"""Other tests have XLA compile quickly; here those whose numbers hang on it run with programs as users have them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = "pytest.mark.optimised"
# Collecting all tests would take longer than running these.
FILES = sorted(str(path) for path in (ROOT / "tests").rglob("test_*.py") if MARK in path.read_text(encoding="utf-8"))


def test_bits_and_tolerances_hold_in_optimised_programs():
    command = [sys.executable, "-m", "pytest", "-q", "-m", "optimised", "-p", "no:cacheprovider", "-n", "0", *FILES]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    settings["FACTRANK_TEST_OPTIMISED"] = "1"
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=settings)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
