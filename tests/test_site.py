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

import build_site  # noqa: E402
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


def test_a_page_that_is_only_in_the_navigation_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"mkdocs\.yml lists index\.md, and there is no such page"):
        build_site.llms_text(tmp_path)


def test_broken_links_are_all_named(tmp_path):
    homes = {"docs/a.md": build_site.PurePosixPath("a.md")}
    text = "[one](no.md) [self](a.md#part) [two](../README.md/no) [licence](../LICENSE)\n```text\n[code](no.md)\n```\n"
    linked, missing = build_site.relinked(text, "docs/a.md", homes, tmp_path)
    assert missing == ["docs/no.md", "README.md/no"]
    assert "[self](a.md#part)" in linked
    assert "[licence](files/LICENSE.txt)" in linked
    assert (tmp_path / "files" / "LICENSE.txt").is_file()


def test_gathering_that_failed_can_be_repeated_and_foreign_folders_are_refused(tmp_path, monkeypatch):
    def fails():
        raise RuntimeError("no notebook")

    monkeypatch.setattr(build_site, "_homes", fails)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no notebook"):
            build_site.gather(tmp_path / "pages")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(SystemExit, match="other files"):
        build_site.gather(tmp_path / "other")


def test_indices_of_letters_are_lowered_and_names_stay():
    text = "# W_V\n\n`S_i`, s W_Q W_K^T (**x_v**), d_vo, a_b_c, x_1 y_2²: 2_1"
    assert markdown.markdown(text, extensions=["mathml"]) == (
        "<h1>W_V</h1>\n<p><code>S_i</code>, s W<sub>Q</sub> W<sub>K</sub><sup>T</sup> "
        "(<strong>x<sub>v</sub></strong>), d_vo, a_b_c, x<sub>1</sub> y<sub>2</sub>²: 2_1</p>"
    )


def test_exponents_in_prose_are_raised():
    text = "2^p, n^(1/4), 2x_v, A^h; (a)^2, a^b_c, `2^p`"
    assert markdown.markdown(text, extensions=["mathml"]) == (
        "<p>2<sup>p</sup>, n<sup>1/4</sup>, 2x<sub>v</sub>, A<sup>h</sup>; (a)^2, a^b<sub>c</sub>, <code>2^p</code></p>"
    )


def test_formulas_are_spaced_as_in_tex():
    shown = markdown.markdown(r"$\min(|a| - 1, -b) = -\operatorname{rank} c$", extensions=["mathml"])
    assert '<mo lspace="0.17em" rspace="0">min</mo>' in shown
    assert '<mo lspace="0.17em" rspace="0.17em">rank</mo>' in shown
    assert shown.count('lspace="0" rspace="0">&#x0007C;') == 2
    assert shown.count('<mo form="prefix">&#x02212;</mo>') == 2  # -b and -rank; the 1 is subtracted
    assert shown.count("<mo>&#x02212;</mo>") == 1


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
    assert shown["plain"] == "<pre><code>&lt;b&gt;</code></pre>"
    assert shown["html"] == '<div class="output"><div> x</div></div>'
    assert shown["script"] == "<pre><code>one</code></pre>"
    assert shown["chart"] == '<img src="chart.svg" alt="The chart of this cell">'
    assert (tmp_path / "chart.svg").read_text() == "<svg></svg>"


def test_printed_text_is_one_block_however_it_arrives():
    said = [{"output_type": "stream", "text": text} for text in ("a\n", "b\n")]
    other = {"output_type": "execute_result", "data": {"text/plain": "1"}}
    assert notebook_pages.joined([*said, other, *said]) == [
        {"output_type": "stream", "text": "a\nb\n"},
        other,
        {"output_type": "stream", "text": "a\nb\n"},
    ]


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


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture
def page(browser, address):
    """A page that must have asked no other machine for anything, and complained of nothing."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(120_000)
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []
    assert [url for url in asked if not url.startswith((address, "file:"))] == []
    context.close()


def test_the_start_page_the_search_and_a_notebook_open_in_a_browser(page, address):
    page.goto(f"{address}/start.html")
    assert page.inner_text("h1").startswith("Five minutes")
    page.click("input[name=query]")
    page.type("input[name=query]", "parabola")  # the search listens to keys
    page.wait_for_selector(".md-search-result__item")
    assert "The parabola" in page.inner_text(".md-search-result__list")
    page.goto(f"{address}/tutorials/1-spreadsheet-to-proof.html")
    assert "factrank.construct" in page.inner_text("article")


def test_pages_that_are_opened_from_a_folder_can_be_searched(page, site):
    page.goto(f"file://{site}/start.html")
    page.click("input[name=query]")
    page.type("input[name=query]", "parabola")
    page.wait_for_selector(".md-search-result__item")
    assert "The parabola" in page.inner_text(".md-search-result__list")


def test_formulas_have_a_size_and_the_dark_mode_is_dark(page, address):
    page.goto(f"{address}/mathematics/table-rank.html")
    sizes = page.eval_on_selector_all("math", "all => all.map((one) => one.getBoundingClientRect().height)")
    assert len(sizes) > 10
    assert min(sizes) > 5
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("label[title='Dark mode']")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert page.get_attribute("body", "data-md-color-scheme") == "slate"


@pytest.mark.parametrize(
    "name", ["index", "start", "tutorials/1-spreadsheet-to-proof", "mathematics/table-rank", "reference/commands"]
)
def test_pages_fit_on_a_phone(page, address, name):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
