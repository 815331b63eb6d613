"""What is published of Wong 2025: every number follows from the tables beside it, by the studies as they are now."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.csv
import pytest

from factrank.report.lab_report import picture_name, pictures_named
from factrank.report.published_tables import data_used, load_published, published_size, table_path
from factrank.studies import PAPERS

FOLDER = Path(__file__).parents[2] / "reproductions" / "wong2025"
STUDIES = PAPERS["wong2025"]
LARGEST_TABLE, LARGEST_PICTURE = 2**20, 300_000


def test_claims_summaries_and_text_are_what_the_tables_give():
    """In a process of its own: with every call checked for types it would take minutes."""
    command = [str(Path(sys.executable).with_name("factrank")), "study", "publish", "wong2025", str(FOLDER), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, ""), found.stdout


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_study_is_published_in_full(study):
    assert published_size(FOLDER, study) == "full"
    for data in data_used(study):
        assert table_path(FOLDER / "tables", study, data).stat().st_size < LARGEST_TABLE
    tables = load_published(FOLDER, study)
    assert tables.trials.num_rows > 0
    assert not {"trial", "error"} & set(tables.trials.column_names)
    assert re.search(rf"\{{\{{\w+ {re.escape(study.name)}\b", (FOLDER / "text.md").read_text(encoding="utf-8"))


def test_every_claim_has_its_row():
    rows = pyarrow.csv.read_csv(FOLDER / "claims.csv").to_pylist()
    assert [(row["study"], row["claim"]) for row in rows] == [
        (study.name, claim.name) for study in STUDIES for claim in study.claims
    ]


def test_pictures_are_there_and_small():
    shown = pictures_named((FOLDER / "README.md").read_text(encoding="utf-8"))
    known = {picture_name(study, part.name) for study in STUDIES for part in (*study.charts, *study.summaries)}
    assert shown <= known
    there = sorted((FOLDER / "charts").iterdir())
    assert {f"charts/{path.name}" for path in there} >= shown
    for path in there:
        assert path.stat().st_size < LARGEST_PICTURE, path.name
        assert ElementTree.parse(path).getroot().tag.endswith("svg")  # noqa: S314 - our own files
