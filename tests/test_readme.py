"""The documentation runs: every Python example and every command in the Markdown files gives the output beside it."""

import doctest
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", ROOT / "THIRD_PARTY.md"]


def name_of(page):
    """The name of a page: its path in docs."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).as_posix()


def blocks(language):
    """The text of every fenced block of a language."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    texts = {name_of(page): page.read_text(encoding="utf-8") for page in PAGES}
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
def test_console_examples(text, call, monkeypatch):
    """Lines with a $ are commands, run one after the other in one folder; what follows is their output."""
    for name, value in {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    for chunk in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = chunk.partition("\n")
        program, *arguments = shlex.split(command)
        code, out, err = call(*arguments)
        assert (program, code) == ("factrank", 0), err
        shown = [line.rstrip() for line in out.rstrip().splitlines()]
        assert shown == [line.rstrip() for line in expected.rstrip().splitlines()]


WITHOUT_EXAMPLES = {
    *("CONTRIBUTING.md", "api.md", "app.md", "columns.md", "engines.md", "planning.md"),
    *("comparison.md", "design.md", "faq.md", "findings.md", "guides.md", "troubleshooting.md"),
    *("howto/certify-transformer-lens.md", "howto/gpu.md", "howto/publish-a-report.md", "howto/ray-cluster.md"),
}
"""Pages that list or tabulate, or need what a test machine has not."""
LISTS = ("index.md", "mathematics/", "reference/")


def test_every_page_has_examples_and_all_of_them_run():
    shown = {name_of(page): page.read_text(encoding="utf-8") for page in PAGES}
    run = Counter(example.id.partition(":")[0] for example in (*blocks("python"), *blocks("console")))
    without = {name for name in set(shown) - set(run) if not (name.startswith(LISTS) or name.endswith("/index.md"))}
    assert without == WITHOUT_EXAMPLES
    for name, text in shown.items():
        fences = re.findall(r"^```(\w*)$", text, re.MULTILINE)[::2]
        assert run[name] == sum(language in ("python", "console") for language in fences), name
        assert "" not in fences, f"{name}: a block without a language is never run"


def test_links_between_pages_lead_somewhere():
    for page in LINKED:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


GENERATED = ROOT / "site-pages"
MARKDOWN = sorted(
    path
    for path in ROOT.rglob("*.md")
    if GENERATED not in path.parents and not any(part.startswith(".") for part in path.parts)
)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tables_are_whole(path):
    """Every run of lines with a bar at the left is a table: a head, a rule, and rows with as many cells."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        rows = [re.sub(r"\\\|", "", row) for row in table.splitlines()]
        assert re.fullmatch(r"\|(?:\s*:?-+:?\s*\|)+", rows[1] if len(rows) > 1 else ""), f"no head above {rows[0]!r}"
        assert len({row.count("|") for row in rows}) == 1, f"rows of different lengths below {rows[0]!r}"
