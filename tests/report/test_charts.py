"""Charts: the numbers in them are the measurement's, the page needs no network, names are escaped."""

import json
import re

import pytest

from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.report.charts import save_chart, size_records, sizes_chart
from factrank.tensors.measurement import measure


@pytest.fixture(scope="module")
def measurements():
    return [("astrid", measure(sample("astrid"))), ("<script>alert(1)</script>", measure(sample("countries"), 0.5))]


def test_records_hold_the_brackets(measurements):
    records = {(r["database"], r["size"]): (r["lower"], r["upper"]) for r in size_records(measurements)}
    assert records["astrid", "facts"] == (8, 8)
    assert records["astrid", "rank"] == (5, 5)
    assert records["astrid", "completion rank"] == (4, 5)
    assert records["astrid", "effective rank"] == (2, 2)
    assert len(records) == 8


def test_html_is_self_contained_and_escaped(measurements, tmp_path):
    save_chart(sizes_chart(measurements), tmp_path / "chart.html")
    html = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link)[^>]+(src|href)=", html)
    assert "<script>alert" not in html
    assert r"\u003cscript>alert(1)\u003c/script>" in html


def test_svg_png_and_json(measurements, tmp_path):
    chart = sizes_chart(measurements[:1])
    for suffix in ("svg", "png", "json"):
        save_chart(chart, tmp_path / f"chart.{suffix}")
    assert "astrid" in (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "chart.json").read_text(encoding="utf-8"))["$schema"].startswith("http")


def test_unknown_suffix_and_missing_folder(measurements, tmp_path):
    with pytest.raises(InputError, match=r"chart\.gif.*\.html"):
        save_chart(sizes_chart(measurements), tmp_path / "chart.gif")
    with pytest.raises(InputError, match="no folder"):
        save_chart(sizes_chart(measurements), tmp_path / "nowhere" / "chart.svg")


def test_suffixes_may_be_upper_case(measurements, tmp_path):
    save_chart(sizes_chart(measurements), tmp_path / "CHART.PNG")
    assert (tmp_path / "CHART.PNG").read_bytes().startswith(b"\x89PNG")
