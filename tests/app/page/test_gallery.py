"""The gallery: what was published, and its page in a browser."""

import re
from pathlib import Path
from typing import get_args

import pyarrow.csv
import pytest

from explorer_in_browser import NARROW, opened, until
from factrank.app.page import build_explorer, explorer_payload, gallery, gallery_payload
from factrank.app.page.gallery import _column
from factrank.app.page.modules import asset
from factrank.errors import InputError
from factrank.experiments.statistics.verdicts import ClaimStatus
from factrank.studies import study

FOLDER = Path(__file__).parents[3] / "reproductions"


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "PAPERS", {"mahdavi2024": (study("head-size"), study("knee"))})
        return gallery_payload(FOLDER)


def test_statements_are_those_of_the_published_folder(found):
    claims = pyarrow.csv.read_csv(FOLDER / "mahdavi2024" / "claims.csv").to_pylist()
    for one in found["papers"][0]["studies"]:
        published = [(row["claim"], row["verdict"]) for row in claims if row["study"] == one["name"]]
        assert published == [(claim["claim"], claim["verdict"]) for claim in one["claims"]]
        assert one["figures"]
        assert one["trials"]["listed"] == one["trials"]["n"] > 0


def test_the_page_counts_every_verdict():
    tones = re.search(r"const TONES = \{(.+)\};", asset("gallery.js"))[1]
    assert set(re.findall(r"([a-z][a-z ]+)\"?: ", tones)) == set(get_args(ClaimStatus))


def test_columns_keep_their_cells():
    texts = _column(pyarrow.array(["b", None, "a", "b"]))
    assert texts["words"] == ["", "a", "b"]
    assert texts["codes"]["shape"] == [4]
    assert _column(pyarrow.array([1, None]))["numbers"]["dtype"] == "float32"


def test_a_folder_without_papers_is_refused(tmp_path):
    with pytest.raises(InputError, match="no reproductions here"):
        gallery_payload(tmp_path)
    (tmp_path / "wong2025").mkdir()
    (tmp_path / "wong2025" / "claims.csv").write_bytes(b"\0\xff")
    with pytest.raises(InputError, match=r"wong2025.claims.csv: not a table of a published paper"):
        gallery_payload(tmp_path)


def test_gallery_in_chromium(found, browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    html = build_explorer(explorer_payload(None, gallery=found))
    link = "#view=gallery&paper=mahdavi2024&study=knee"
    with opened(browser, tmp_path / "a.html", html, hash=link, viewport=NARROW) as page:
        one = found["papers"][0]["studies"][1]
        assert page.text_content("#study-title") == one["title"]
        assert page.locator(".statement").count() == len(one["claims"])
        verdict = one["claims"][0]["verdict"]
        if page.locator(f".study .segments button:text-is('{verdict}')").count():
            page.click(f".study .segments button:text-is('{verdict}')")
            held = sum(claim["verdict"] == verdict for claim in one["claims"])
            assert page.locator(".statement").count() == held
        page.locator(".figures .chart").first.scroll_into_view_if_needed()
        page.wait_for_selector(".figures canvas")
        assert page.locator("tbody tr").count() == min(100, one["trials"]["n"])
        page.select_option("section:has(#trials-title) select >> nth=0", "0")
        chosen = page.locator("tbody tr").count()
        assert 0 < chosen < one["trials"]["n"]
        page.click("thead button >> nth=-1")
        assert page.locator("th[aria-sort=descending]").count() == 1
        page.select_option("#gallery-study", "0")
        until(page, "location.hash.includes('study=head-size')")
        serious = [
            one["id"] for one in axe.run(page).response["violations"] if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
