"""The report of a study, opened in a browser: charts are drawn, nothing is asked of the network, text stays text."""

import re
import shutil
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from io import StringIO

import pyarrow as pa
import pytest
from rich.console import Console

from factrank.experiments.columns.labels import label
from factrank.experiments.statistics.claims import Claim
from factrank.experiments.statistics.fits import Fit
from factrank.experiments.statistics.summaries import Summary
from factrank.experiments.store.columns import failed_row, versions
from factrank.experiments.study.chart_records import chart_records
from factrank.experiments.study.study import Chart, Source
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.summary_records import summary_records
from factrank.report.study.study_charts import chart_text, draw
from factrank.report.study.study_page import build_page, script_data, vega_library
from factrank.report.study.study_pictures import save_charts
from factrank.report.study.study_terminal import claims_table
from factrank.report.study.summary_charts import draw_summary
from made_up_study import (
    CHARTS,
    CLAIMS,
    DRAWN,
    EMPTY,
    MEAN,
    SUMMARIES,
    made,
    made_curves,
    made_study,
    made_table,
    only,
    trials,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = (
    """</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">' " & \u202e <b>bold</b>"""
    """ \n \r \0 \x1b \u2028 \uffff \\" ']/+alert(1)+// \\"""
)
BROKEN = "\n\\\"'\0\u2028\uffff"
"""Letters that end a string of an expression, or the process that draws; in a column's name they stand at the front."""


NOTHING = only(EMPTY)


# ---------------------------------------------------------------- the text of the page


def test_page_says_what_there_is():
    page = build_page(results_of(made_study(), "quick", made()), command="factrank study run mine.yaml")
    for text in (
        "Question Plain",
        "Method Plain",
        "It rises.",
        "✓ reproduced",
        "✗ not reproduced",
        "the interval is above 0 (3 tables)",
        "“down it goes”",
        "0.5 ± 0.1",
        "none published",
        "○ measured",
        "○ 1 measured",
        "Means by shape",
        "<code>recall = 0.01 + 0.2 d_vo</code>",
        "fused (18 trials)",
        "x86_64",
        versions()["jax"],
        "factrank study run mine.yaml",
        "9.0 s in all",
        "1 to 3",
        'href="https://example.org/?a=1&amp;b=2"',
    ):
        assert text in page, text
    assert ">Problems</h2>" not in page
    assert "factrank study run made-up --full" in build_page(results_of(made_study(), "full", NOTHING))


def test_failures_and_problems_are_told():
    def fail(at, row):
        if at in (2, 3):
            return failed_row(trials("quick")[at], f"MemoryError: {HOSTILE}\nsecond line")
        return row | ({"status": "diverged", "recall": float("nan")} if at == 5 else {})

    table = made_table(change=fail)
    page = build_page(
        results_of(made_study(), "quick", only(table, made_curves())), [f"trials/a.parquet: truncated {HOSTILE}"]
    )
    assert "2 failed" in page
    assert "1 diverged" in page
    assert "MemoryError: &lt;/script&gt;" in page
    assert "second line</pre>" in page
    assert "trials/a.parquet: truncated &lt;/script&gt;" in page
    assert "3 of 18 trials have no value (1 diverged, 2 failed)" in page
    assert "3 trials that did not finish are not shown." in page


def test_links_are_only_of_the_web():
    study = made_study(source=Source("Paper", link="javascript:alert(1)"))
    assert "javascript:alert" not in build_page(results_of(study, "quick", NOTHING))


def test_script_data_never_ends_a_script():
    text = script_data({HOSTILE: ["</SCRIPT>", "<!--", "\u2028"]})
    assert not re.search("[<>&\u2028]", text)


def test_the_licences_of_the_library_are_in_the_page():
    page = build_page(results_of(made_study(), "quick", NOTHING))
    notice, _, bundle = vega_library().partition("*/")
    assert notice.startswith("/*!")
    assert all(f"\n{licence}. " in notice for licence in ("BSD 3-Clause", "ISC", "MIT"))
    assert len(bundle) > 100_000
    assert page.count(notice) == 1


def test_same_store_same_page():
    first = build_page(results_of(made_study(), "quick", made()))
    assert first == build_page(results_of(made_study(), "quick", made()))


# ---------------------------------------------------------------- what charts show


def test_records_are_means_over_seeds():
    heat = chart_records(CHARTS[0], made())
    assert len(heat.rows) == 6
    cell = next(row for row in heat.rows if (row["x"], row["y"]) == (2, 1))
    assert cell["colour"] == pytest.approx(0.41)
    assert (cell["low"], cell["high"], cell["n"]) == (pytest.approx(0.4), pytest.approx(0.42), 3)
    curves = chart_records(CHARTS[5], made())
    assert {(row["x"], row["colour"], row["n"]) for row in curves.rows} == {
        (e, v, 6) for e in (0, 100) for v in (1, 2, 3)
    }


@pytest.mark.parametrize("status", ["diverged", "failed", "missing", None])
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_trials_that_did_not_finish_change_nothing(chart, status):
    """Their numbers in the table are not those of trained layers; the others are drawn as if these were not there."""
    unsound = [at for at in range(18) if at % 9 == 0]
    table = made_table(change=lambda at, row: row | ({"status": status, "recall": 0.0} if at in unsound else {}))
    table = table.set_column(
        table.column_names.index("status"),
        "status",
        pa.array(["stopped" if at == 1 else found for at, found in enumerate(table["status"].to_pylist())]),
    )
    others = table.take([at for at in range(18) if at not in unsound])
    records = chart_records(chart, only(table, made_curves()))
    assert records.rows == chart_records(chart, only(others, made_curves())).rows
    assert records.notes == ("2 trials that did not finish are not shown.",)
    without = table.drop_columns("status")
    assert chart_records(chart, only(without, made_curves())).rows != records.rows
    assert chart_records(chart, only(without, made_curves())).notes == ()


def test_records_that_cannot_be_shown_are_named():
    chart = Chart("log", "Log", "lines", "model.d_vo", "gain", log_y=True)
    table = made_table(change=lambda at, row: row | {"gain": float(at - 2) if at != 9 else None})
    records = chart_records(chart, only(table))
    assert records.notes == (
        "3 values of 0 or less have no place on the logarithmic axis.",
        "1 trials without these numbers are not shown.",
    )
    assert (
        "no trial has a column nonsense"
        in chart_records(Chart("n", "N", "bars", "seed", "nonsense"), only(table)).notes[0]
    )


def test_labels_are_words():
    assert label("data.n_queries") == "queries"
    assert label("training.weight_decay") == "weight decay"
    assert label("hallucinations_0.95") == "hallucinations at confidence 0.95"
    assert label("model.d_qk + model.d_vo - model.d_model") == "d_qk + d_vo - d_model"
    assert label("\x1b[31mred") == r"\x1b[31mred"


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_kind_of_chart_is_valid(chart, size):
    specification = draw(chart, chart_records(chart, made(size))).to_dict()
    assert ("facet" in specification) == (size == "full" and chart.name == "heat")


def test_pictures(tmp_path):
    study = made_study(charts=CHARTS[:2], summaries=SUMMARIES[:1])
    paths = save_charts(results_of(study, "full", only(made_table("full"))), tmp_path / "new")
    assert [path.name for path in paths] == [
        f"made-up-full-{chart}.{suffix}" for chart in ("heat", "lines", "means") for suffix in ("svg", "png")
    ]
    assert "queries: 4" in paths[0].read_text(encoding="utf-8")
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert save_charts(results_of(made_study(), "quick", NOTHING), tmp_path) == []


def test_long_texts_that_begin_alike_are_different_settings():
    """A mean over trials of both would be that of no setting."""
    long = "a generator whose name takes more room than there is, "
    table = made_table(change=lambda at, row: row | {"words": f"{long}{at % 2}", "recall": float(at % 2)})
    records = chart_records(Chart("c", "C", "bars", "words", "recall"), only(table))
    assert [(row["x"], row["y"]) for row in records.rows] == [(f"{long}0", 0.0), (f"{long}1", 1.0)]
    summary = Summary("s", "S", (("mean", MEAN),), ("words",))
    (_, shown), *_ = results_of(made_study(summaries=(summary,), fits=()), "quick", only(table)).summary_charts
    assert {row["x"] for row in shown.rows} == {f"{long}0", f"{long}1"}
    alone = made_table(change=lambda at, row: row | {"words": long})
    assert chart_records(Chart("c", "C", "bars", "words", "recall"), only(alone)).rows[0]["x"].endswith("...")


def test_summaries_are_drawn_as_they_are_tabled():
    """Every row with a value is a point with its interval, at its own x."""
    for summary, table in results_of(made_study(), "full", made("full")).summaries:
        records = summary_records(summary, table)
        assert len(records.rows) == table.num_rows == {"means": 6, "two": 12}[summary.name]
        for record, row in zip(records.rows, table.to_pylist(), strict=True):
            assert (record["x"], record["y"], record["low"]) == (row["model.d_vo"], row["value"], row["low"])
            assert record["colour"] == (row["model.d_qk"] if summary.name == "means" else row["quantity"])
        specification = draw_summary(summary, records).to_dict()
        (placed,) = specification["datasets"].values()
        assert [record["x"] for record in placed] == [record["x"] for record in records.rows]
        assert ("facet" in specification) == (summary.name == "two")


def test_summaries_that_cannot_be_shown_whole():
    summary = Summary("s", "S", (("0.5", MEAN), ("0.9", MEAN)), ("a",), x="quantity", log_y=True)
    rows = [
        ("0.5", 1, 0.2, -0.1, 0.3),
        ("0.9", 1, 0.4, None, None),
        ("0.5", 2, -1.0, -2.0, 0.0),
        ("0.9", 2, None, None, None),
    ]
    names = ("quantity", "a", "value", "low", "high")
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) | {"seeds": 3, "why": ""} for row in rows])
    records = summary_records(summary, table)
    assert [(record["x"], record["y"], record["low"]) for record in records.rows] == [(0.5, 0.2, 0.1), (0.9, 0.4, None)]
    assert records.notes == (
        "1 of 4 have no value; the table says why.",
        "1 values of 0 or less have no place on the logarithmic axis.",
        "1 intervals reach 0 or less and are cut at the foot of the logarithmic axis.",
    )
    nothing = summary_records(summary, table.slice(3))
    assert nothing.notes == ("Nothing to draw yet: no setting has a value.",)
    below = summary_records(summary, table.slice(2, 1))
    assert (below.rows, below.notes[-1]) == ([], "Nothing is left to draw.")


