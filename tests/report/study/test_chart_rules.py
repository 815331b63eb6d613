"""Rules that every chart obeys: nothing is moved sideways, few lines a panel, whole ticks, named bands, drawn lines."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.statistics.claims import Quantity
from factrank.experiments.statistics.reference_lines import ReferenceLine
from factrank.experiments.statistics.summaries import Summary
from factrank.experiments.study.chart_records import Records, chart_records
from factrank.experiments.study.study import Chart
from factrank.experiments.study.study_files import load_study
from factrank.experiments.study.study_results import results_of
from factrank.report.study.chart_panels import MOST_LINES, groups_of, with_panels
from factrank.report.study.chart_references import borders
from factrank.report.study.study_charts import draw
from factrank.report.study.summary_charts import draw_summary
from made_up_study import CHARTS, made, made_study

DIAGONAL = ReferenceLine("the diagonal", "x")
PUBLISHED = ReferenceLine("published", "0.15 * x")
MEAN = Quantity("mean", "recall")


def parts(specification):
    """All dictionaries inside a specification."""
    if isinstance(specification, dict):
        yield specification
    for value in specification.values() if isinstance(specification, dict) else specification:
        if isinstance(value, dict | list):
            yield from parts(value)


def encodings(specification, channel):
    return [part["encoding"][channel] for part in parts(specification) if channel in part.get("encoding", {})]


def lines(n_colours, n_facets=1, n_x=4, log_x=False, references=(), kind="lines"):
    rows = [
        {
            "x": 2**x,
            "colour": colour,
            "facet": facet,
            "y": x + colour,
            "low": x + colour - 1,
            "high": x + colour + 1,
            "n": 10,
        }
        for facet, colour, x in product(range(n_facets), range(n_colours), range(n_x))
    ]
    chart = Chart("c", "C", kind, "a", "b", "model.d_vo", "seed", log_x=log_x, references=references)
    return draw(chart, Records(rows, over="seed")).to_dict(), rows


def datasets(specification):
    """The records of the whole chart, then those of its reference lines."""
    inner = [part["data"] for part in parts(specification) if "data" in part]
    return [data["values"] if "values" in data else specification["datasets"][data["name"]] for data in inner]


# ---------------------------------------------------------------- places


@pytest.mark.parametrize("log_x", [False, True])
def test_every_point_is_at_its_own_x(log_x):
    """Two lines at one x stay at that x, so that a published line is not moved against ours."""
    specification, rows = lines(3, log_x=log_x)
    assert not encodings(specification, "xOffset")
    assert {one["field"] for one in encodings(specification, "x")} == {"x"}
    assert [row["x"] for row in datasets(specification)[0]] == [row["x"] for row in rows]


def test_summaries_are_not_moved_either():
    for summary, records in results_of(made_study(), "full", made("full")).summary_charts:
        specification = draw_summary(summary, records).to_dict()
        assert not encodings(specification, "xOffset")
        assert {one["field"] for one in encodings(specification, "x")} == {"x"}


# ---------------------------------------------------------------- panels


@given(st.integers(1, 9), st.integers(1, 4))
def test_panels_have_at_most_three_lines(n_colours, n_facets):
    rows = [
        {"colour": colour, "facet": f"facet {facet}", "x": x}
        for facet, colour, x in product(range(n_facets), range(n_colours), range(2))
    ]
    divided = with_panels(rows, "d_vo")
    panels = {}
    for before, after in zip(rows, divided, strict=True):
        assert after["facet"].split("\n")[0] == before["facet"]
        assert (after["colour"], after["x"]) == (before["colour"], before["x"])
        panels.setdefault(after["facet"], set()).add(after["colour"])
    assert max(map(len, panels.values())) <= MOST_LINES
    assert len(panels) == n_facets * -(-n_colours // MOST_LINES)


@given(st.integers(1, 40))
def test_groups_are_even_and_whole(n):
    groups = groups_of(list(range(n)))
    sizes = list(map(len, groups))
    assert [one for group in groups for one in group] == list(range(n))
    assert max(sizes) <= MOST_LINES
    assert max(sizes) - min(sizes) <= 1


def test_a_chart_of_eight_lines_has_three_panels():
    specification, _ = lines(8)
    assert [one.split(": ")[1] for one in specification["facet"]["sort"]] == ["0 to 2", "3 to 5", "6, 7"]
    assert "facet" not in lines(3)[0]
    assert "facet" not in lines(8, kind="points")[0]


# ---------------------------------------------------------------- axes and bands


def test_whole_numbers_have_whole_ticks():
    specification, rows = lines(2)
    (axis,) = {str(one["axis"]) for one in encodings(specification, "x")}
    assert encodings(specification, "x")[0]["axis"]["values"] == [1, 2, 4, 8], axis
    assert all(one["axis"]["tickMinStep"] == 1 for one in encodings(specification, "y"))
    fractions = [row | {"x": row["x"] + 0.5, "high": row["high"] + 0.25} for row in rows]
    chart = Chart("c", "C", "lines", "a", "b", "model.d_vo")
    for one in encodings(draw(chart, Records(fractions)).to_dict(), "y"):
        assert "tickMinStep" not in one["axis"]


def test_bands_say_what_they_are():
    chart = CHARTS[1]
    title = draw(chart, chart_records(chart, made())).to_dict()["title"]
    assert title["subtitle"] == ["Bands: min to max over 3 seeds."]
    several = Chart("c", "C", "lines", "model.d_vo", "recall")
    title = draw(several, chart_records(several, made())).to_dict()["title"]
    assert title["subtitle"] == ["Bands: min to max over 6 trials."]
    alone = Chart("c", "C", "lines", "model.d_vo", "recall", "model.d_qk", where=(("seed", 0),))
    assert "subtitle" not in draw(alone, chart_records(alone, made())).to_dict()["title"]
    (summary, records), *_ = results_of(made_study(), "quick", made()).summary_charts
    title = draw_summary(summary, records).to_dict()["title"]
    assert title["subtitle"] == ["Whiskers: 95 % intervals over 3 seeds."]


# ---------------------------------------------------------------- reference lines


@pytest.mark.parametrize("n_facets", [1, 2])
@pytest.mark.parametrize("kind", ["lines", "points"])
def test_reference_lines_are_drawn_over_the_whole_range(kind, n_facets):
    specification, _ = lines(2, n_facets, kind=kind, references=(DIAGONAL, PUBLISHED), log_x=True)
    curves = [rows for rows in datasets(specification) if rows and set(rows[0]) == {"x", "y"}]
    assert [rows[0]["x"] for rows in curves] == [1, 1]
    assert [rows[-1]["x"] for rows in curves] == [pytest.approx(8)] * 2
    for rows, slope in zip(curves, (1, 0.15), strict=True):
        assert all(row["y"] == pytest.approx(slope * row["x"]) for row in rows)
    labels = [rows[0]["label"] for rows in datasets(specification) if rows and "label" in rows[0]]
    assert labels == ["the diagonal", "published"]


def test_a_vertical_line_is_at_its_x():
    specification, _ = lines(2, references=(ReferenceLine("n", x=3),))
    rules = [part for part in parts(specification) if part.get("mark", {}) and part["mark"].get("type") == "rule"]
    (places,) = [rows for rows in datasets(specification) if rows and "label" in rows[0] and "y" not in rows[0]][:1]
    assert (len(rules), places) == (1, [{"x": 3, "label": "n"}])


def test_summaries_have_reference_lines():
    summary = Summary("s", "S", (("recall", MEAN),), ("model.d_vo",), references=(ReferenceLine("half", "0.5"),))
    ((_, records),) = results_of(made_study(summaries=(summary,), fits=()), "quick", made()).summary_charts
    specification = draw_summary(summary, records).to_dict()
    (curve,) = [rows for rows in datasets(specification) if rows and set(rows[0]) == {"x", "y"}]
    assert {row["y"] for row in curve} == {0.5}


def test_names_on_the_x_axis_have_constants_only():
    lines = (ReferenceLine("half", "0.5"), ReferenceLine("the diagonal", "x"), ReferenceLine("n", x=3))
    quantities = (("mean recall", MEAN), ("slope", Quantity("slope", "recall", "model.d_qk")))
    summary = Summary("s", "S", quantities, (), x="quantity", references=lines)
    ((_, records),) = results_of(made_study(summaries=(summary,), fits=()), "quick", made()).summary_charts
    specification = draw_summary(summary, records).to_dict()
    drawn = [rows for rows in datasets(specification) if rows and "label" in rows[0]]
    assert drawn
    assert all(rows == [{"y": 0.5, "label": "half"}] for rows in drawn)
    assert not any(set(rows[0]) == {"x", "y"} for rows in datasets(specification) if rows)


@given(st.lists(st.integers(0, 9), min_size=1, unique=True), st.lists(st.integers(0, 9), min_size=1, unique=True))
def test_borders_of_a_heat_map_divide_the_cells(xs, ys):
    """Cells next to each other have a border between them if one is above the line and the other is not."""
    level, upright = borders(DIAGONAL, xs, ys)
    columns, rows = sorted(xs), sorted(ys)
    for x, (low, high) in product(columns, pairwise(rows)):
        assert ((x, high) in level) == ((high > x) != (low > x))
    for y, (left, right) in product(rows, pairwise(columns)):
        assert ((left, y) in upright) == ((y > left) != (y > right))


def test_a_heat_map_shows_its_line():
    chart = Chart("h", "H", "heatmap", "model.d_vo", "model.d_qk", "recall", references=(DIAGONAL,))
    specification = draw(chart, chart_records(chart, made())).to_dict()
    assert specification["title"]["subtitle"] == ["Red line: the diagonal."]
    rules = [part for part in parts(specification) if part.get("mark", {}) and part["mark"].get("type") == "rule"]
    assert len(rules) == 2


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"y": "x", "x": 3}, "give either y"),
        ({}, "give either y"),
        ({"y": "model.d_vo"}, "an expression in x and numbers; got 'model.d_vo'"),
        ({"y": "x ** 2"}, "neither a column nor valid arithmetic"),
        ({"x": float("nan")}, "finite number"),
    ],
)
def test_reference_lines_that_cannot_be(fields, problem):
    with pytest.raises(InputError, match=problem.replace("*", r"\*")):
        ReferenceLine("bad", **fields)


def test_references_in_a_study_file(tmp_path):
    path = tmp_path / "s.yaml"
    text = """
name: s
data: {generator: unit, n: 3}
model: {d_model: 3, n_heads: 1, d_qk: 1, d_vo: 2}
charts:
  - {name: c, title: C, kind: points, x: loss, y: recall, references: [{label: same, y: x}, {label: n, x: 32}]}
summaries:
  - {name: t, title: T, quantities: {m: {kind: mean, column: recall}}, over: [seed], references: [{label: p, y: "0.5"}]}
"""
    path.write_text(text)
    study = load_study(path)
    assert study.charts[0].references == (ReferenceLine("same", "x"), ReferenceLine("n", x=32))
    assert study.summaries[0].references == (ReferenceLine("p", "0.5"),)
    path.write_text(text.replace("y: x}", "y: y}"))
    with pytest.raises(InputError, match=r"s.yaml: .*expression in x"):
        load_study(path)
