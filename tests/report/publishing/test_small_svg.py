"""Small SVG: the marks are where they were and look as they did, in fewer bytes that do not change."""

import io
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from factrank.experiments.store.result_tables import Tables
from factrank.experiments.study.chart_records import chart_records
from factrank.experiments.study.study import Chart
from factrank.report.publishing.small_svg import small_svg
from factrank.report.study.study_charts import draw

SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart, **columns):
    n = len(next(iter(columns.values())))
    table = pa.table({"hash": [str(at) for at in range(n)], "status": ["finished"] * n, **columns})
    empty = Tables.empty()
    picture = draw(chart, chart_records(chart, Tables(table, empty.curves, empty.readings)))
    svg = io.StringIO()
    picture.save(svg, format="svg")
    return svg.getvalue()


def colour(text):
    """A colour as three numbers."""
    if text.startswith("#"):
        return tuple(int(text[at : at + 2], 16) for at in (1, 3, 5))
    return tuple(map(int, text.removeprefix("rgb(").removesuffix(")").split(",")))


def marks(svg):
    """The points of each panel in the order in which they are drawn: place, shape and look; uses written out."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own text
    defined = {one.get("id"): one for one in root.iter(f"{SVG}path") if one.get("id")}
    panels = []
    for group in root.iter(f"{SVG}g"):
        found = []
        for child in group:
            shape = defined[child.get("href")[1:]] if child.tag == f"{SVG}use" else child
            if "A3,3" in shape.get("d", ""):
                place = child.get("transform", "")[len("translate(") : -1].split(",") if shape is child else None
                x, y = place or (child.get("x"), child.get("y"))
                look = (shape.get("d"), colour(child.get("fill") or shape.get("fill")), shape.get("opacity"))
                found.append((round(float(x), 1), round(float(y), 1), *look))
        if found:
            panels.append(found)
    return panels


@pytest.mark.parametrize("shade", ["few", "x"])
def test_points_stay_where_they_were(shade):
    draws = np.random.default_rng(0)
    columns = {"x": draws.random(400), "y": draws.random(400), "few": draws.integers(0, 3, 400)}
    svg = drawn(Chart("c", "C", "points", "x", "y", shade, "panel"), panel=draws.integers(0, 2, 400), **columns)
    small = small_svg(svg)
    assert "<use" in small
    assert len(small) < len(svg) / (4 if shade == "few" else 3)
    assert [len(panel) for panel in marks(small)] == [len(panel) for panel in marks(svg)]
    for ours, theirs in zip(marks(small), marks(svg), strict=True):
        for (x, y, *look), (own_x, own_y, *own_look) in zip(ours, theirs, strict=True):
            assert abs(x - own_x) < 0.11
            assert abs(y - own_y) < 0.11
            assert look == own_look


def test_of_points_upon_each_other_the_last_are_drawn():
    """With an opacity of 0.6 seven of them let less than 1/255 through."""
    chart = Chart("c", "C", "points", "x", "y", "name")
    svg = drawn(chart, x=[1, 2] * 100, y=[1] * 200, name=(["a"] * 4 + ["b"] * 4) * 25)
    before, after = (Counter(mark for panel in marks(text) for mark in panel) for text in (svg, small_svg(svg)))
    assert set(before.values()) == {50}
    assert set(after.values()) == {7}
    assert set(after) == {(round(x, 1), round(y, 1), *look) for x, y, *look in before}
    assert marks(svg)[-1][-8:] == marks(small_svg(svg))[-1][-8:]


def test_ids_are_counted_anew():
    """A legend with a ramp has an id from a count over the whole process."""
    chart = Chart("c", "C", "heatmap", "x", "y", "z")
    columns = {"x": [1, 1, 2, 2], "y": [1, 2, 1, 2], "z": [0.1, 0.2, 0.3, 0.4]}
    first, second = drawn(chart, **columns), drawn(chart, **columns)
    assert first != second
    assert small_svg(first) == small_svg(second)
    assert 'id="p0"' in small_svg(first)
    assert "url(#p0)" in small_svg(first)


def test_texts_stay():
    svg = drawn(Chart("c", 'A <title> & "role"', "lines", "x", "y"), x=[1, 2], y=[0.25, 0.75])
    texts = [[one.text for one in ElementTree.fromstring(text).iter(f"{SVG}text")] for text in (svg, small_svg(svg))]  # noqa: S314
    assert texts[0] == texts[1]