def test_claims_in_the_terminal():
    console = Console(width=200, file=StringIO())
    console.print(claims_table(results_of(made_study(), "quick", made())))
    lines = console.file.getvalue().splitlines()
    assert any(re.match(r"Nobody says what it is\. +none +0\.61 .* measured", line) for line in lines)
    assert any(re.match(r"It rises\. +rises +0\.2 ", line) for line in lines)


def hostile_summaries(words, number, text=HOSTILE):
    """Summaries whose titles, labels, columns and cells hold anything."""
    label = f"Label {text}"
    more = {"x_title": text, "y_title": text}
    first = Summary("six", f"Chart {text}", ((label, MEAN), ("other", MEAN)), (words, number), **more)
    second = Summary("five", text, ((label, MEAN), ("other", MEAN)), (number, words), x="quantity")
    return (first, second), (Fit("rule", f"Fit {text}", "six", ("1",), label),)


def test_pictures_of_hostile_summaries(tmp_path):
    words, number = (f"{BROKEN} {field} {HOSTILE}" for field in ("words", "number"))
    summaries, fits = hostile_summaries(words, number)
    table = made_table(change=lambda at, row: row | {words: f"{BROKEN} {HOSTILE[-20:]} {at % 2}", number: at % 3})
    found = results_of(made_study(charts=(), summaries=summaries, fits=fits), "quick", only(table))
    paths = save_charts(found, tmp_path)
    assert [path.suffix for path in paths] == [".svg", ".png"] * 2
    for picture in paths[::2]:
        drawing = picture.read_text(encoding="utf-8")
        shown = unescape(re.sub("<[^>]*>", "", drawing))
        assert "Label </script><script>window.hack" in shown
        assert not {"script", "img", "b"} & set(re.findall(r"<(\w+)", drawing))


