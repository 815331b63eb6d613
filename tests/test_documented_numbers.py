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


def statements_of(paper):
    """Published statements, and how many are reproduced, not reproduced and undecided, by the report."""
    text = (ROOT / "reproductions" / paper / "README.md").read_text(encoding="utf-8")
    found = re.search(
        r"Of (\d+) published statements, (\d+) are reproduced, (\d+) not reproduced and\s+(\d+) undecided", text
    )
    return [int(number) for number in found.groups()]


def test_verdicts_are_counted_as_in_the_reports():
    counts = {paper: statements_of(paper) for paper in ("wong2025", "nichani2025", "mahdavi2024")}
    findings = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    for paper, numbers in counts.items():
        row = " | ".join(map(str, numbers))
        assert f"| {row} | [report](../reproductions/{paper}/README.md) |" in findings
    total, reproduced, contradicted, undecided = map(sum, zip(*counts.values(), strict=True))
    sentence = (
        f"Of {total} published statements in three papers, {reproduced} are reproduced, {contradicted} are not, "
        f"{undecided} are undecided"
    )
    assert sentence in (ROOT / "README.md").read_text(encoding="utf-8")


def test_findings_quote_reports():
    assert ROOT / "docs" / "findings.md" in QUOTING


@pytest.mark.parametrize("page", ["README.md", "docs/findings.md"])
def test_commands_name_studies_of_the_catalogue(page):
    import factrank

    named = re.findall(r"study run ([\w-]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert named
    assert [factrank.study(name).name for name in named] == named
