"""The site of the documentation builds without a warning, its links lead somewhere, and it needs no network."""

import functools
import http.server
import json
import posixpath
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("material", reason="extra 'docs' is not installed: pip install 'factrank[docs]'")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
sys.path.insert(0, str(ROOT / "tools"))

import docstring_style  # noqa: E402
import markdown  # noqa: E402
import notebook_pages  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as `make docs` builds it, without running the notebooks."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "tools" / "build_site.py", "--pages", folder / "pages", "--site", folder / "site"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site):
    """The HTML of every page by its path."""
    return {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_link_leads_somewhere(site, pages):
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    marks = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    broken = []
    for name, text in pages.items():
        for target in set(re.findall(r'\b(?:href|src)="([^"]+)"', text)):
            path, _, mark = target.partition("#")
            if name == "404.html" or re.match(r"[a-z]+:", target):
                continue
            found = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(path))) if path else name
            found = "index.html" if found == "." else found
            if found not in files or (mark and mark != "__skip" and unquote(mark) not in marks.get(found, ())):
                broken.append((name, target))
    assert broken == []


def test_pages_load_nothing_from_elsewhere(site, pages):
    loading = re.compile(
        r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon)")[^>]*(?:src|href)="(?:https?:)?//'
    )
    assert [name for name, text in pages.items() if loading.search(text)] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(?:https?:)?//", styles)


def test_names_commands_and_pages_can_be_found(site, pages):
    assert 'id="factrank.measure"' in pages["reference/api-tables.html"]
    assert 'id="factrank-study-run"' in pages["reference/commands.html"]
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"] for entry in found["docs"]}
    assert {"Five minutes", "Glossary", "The parabola", "From a spreadsheet to a proved layer"} <= titles
    listed = re.findall(r"^- \[.+?\]\((\S+)\): .+$", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(listed) <= set(pages)
    assert len(listed) > 60


def test_formulas_are_mathml(pages):
    proofs = [text for name, text in pages.items() if name.startswith("mathematics/")]
    assert sum(text.count("<math ") for text in proofs) > 100
    assert not any("$$" in text for text in proofs)
    shown = markdown.markdown("`$x$` costs $5, $x_1$", extensions=["mathml"])
    assert shown.count("<math ") == 1
    assert "<code>$x$</code>" in shown
    with pytest.raises(ValueError, match="nonsense"):
        markdown.markdown(r"$\nonsense$", extensions=["mathml"])


def test_docstrings_are_rendered_as_they_are_meant():
    text = "Bounds.\n\nArguments:\n    lower, upper: both\n        of them.\n    n: one.\n\n>>> 1 + 1\n2"
    assert docstring_style.rendered(text) == (
        "Bounds.\n\nArguments:\n    lower: both\n        of them.\n    upper: both\n        of them.\n    n: one.\n\n"
        "```pycon\n>>> 1 + 1\n2\n```"
    )


def test_outputs_of_notebooks_are_shown_as_text_html_and_pictures(tmp_path):
    outputs = {
        "text": {"output_type": "stream", "text": "<b>\n"},
        "plain": {"output_type": "execute_result", "data": {"text/plain": "<b>"}},
        "html": {"output_type": "execute_result", "data": {"text/html": "<div>\n x</div>", "text/plain": "x"}},
        "script": {"output_type": "execute_result", "data": {"text/html": "<script>1</script>", "text/plain": "one"}},
        "chart": {"output_type": "display_data", "data": {"image/svg+xml": "<svg></svg>", "text/plain": "x"}},
    }
    shown = {name: notebook_pages.shown(output, tmp_path, name) for name, output in outputs.items()}
    assert shown["text"] == "```text\n<b>\n```"
    assert shown["plain"] == "<pre>&lt;b&gt;</pre>"
    assert shown["html"] == '<div class="output"><div> x</div></div>'
    assert shown["script"] == "<pre>one</pre>"
    assert shown["chart"] == '<img src="chart.svg" alt="The chart of this cell">'
    assert (tmp_path / "chart.svg").read_text() == "<svg></svg>"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """Where the site is served, to this machine alone."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_start_page_the_search_and_a_notebook_open_in_a_browser(address):
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_page()
        page.set_default_timeout(120_000)
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{address}/start.html")
        assert page.inner_text("h1").startswith("Five minutes")
        page.click("input[name=query]")
        page.fill("input[name=query]", "parabola")
        page.wait_for_selector(".md-search-result__item", state="attached")
        page.goto(f"{address}/tutorials/1-spreadsheet-to-proof.html")
        assert "factrank.construct" in page.inner_text("article")
        assert complaints == []
        assert [url for url in asked if not url.startswith(address)] == []
