"""Renderers show results and compute none: what judges, summarises and fits is out of their reach."""

import ast
from pathlib import Path

import pytest

import factrank

SOURCE = Path(factrank.__file__).parent
COMPUTES = {
    "evaluate",
    "summary_table",
    "fit_result",
    "study_tables",
    "study_table",
    "chart_records",
    "summary_records",
}
RENDERERS = sorted([*(SOURCE / "report").rglob("*.py"), *(SOURCE / "cli").rglob("*.py")])


@pytest.mark.parametrize("path", RENDERERS, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_renderers_compute_nothing(path):
    imported = {
        name.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert imported.isdisjoint(COMPUTES)
