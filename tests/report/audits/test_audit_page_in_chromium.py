"""The page of an audit in a browser: charts, sorting, narrow screens, and no request to the network."""

import json

import numpy as np
import pytest

from explorer_in_browser import CHROMIUM
from factrank.auditing import audit, facts_in_weights
from factrank.report.audits import write_audit_page
from planted_models import HEADS, KV_HEADS, LAYERS, llama_tensors, write_model

playwright = pytest.importorskip("playwright.sync_api")
DRAWN = "Array.from(document.querySelectorAll('.audit-chart')).every(c => c.querySelector('svg.marks'))"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = write_model(tmp_path_factory.mktemp("pages") / "m", llama_tensors() | {"model.norm.weight": np.ones(24)})
    vocabulary = {f"a rather long token {i}": i for i in range(30)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}), encoding="utf-8")
    page = folder.parent / "page.html"
    write_audit_page(audit(folder), page, facts=facts_in_weights(folder, tokens=list(vocabulary)))
    return page


@pytest.mark.parametrize("width", [1280, 390])
def test_charts_are_drawn_and_tables_sorted(browser, path, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_default_timeout(120_000)
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    while not page.evaluate(DRAWN):
        page.wait_for_timeout(50)
    assert page.locator(".audit-chart svg.marks").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for chart in ("values", "distances"):
        place = page.locator(f"[data-chart={chart}] svg.marks").bounding_box()
        assert place["x"] + place["width"] <= width
    table = page.locator("table.sortable").last
    assert table.locator("tbody tr").count() == LAYERS * (HEADS + KV_HEADS)
    title = table.locator("th", has_text="QK effective")
    column = table.locator("th").all_inner_texts().index("QK effective") + 1
    for order, down in (("ascending", False), ("descending", True)):
        title.locator("button").click()
        numbers = [float(cell) for cell in table.locator(f"tbody td:nth-child({column})").all_inner_texts()]
        assert title.get_attribute("aria-sort") == order
        assert numbers == sorted(numbers, reverse=down)
        assert len(set(numbers)) > 4
    assert asked == [path.as_uri()]
    assert complaints == []
    page.close()
