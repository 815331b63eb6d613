"""Numbers with intervals in the documentation are those of the published reports."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REPORTS = " ".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "reproductions").glob("*/*.md")))
NUMBER = r"-?[\d,]*\.?\d+"
INTERVAL = re.compile(rf"{NUMBER}\s\[{NUMBER},\s{NUMBER}\]")
PAGES = [ROOT / "README.md", ROOT / "docs" / "findings.md", *sorted((ROOT / "docs" / "ideas").glob("*.md"))]
QUOTING = [page for page in PAGES if INTERVAL.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_intervals_are_those_of_the_reports(page):
    published = re.sub(r"\s+", " ", REPORTS)
    quoted = [re.sub(r"\s+", " ", text) for text in INTERVAL.findall(page.read_text(encoding="utf-8"))]
    assert [text for text in quoted if text not in published] == []


def test_findings_quote_reports():
    assert ROOT / "docs" / "findings.md" in QUOTING
