"""The documentation runs: every Python example and every command in the Markdown files gives the output beside it."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = {"factrank": [str(Path(sys.executable).with_name("factrank"))]}


def blocks(language):
    """The text of every fenced block of a language."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    return [
        pytest.param(match[1], id=f"{name}:{text[: match.start()].count(chr(10)) + 1}")
        for name, text in texts.items()
        for match in fence.finditer(text)
    ]


@pytest.mark.parametrize("text", blocks("python"))
def test_python_examples(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if ">>>" not in text:
        exec(compile(text, "example", "exec"), {"__name__": "example"})  # noqa: S102 - our own documentation
        return
    test = doctest.DocTestParser().get_doctest(text, {}, "example", None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report = []
    runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("text", blocks("console"))
def test_console_examples(text, tmp_path):
    """Lines with a $ are commands, run one after the other in one folder; what follows is their output."""
    environment = os.environ | {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    for chunk in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = chunk.partition("\n")
        program, *arguments = shlex.split(command)
        call = [*COMMANDS[program], *arguments]
        run = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
        assert run.returncode == 0, run.stderr
        shown = [line.rstrip() for line in run.stdout.rstrip().splitlines()]
        assert shown == [line.rstrip() for line in expected.rstrip().splitlines()]


def test_there_are_examples():
    assert len(blocks("python")) >= 1
    assert len(blocks("console")) >= 1


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


MARKDOWN = sorted(path for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.parts))


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tables_are_whole(path):
    """Every run of lines with a bar at the left is a table: a head, a rule, and rows with as many cells."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        rows = [re.sub(r"\\\|", "", row) for row in table.splitlines()]
        assert re.fullmatch(r"\|(?:\s*:?-+:?\s*\|)+", rows[1] if len(rows) > 1 else ""), f"no head above {rows[0]!r}"
        assert len({row.count("|") for row in rows}) == 1, f"rows of different lengths below {rows[0]!r}"
