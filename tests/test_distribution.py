"""What is published: the source distribution and the wheel contain what their users need, and no more."""

import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

builders = pytest.importorskip("hatchling.builders.sdist")
wheels = pytest.importorskip("hatchling.builders.wheel")

ROOT = Path(__file__).parents[1]
IN_PACKAGE = [
    "app/page/assets/explorer.html",
    "app/page/assets/main.js",
    "checkpoints/data/gettysburg.txt",
    "databases/data/countries.csv",
    "families/attention/fused/fused_gpu_kernel/loop.cu",
    "planning/law/law.json",
    "py.typed",
    "report/study/study_page.html",
]
IN_SOURCE = [
    *("CITATION.cff", "CHANGELOG.md", "LICENSE", "Makefile", "SECURITY.md", "THIRD_PARTY.md", "mkdocs.yml"),
    *("docs/start.md", "examples/notebooks/1-spreadsheet-to-proof.ipynb", "reproductions/wong2025/checksums.txt"),
    *("requirements.lock", "tests/conftest.py", "tools/build_site.py"),
]
LICENCES = {"LICENSE", "THIRD_PARTY.md"}
NEVER = {".venv", "site-pages", "site", "__pycache__", "demo", "dist", ".pytest_cache"}


def parts_of(names):
    return {part for name in names for part in PurePosixPath(name).parts}


def test_the_source_distribution(tmp_path):
    (built,) = builders.SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*IN_SOURCE, *(f"src/factrank/{name}" for name in IN_PACKAGE)} <= names
    assert not parts_of(names) & NEVER


def test_the_wheel(tmp_path):
    (built,) = wheels.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(built).namelist()
    assert {f"factrank/{name}" for name in IN_PACKAGE} <= set(names)
    assert {PurePosixPath(name).name for name in names if "/licenses/" in name} == LICENCES
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"factrank"}
