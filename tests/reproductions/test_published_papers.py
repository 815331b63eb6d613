"""What is published of papers: every number follows from the tables beside it, by the studies as they are now."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.csv
import pytest

from factrank.report.publishing.lab_report import picture_name, pictures_named
from factrank.report.publishing.published_tables import data_used, load_published, published_size, table_path
from factrank.studies import PAPERS

FOLDER = Path(__file__).parents[2] / "reproductions"
PUBLISHED = [paper for paper in PAPERS if (FOLDER / paper / "checksums.txt").is_file()]
STUDIES = [(paper, study) for paper in PUBLISHED for study in PAPERS[paper]]
EACH = pytest.mark.parametrize("paper", PUBLISHED)
LARGEST_TABLE, LARGEST_PICTURE = 2**20, 300_000


@EACH
def test_claims_summaries_and_text_are_what_the_tables_give(paper):
    """In a process of its own: with every call checked for types it would take minutes."""
    factrank = str(Path(sys.executable).with_name("factrank"))
    command = [factrank, "study", "publish", paper, str(FOLDER / paper), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, ""), found.stdout


@pytest.mark.parametrize(("paper", "study"), STUDIES, ids=[study.name for _, study in STUDIES])
def test_every_study_is_published_in_full(paper, study):
    folder = FOLDER / paper
    assert published_size(folder, study) == "full"
    for data in data_used(study):
        assert table_path(folder / "tables", study, data).stat().st_size < LARGEST_TABLE
    tables = load_published(folder, study)
    assert tables.trials.num_rows > 0
    assert not {"trial", "error"} & set(tables.trials.column_names)
    assert re.search(rf"\{{\{{\w+ {re.escape(study.name)}\b", (folder / "text.md").read_text(encoding="utf-8"))


@EACH
def test_every_claim_has_its_row(paper):
    rows = pyarrow.csv.read_csv(FOLDER / paper / "claims.csv").to_pylist()
    assert [(row["study"], row["claim"]) for row in rows] == [
        (study.name, claim.name) for study in PAPERS[paper] for claim in study.claims
    ]


@EACH
def test_pictures_are_there_and_small(paper):
    folder = FOLDER / paper
    shown = pictures_named((folder / "README.md").read_text(encoding="utf-8"))
    known = {picture_name(study, part.name) for study in PAPERS[paper] for part in (*study.charts, *study.summaries)}
    assert shown <= known
    there = sorted((folder / "charts").iterdir())
    assert {f"charts/{path.name}" for path in there} >= shown
    for path in there:
        assert path.stat().st_size < LARGEST_PICTURE, path.name
        assert ElementTree.parse(path).getroot().tag.endswith("svg")  # noqa: S314 - our own files


def test_every_folder_is_that_of_a_paper():
    assert {path.parent.name for path in FOLDER.glob("*/checksums.txt")} <= set(PAPERS)
