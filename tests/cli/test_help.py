"""The help of every command: it wraps at 80 columns, has an example that can be parsed, and -h prints it too."""

import shlex
import subprocess
import sys

import pytest
import typer.main

from factrank import cli


def commands(group, path=()):
    """Every command and group of the command line with the words that call it."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


ROOT = typer.main.get_command(cli.app)
COMMANDS = dict(commands(ROOT))
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_wraps_at_80_columns_and_has_an_example(call, monkeypatch, path):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = call(*path, "-h")
    assert (code, err) == (0, "")
    assert call(*path, "--help")[1] == out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "..." not in out.partition("\nCommands:\n")[2]  # no summary is cut off
    (example,) = [line.removeprefix("  Example: ") for line in lines if line.startswith("  Example: ")]
    program, *words = shlex.split(example)
    assert (program, tuple(words[: len(path)])) == ("factrank", path)
    context, command = ROOT.make_context(program, words), ROOT
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)  # an example that does not parse raises


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_prints_json(path):
    assert "--json" in {name for one in LEAVES[path].params for name in one.opts}


def test_python_m_factrank():
    run = [sys.executable, "-m", "factrank", "measure", "missing.csv"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("factrank: missing.csv: no such file")


# ---------------------------------------------------------------- completion


@pytest.fixture
def factrank(call, monkeypatch):
    """Run a command as the installed program would, which gives its name to the shell."""
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
    return call


def test_commands_options_and_kinds_are_completed(factrank, monkeypatch):
    monkeypatch.setenv("_FACTRANK_COMPLETE", "complete_bash")

    def completed(*words):
        monkeypatch.setenv("COMP_WORDS", shlex.join(["factrank", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        code, out, err = factrank()
        assert (code, err) == (0, "")
        return out.split()

    assert completed("con") == ["construct", "convert"]
    assert completed("study", "re") == ["report", "restore"]
    assert completed("construct", "--minimis") == ["--minimise"]
    assert completed("construct", "--precision", "b") == ["bfloat16"]
    assert completed("generate", "ov") == ["overlapping-boxes"]


def test_completion_is_shown_and_installed(factrank, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    code, out, _ = factrank("--show-completion")
    assert (code, "_FACTRANK_COMPLETE=complete_bash" in out) == (0, True)
    code, out, _ = factrank("--install-completion")
    assert (code, "completion installed" in out) == (0, True)
    assert "_FACTRANK_COMPLETE=complete_bash" in (tmp_path / ".bash_completions" / "factrank.sh").read_text()
