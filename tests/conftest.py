"""Settings shared by all tests."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Deadlines are times, and a test never asserts a time; data generation is slow under runtime type checks.
settings.register_profile(
    "same", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Programs compiled by one test run serve the next, and the user's own cache is left alone.
os.environ["FACTRANK_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder; gives exit code, standard output and standard error."""
    from factrank.cli import run as run_command_line

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["factrank", *map(str, arguments)])
        code = 0
        try:
            run_command_line()
        except SystemExit as exit_:
            code = exit_.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run