@pytest.mark.parametrize("text", [*BROKEN, HOSTILE, "']/+alert(1)+//", '"+alert(1)+"', "\ud800"], ids=ascii)
def test_text_of_charts_cannot_leave_a_string(text):
    safe = chart_text(text)
    assert not set(safe) & set("\\\"'\ufffe\uffff")
    assert safe.isprintable()
    assert chart_text(safe) == safe


@pytest.mark.parametrize("kind", ["lines", "points", "bars", "heatmap"])
@pytest.mark.parametrize("texts", ["titles", "columns"])
def test_pictures_of_hostile_text(tmp_path, kind, texts):
    """Titles, names of columns and cells may hold anything: nothing of it is taken for code, the process lives."""
    x, y, colour, facet = (f"{BROKEN} {field} {HOSTILE}" for field in ("x", "y", "colour", "facet"))

    def change(at, row):
        words = {x: f"{HOSTILE[-20:]} {at % 3}", y: at / 18, colour: f"{BROKEN} {at % 2}", facet: f"{BROKEN} {at % 2}"}
        return row | (words | {colour: at / 18, y: f"{BROKEN} {at % 2}"} if kind == "heatmap" else words)

    titles = {"x_title": f"Ex {HOSTILE}", "y_title": f"Why {HOSTILE}"} if texts == "titles" else {}
    charts = (
        Chart("one", f"Chart {HOSTILE}", kind, x, y, colour, facet, **titles),
        Chart("two", HOSTILE, kind, x, y, colour, **titles),
    )
    study = made_study(charts=charts, summaries=(), fits=())
    paths = save_charts(results_of(study, "quick", only(made_table(change=change))), tmp_path)
    assert [path.suffix for path in paths] == [".svg", ".png"] * 2
    for picture in paths[::2]:
        drawing = picture.read_text(encoding="utf-8")
        shown = unescape(re.sub("<[^>]*>", "", drawing))
        assert "</script><script>window.hacked = 1</script>" in shown
        assert "\u2019]/+alert(1)+// \u2216" in shown
        assert ("Why </script>" if texts == "titles" else "∖n∖”’∖x00∖u2028� y") in shown
        assert not {"script", "img", "b"} & set(re.findall(r"<(\w+)", drawing))
    for picture in paths[1::2]:
        assert picture.read_bytes().startswith(b"\x89PNG")


