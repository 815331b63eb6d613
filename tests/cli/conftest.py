"""The command line, called as from a shell."""

import sys

import pytest

from factrank.cli import run as run_command_line


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder; gives exit code, standard output and standard error."""
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
