"""Every interaction of the explorer in a real browser; no page asks the network for anything or logs an error."""

import json

import numpy as np
import pytest

import factrank
from explorer_in_browser import NARROW, WIDE, astrid_measured, astrid_page, counts, opened, random_page, until
from factrank import Database, LayerShape, init_layer
from factrank.app.page import build_explorer, coded_parts, explorer_payload

HOSTILE = (
    """</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">""",
    "\u202eright to left\u2066",
    "x" * 10_000,
    "line\nbreak \0 \x1b[31m \u2028 '\" & \\",
)
IN_GRID = """(() => {
  const cell = document.activeElement.getBoundingClientRect();
  const grid = document.activeElement.closest("[role=grid]").getBoundingClientRect();
  return { x: cell.x - grid.x, y: cell.y - grid.y };
})()"""


# ---------------------------------------------------------------- what it shows


def test_page_shows_counts_ranks_and_certificate(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", astrid_page()) as page:
        assert page.text_content("h1") == "astrid"
        assert "8 facts: 5 keys × 3 queries → 4 values; functional, not full" in page.text_content(".subtitle")
        assert counts(page) == {
            "Recall": "100%",
            "Confident recall": "0%",
            "Hallucinations": "0",
            "Least margin": "1",
        }
        size = page.inner_text(".size")
        assert "16 bits" in size
        for bounds in astrid_measured().brackets.values():
            assert f"≥ {bounds.lower.value}\n{bounds.lower.method}" in size
            assert f"≤ {bounds.upper.value}\n{bounds.upper.method}" in size
        certificate = page.inner_text(".certificate")
        assert "Certified: every fact is recalled" in certificate
        assert "8 of 8 facts" in certificate
        page.wait_for_selector(".charts canvas")


def test_page_without_a_layer_shows_the_facts(browser, tmp_path):
    html = build_explorer(explorer_payload(factrank.sample("astrid"), title="facts"))
    with opened(browser, tmp_path / "a.html", html) as page:
        assert page.is_visible(".facts")
        assert "The table says Singapore." in page.inner_text(".ask")
        for hidden in (".layer", ".charts", ".certificate", ".size", ".strip", ".answer"):
            assert not page.is_visible(hidden)


def test_forward_pass_in_chromium_is_that_of_python(browser, tmp_path):
    facts = factrank.sample("astrid")
    with opened(browser, tmp_path / "a.html", random_page()) as page:
        report = factrank.recall(init_layer(LayerShape(4, 2, 2, 2), *facts.shape, key=0), facts, 0.95)
        assert counts(page)["Recall"] == f"{1000 * report.recall // 10:g}%" or report.recall == 1
        assert float(page.evaluate("explorer.model.evaluation.margins[0]")) == pytest.approx(
            factrank.readouts.margins_of(init_layer(LayerShape(4, 2, 2, 2), *facts.shape, key=0), facts).margins[0],
            abs=1e-5,
        )


# ---------------------------------------------------------------- asking


def test_ask_by_typing(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", astrid_page()) as page:
        page.fill("input[role=combobox] >> nth=0", "bern")
        assert page.get_attribute("input[role=combobox] >> nth=0", "aria-expanded") == "true"
        page.keyboard.press("Enter")
        page.fill("input[role=combobox] >> nth=1", "live")
        page.keyboard.press("Enter")
        assert page.inner_text(".answer .name") == "Singapore"
        assert page.get_attribute(".answer .chip", "data-verdict") == "fact"
        assert "#k=Bernard&q=lives_in&tau=0.95" in page.url
        sums = [
            float(text.replace("−", "-").replace("+", ""))
            for text in page.locator(".diverging .figure").all_inner_texts()
        ]
        assert sum(sums) == pytest.approx(1.0, abs=0.02)
        assert page.locator(".bars li").count() == 4
        page.click("input[role=combobox] >> nth=0")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Escape")
        assert page.input_value("input[role=combobox] >> nth=0") == "Bernard"
        page.fill("input[role=combobox] >> nth=0", "nobody")
        assert page.inner_text(".options .none") == "no such name"


def test_deep_link_opens_what_it_names(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", random_page(), hash="#k=Singapore&q=currency&tau=0.2") as page:
        assert page.input_value("input[role=combobox] >> nth=0") == "Singapore"
        assert page.inner_text(".tau output") == "0.2"
        page.evaluate("location.hash = '#k=Colin&q=born_in&tau=0.5'")
        until(page, "document.querySelector('input[role=combobox]').value === 'Colin'")
        page.evaluate("location.hash = '#k=nobody&tau=7'")
        page.wait_for_timeout(50)
        assert page.input_value("input[role=combobox] >> nth=0") == "Colin"


def test_threshold_recounts(browser, tmp_path):
    facts, layer = (
        factrank.sample("astrid"),
        init_layer(LayerShape(4, 2, 2, 2), *factrank.sample("astrid").shape, key=0),
    )
    with opened(browser, tmp_path / "a.html", random_page()) as page:
        for tau in (0.05, 0.3, 0.6, 0.9):
            page.evaluate(f"t = document.getElementById('tau'); t.value = {tau}; t.dispatchEvent(new Event('input'))")
            report = factrank.recall(layer, facts, tau)
            found = counts(page)
            assert found["Hallucinations"] == str(report.hallucinations)
            assert found["Confident recall"] == f"{np.floor(1000 * report.recall_tau + 1e-9) / 10:g}%"
            assert f"tau={tau}" in page.url


# ---------------------------------------------------------------- facts


def test_list_is_searched_and_filtered(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", random_page(), hash="#tau=0.3") as page:
        page.click("text=List")
        until(page, "document.querySelectorAll('.fact-row').length === 8")
        page.fill("#facts-search", "dollar")
        until(page, "document.querySelectorAll('.fact-row').length === 1")
        page.click(".fact-row")
        assert page.input_value("input[role=combobox] >> nth=0") == "Singapore"
        page.fill("#facts-search", "")
        wrong = page.evaluate(
            "[...explorer.model.data.fibers.keys()].filter((p) => !(explorer.model.evaluation.margins[p] > 0)).length"
        )
        assert wrong > 0
        page.select_option(".facts select >> nth=1", "wrong")
        until(page, f"document.querySelectorAll('.fact-row').length === {wrong}")
        page.click(".tile:has-text('Hallucinations')")
        made_up = int(counts(page)["Hallucinations"])
        assert made_up > 0
        until(page, f"document.querySelectorAll('.fact-row').length === {made_up}")
        page.focus(".list")
        page.keyboard.press("End")
        until(page, f"document.querySelector('.list').getAttribute('aria-activedescendant') === 'fact-{made_up - 1}'")


def test_tensor_slices_follow_query_and_answers(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", random_page()) as page:
        cell = page.locator(".facts [role=gridcell]:visible")
        assert cell.get_attribute("aria-label").startswith("Astrid, born_in: Singapore; the layer answers")
        cell.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        focused = page.locator(":focus")
        assert focused.get_attribute("aria-label").startswith("Bernard, lives_in: Singapore")
        assert page.get_attribute(".facts [role=grid]", "aria-rowcount") == "5"
        page.keyboard.press("Enter")
        assert page.input_value("input[role=combobox] >> nth=0") == "Bernard"
        page.select_option(".facts select >> nth=0", "2")
        assert "keys by values" in page.get_attribute(".facts [role=grid]", "aria-label")
        page.click(".segments >> text=Answers")
        assert page.get_attribute(".facts [role=grid]", "aria-label").startswith("Answers of currency")


def test_twenty_thousand_facts_are_not_all_drawn(browser, tmp_path):
    facts = factrank.generate("uniform", n_keys=5000, n_queries=4, n_values=50, seed=0)
    assert facts.n_facts == 20_000
    layer = init_layer(LayerShape(8, 2, 2, 2), *facts.shape, key=0)
    with opened(browser, tmp_path / "a.html", build_explorer(explorer_payload(facts, layer))) as page:
        page.click("text=List")
        page.wait_for_selector(".fact-row")
        assert 5 < page.locator(".fact-row").count() < 60
        page.focus(".list")
        page.keyboard.press("End")
        page.wait_for_selector("#fact-19999")
        assert page.evaluate("explorer.model.selection.k") == 4999
        page.fill("#facts-search", facts.keys[1234])
        until(page, "document.querySelectorAll('.fact-row').length === 4")


# ---------------------------------------------------------------- inside the layer, and edits


def test_heat_maps_have_the_numbers_of_the_layer(browser, tmp_path):
    facts = factrank.sample("astrid")
    layer = init_layer(LayerShape(4, 2, 2, 2), *facts.shape, key=0)
    parts = layer.parts()
    expected = {
        "L": ("Astrid, Malaysia", layer.tensor()[0, 1, 1]),
        "E": ("born_in, Malaysia", parts.direct[0, 1]),
        "A": ("Astrid, lives_in", parts.attention[1, 0, 1, 0]),
        "V": ("Astrid, Malaysia", parts.circuits[1, 0, 1]),
        "w_q": ("0, 1", layer.w_q[1, 0, 1]),
    }
    with opened(browser, tmp_path / "a.html", random_page(), hash="#k=Astrid&q=lives_in") as page:
        for what, (names, number) in expected.items():
            page.select_option(".layer select >> nth=0", what)
            if what in ("A", "V", "w_q"):
                page.select_option(".layer select >> nth=1", "1")
            page.locator(".layer [role=gridcell]:visible").focus()
            page.keyboard.press("Home")
            page.keyboard.press("PageUp")
            page.keyboard.press("ArrowRight")
            box = page.evaluate(IN_GRID)
            label = page.locator(":focus").get_attribute("aria-label")
            assert label.startswith(names)
            assert float(label.rsplit(": ")[1].replace("−", "-")) == pytest.approx(float(number), abs=0.01)
        page.hover(".layer [role=grid]", position={"x": box["x"] + 4, "y": box["y"] + 4})
        assert page.is_visible(".layer .tip")


def test_changed_fact_changes_its_margin_and_voids_the_certificate(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", astrid_page(), hash="#k=Astrid&q=born_in") as page:
        page.click("text=Change this fact")
        page.fill("input[role=combobox] >> nth=2", "Dollar")
        page.keyboard.press("Enter")
        page.click("text=Set fact")
        assert page.get_attribute(".answer .chip", "data-verdict") == "error"
        assert counts(page)["Recall"] == "87.5%"
        assert "Void" in page.inner_text(".certificate")
        assert "factrank edit" in page.inner_text(".certificate")
        assert "1 edit" in page.inner_text(".edits")
        page.click("text=Delete fact")
        assert counts(page)["Recall"] == "100%"
        assert "of 8 missing entries" in page.inner_text(".tiles")
        page.click(".edits >> text=Undo")
        page.click(".edits >> text=Undo")
        assert counts(page)["Recall"] == "100%"
        assert "Certified" in page.inner_text(".certificate")
        assert page.get_attribute(".answer .chip", "data-verdict") == "fact"


def test_changed_weight_recomputes_everything(browser, tmp_path):
    facts = factrank.sample("astrid")
    made = factrank.construct(facts).model
    with opened(browser, tmp_path / "a.html", astrid_page()) as page:
        page.select_option(".layer select >> nth=0", "unembedding")
        page.locator(".layer [role=gridcell]:visible").focus()
        page.keyboard.press("Enter")
        page.fill("#weight-number", "-3")
        page.keyboard.press("Enter")
        unembedding = np.array(made.unembedding)
        unembedding[0, 0] = -3
        changed = factrank.layer_from_arrays(
            5,
            **{name: getattr(made, name) for name in ("embedding", "w_q", "w_k", "w_v", "w_o")},
            unembedding=unembedding,
        )
        report = factrank.recall(changed, facts)
        until(
            page, f"document.querySelector('.tile .value').textContent === '{np.floor(1000 * report.recall) / 10:g}%'"
        )
        assert "Void" in page.inner_text(".certificate")
        page.click("text=Reset")
        until(page, "document.querySelector('.tile .value').textContent === '100%'")
        assert "Certified" in page.inner_text(".certificate")


def test_update_and_set_parts_replace_what_is_shown(browser, tmp_path):
    facts = factrank.sample("astrid")
    layers = [init_layer(LayerShape(4, 1, 3, 1), *facts.shape, key=seed) for seed in range(2)]
    with opened(browser, tmp_path / "a.html", astrid_page(), hash="#k=Colin&q=born_in") as page:
        page.evaluate("(parts) => explorer.setParts(parts)", coded_parts(layers[0]))
        assert counts(page)["Recall"] == f"{np.floor(1000 * factrank.recall(layers[0], facts).recall) / 10:g}%"
        assert "Void" in page.inner_text(".certificate")
        fewer = facts.select(queries=["born_in", "lives_in"])
        page.evaluate("(payload) => explorer.update(payload)", explorer_payload(fewer, title="fewer"))
        assert page.text_content("h1") == "fewer"
        assert page.input_value("input[role=combobox] >> nth=0") == "Colin"
        assert not page.is_visible(".layer")
        assert sorted(map(tuple, page.evaluate("explorer.facts()"))) == sorted(fewer)


# ---------------------------------------------------------------- hostile names, access, themes


def test_hostile_names_stay_text(browser, tmp_path):
    facts = Database.from_facts([(name, query, name) for name in HOSTILE for query in HOSTILE[:2]])
    made = factrank.construct(facts)
    page_of = build_explorer(explorer_payload(facts, made.model, None, made.certificate, title=HOSTILE[0]))
    with opened(browser, tmp_path / "a.html", page_of, viewport=NARROW) as page:
        for k in range(len(HOSTILE)):
            page.evaluate(f"explorer.model.selection.k = {k}; explorer.model.tell('select')")
        page.click("text=List")
        for what in ("L", "A", "V", "E", "embedding", "unembedding"):
            page.select_option(".layer select >> nth=0", what)
        page.evaluate("(hash) => { location.hash = hash }", "#k=" + "x" * 10_000)
        until(page, "explorer.model.selection.k === 2")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img").count() == 0
        assert "\\u202e" in page.inner_text(".list")
        assert "\u202e" not in page.inner_text("body")
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation(browser, tmp_path, viewport, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with opened(browser, tmp_path / "a.html", astrid_page(), viewport=viewport, color_scheme=theme) as page:
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        page.click("text=List")
        page.click("text=Change this fact")
        page.wait_for_selector(".charts canvas")
        found = axe.run(page).response["violations"]
        serious = [
            (one["id"], [node["html"][:200] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_theme_can_be_switched_and_is_kept(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", astrid_page(), color_scheme="light") as page:
        page.wait_for_selector(".charts canvas")
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.get_attribute("#theme", "aria-label") == "Use light colours"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_keyboard_reaches_the_content_first(browser, tmp_path):
    with opened(browser, tmp_path / "a.html", astrid_page()) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"


def test_policy_names_every_script_by_hash():
    page = astrid_page()
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0].replace("&#39;", "'")
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert policy.count("sha256-") == 4
    assert "unsafe" not in policy
    assert json.loads(page.split('id="payload">')[1].split("</script>")[0])["live"] is None