def page_of(text):
    """The page of a study in which every text that a user can give is this one, or has it inside."""
    quote = Claim(text, f"Statement {text}", CLAIMS[0].quantity, "rises", place=text, quote=text, note=text)
    charts = (
        Chart("one", f"Chart {text}", "points", "loss", "recall", text, x_title=text, y_title=text),
        Chart("two", text, "lines", "loss", "recall", "words", "words"),
        Chart("three", text, "bars", "words", "recall", text),
        Chart("four", text, "lines", "loss", f"no column {text}"),
    )

    def change(at, row):
        if at == 17:
            return failed_row(trials("quick")[at], f"MemoryError: {text}")
        return row | {"words": f"{at % 2} {text}", text: at % 3, "device": text, "data.told": text}

    summaries, fits = hostile_summaries("words", text, text)
    study = made_study(text, claims=(quote,), charts=charts, summaries=summaries, fits=fits)
    return build_page(results_of(study, "quick", only(made_table(change=change))), [text], text)


class Structure(HTMLParser):
    """The elements of a page with the names of their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, [name for name, _ in attrs]))

    def handle_data(self, data):
        self.text += data


def test_hostile_text_is_never_markup():
    """The same elements and attributes, whatever the texts are; what would steer a reader is shown as an escape."""
    plain, hostile = page_of("plain"), page_of(HOSTILE)
    assert Structure(hostile).elements == Structure(plain).elements
    for where in (
        "Title ",
        "Question ",
        "Method ",
        "Paper ",
        "Figure ",
        "Statement ",
        "“",
        "Chart ",
        "Fit ",
        "Error: ",
    ):
        assert f"{where}</script><script>window.hacked = 1</script>" in Structure(hostile).text
    assert not set("\0\r\x1b\u2028\u202e") & set(re.sub("<script.*</script>", "", hostile, flags=re.DOTALL))


# ---------------------------------------------------------------- in the browser


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def opened(browser, path, html, **options):
    """The page, and everything that it asked for or complained about."""
    path.write_text(html, encoding="utf-8")
    context = browser.new_context(**options)
    page = context.new_page()
    page.requests, page.complaints = [], []
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(path.as_uri())
    yield page
    context.close()


def until(page, condition):
    """Wait for a condition; the driver's own way of waiting is stopped by the page's policy."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came: {condition}")


def drawn(page):
    """The sizes of the pictures in each figure, once all are there."""
    until(
        page, "Array.from(document.querySelectorAll('.chart')).every(c => c.querySelector('svg.marks, canvas.marks'))"
    )
    return page.evaluate(
        "Array.from(document.querySelectorAll('.chart svg.marks, .chart canvas.marks'))"
        ".map(c => [c.getBoundingClientRect().width, c.getBoundingClientRect().height])"
    )


@pytest.mark.parametrize(("width", "scheme", "size"), [(1200, "light", "full"), (390, "dark", "quick")])
def test_charts_are_drawn_and_nothing_leaves_the_file(browser, tmp_path, width, scheme, size):
    html = build_page(results_of(made_study(), size, made(size)))
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(browser, tmp_path / "page.html", html, **options) as page:
        sizes = drawn(page)
        assert len(sizes) == DRAWN
        assert all(wide > 100 and high > 100 for wide, high in sizes)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.requests == [(tmp_path / "page.html").as_uri()]
        assert page.complaints == []
        assert page.locator(".chart[aria-label]").count() == DRAWN


def test_charts_follow_the_reader(browser, tmp_path):
    """A choice in the legend, a narrower window and the other colours redraw without a complaint."""
    html = build_page(results_of(made_study(), "full", made("full")))
    with opened(browser, tmp_path / "page.html", html, viewport={"width": 1000, "height": 800}) as page:
        before = drawn(page)
        page.locator("#chart-lines .role-legend-symbol path").first.click()
        page.set_viewport_size({"width": 400, "height": 800})
        until(page, "document.querySelector('#chart-lines svg.marks')?.getBoundingClientRect().width < 400")
        page.emulate_media(color_scheme="dark")
        assert drawn(page) != before
        assert page.complaints == []


def test_hostile_text_is_shown_as_text(browser, tmp_path):
    html = page_of(HOSTILE)
    with opened(browser, tmp_path / "page.html", html) as page:
        assert len(drawn(page)) == 5
        assert page.evaluate("window.hacked") is None
        assert page.locator("img, b").count() == 0
        assert page.requests == [(tmp_path / "page.html").as_uri()]
        assert page.complaints == []
        text = page.inner_text("main")
        for where in ("Title ", "Question ", "Method ", "Paper ", "Figure ", "Statement ", "Chart "):
            assert f"{where}</script><script>window.hacked = 1</script>" in text
        assert "\u202e" not in html


def test_policy_stops_what_would_slip_through(browser, tmp_path):
    """Even a script that stood in the page unescaped would not run."""
    html = build_page(results_of(made_study(), "quick", made()))
    html = html.replace("<main>", '<main><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">')
    with opened(browser, tmp_path / "page.html", html) as page:
        drawn(page)
        assert page.evaluate("window.hacked") is None
        assert any("Content Security Policy" in complaint for complaint in page.complaints)


@pytest.mark.parametrize("rows", ["empty", "failed"])
def test_nothing_to_draw(browser, tmp_path, rows):
    table = EMPTY
    if rows == "failed":
        table = pa.Table.from_pylist([failed_row(trial, "out of luck") for trial in trials("quick")])
    with opened(browser, tmp_path / "page.html", build_page(results_of(made_study(), "quick", only(table)))) as page:
        text = page.locator("main").text_content()
        assert text.count("Nothing to draw yet") == DRAWN
        # The badge; if trials have run, the answer and the sentence on the claims.
        assert text.count("not comparable") == len(CLAIMS) + (1 if rows == "empty" else 3)
        assert ("18 missing" if rows == "empty" else "18 failed") in text
        assert page.complaints == []


def test_study_without_charts_and_claims(browser, tmp_path):
    study = made_study(charts=(), claims=(), source=None, summaries=(), fits=())
    with opened(browser, tmp_path / "page.html", build_page(results_of(study, "quick", made(curves=False)))) as page:
        assert "18 finished" in page.inner_text("main")
        assert page.complaints == []
