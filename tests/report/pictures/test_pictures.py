"""Pictures: valid charts with titles and names, few marks, aggregated as stated, whatever the names are."""

import json

import numpy as np
import pytest
import vl_convert

import factrank
from factrank.databases import Database, Vocabulary
from factrank.errors import InputError
from factrank.families.attention.circuits import Attribution, parts_of
from factrank.report.charts import save_chart
from factrank.report.pictures import (
    MOST_MARKS,
    attention_grid,
    block_means,
    blocks_of,
    circuits_grid,
    contribution_records,
    direct_grid,
    distinct_labels,
    logits_grid,
    margin_records,
    slices_grid,
    table_grid,
)
from factrank.report.pictures.result_pictures import curve_records
from factrank.report.pictures.table_pictures import tried_records
from factrank.report.pictures.table_records import singular_records

HOSTILE = ["</script><script>alert(1)</script>", "\u202eevil", "x" * 10_000, 'it\'s \\ "quoted"', "\x00"]


@pytest.fixture(scope="module")
def hostile():
    return Database.from_facts([(name, f"query {name}", f"value {name}") for name in HOSTILE])


@pytest.fixture(scope="module")
def built():
    return factrank.construct(factrank.sample("astrid"))


def marks(chart):
    """The number of records of a chart."""
    return sum(map(len, chart.to_dict()["datasets"].values()))


def uniform(n_keys, n_queries, n_values):
    codes = np.arange(n_keys * n_queries, dtype=np.int32)
    triples = np.column_stack([codes // n_queries, codes % n_queries, codes * 7 % n_values])
    sizes = (("k", n_keys), ("q", n_queries), ("v", n_values))
    return Database(triples, *(Vocabulary.numbered(kind, size) for kind, size in sizes))


PICTURES = {
    "table": lambda db, _: db.plot(),
    "slices": lambda db, _: db.plot("slices"),
    "singular values": lambda db, _: db.plot("singular values"),
    **{
        name: lambda _, built, name=name: built.plot(name)
        for name in ("logits", "attention", "circuits", "direct", "singular values", "contributions", "margins")
    },
    "answer": lambda _, built: factrank.answer(built, 0, 0).plot(),
    "paths": lambda _, built: factrank.answer(built, 0, 0).plot("paths"),
    "queries": lambda _, built: factrank.recall(built).plot(),
    "attribution": lambda _, built: factrank.attribute_facts(built).plot(),
}


def test_pictures_of_hostile_names_are_valid_and_safe(hostile):
    """Also in pages that embed a chart's specification in a script."""
    built = factrank.construct(hostile)
    for name, draw in PICTURES.items():
        chart = draw(hostile, built)
        specification = chart.to_dict()
        text = json.dumps(specification, ensure_ascii=False)
        assert "<" not in text, name
        assert not any(letter in text for letter in "\u202e\x00"), name
        assert specification["title"]["text"] != [""], name
        assert 0 < marks(chart) <= MOST_MARKS, name
        if name in ("table", "logits", "margins"):  # one of each kind: drawing takes a second
            assert vl_convert.vegalite_to_svg(specification, allowed_base_urls=[]).startswith("<svg"), name


def test_pictures_of_plans_and_measurements_have_titles():
    plan = factrank.plan(n_facts=200, n_keys=20, n_queries=10, n_values=20, recall=0.95)
    for thing in (plan, factrank.measure(factrank.sample("astrid"), budget=0.1)):
        assert thing.plot().to_dict()["title"]


def test_an_empty_table_and_a_single_fact_have_pictures():
    empty, one = Database.from_facts([]), Database.from_facts([("a", "q", "v")])
    for name in ("table", "slices"):
        assert empty.plot(name).to_dict()["title"]
        assert marks(one.plot(name)) == 1
    with pytest.raises(InputError, match="without facts has no singular values"):
        empty.plot("singular values")
    built = factrank.construct(one)
    assert built.plot("attention").to_dict()["title"]
    with pytest.raises(InputError, match="1 facts with infinite margins are left out"):
        built.plot("margins")


def test_a_picture_is_saved_as_png(built, tmp_path):
    save_chart(built.plot("margins"), tmp_path / "margins.png")
    assert (tmp_path / "margins.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_picture_lists_the_others(built):
    with pytest.raises(InputError, match=r"has no picture 'heads': choose one of 'logits', 'attention'"):
        built.plot("heads")
    with pytest.raises(InputError, match="'logits' has no option 'key': its options are query, database"):
        built.plot(key="Astrid")
    with pytest.raises(InputError, match="'table' has no option 'query': it has none"):
        factrank.sample("astrid").plot(query="currency")
    with pytest.raises(InputError, match="no query 'nonsense'"):
        factrank.sample("astrid").plot("slices", query="nonsense")


def test_the_table_has_each_fact_once():
    db = factrank.sample("astrid")
    cells = {(one["row"], one["column"], one["colour"]) for one in table_grid(db).records}
    assert cells == set(db)


def test_several_values_of_a_pair_are_one_cell():
    db = Database.from_facts([("k", "q", f"v{at}") for at in range(5)], multi=True)
    assert [one["colour"] for one in table_grid(db).records] == ["v0, v1, v2 and 2 more"]


@pytest.mark.parametrize("most", [4, 12, 1_000])
def test_blocks_of_a_table_count_its_facts(most):
    db = uniform(30, 8, 50)
    grid = table_grid(db, most)
    if grid.is_named:
        assert len(grid.records) == 240
        return
    assert len(grid.records) <= most
    assert sum(one["colour"] for one in grid.records) == db.n_facts
    rows, columns = blocks_of(db.keys, len(grid.rows)), blocks_of(db.queries, len(grid.columns))
    dense = np.zeros((db.n_keys, db.n_queries))
    np.add.at(dense, tuple(db.triples[:, :2].T), 1)
    for one in grid.records:
        at = rows.labels.index(one["row"]), columns.labels.index(one["column"])
        block = dense[at[0] * rows.size :, at[1] * columns.size :][: rows.size, : columns.size]
        assert one["colour"] == block.sum()
    assert "the number of facts of" in grid.notes[-1]


def test_slices_are_those_of_the_tensor():
    db = factrank.sample("astrid")
    grid = slices_grid(db)
    assert {(one["row"], one["layer"], one["column"]) for one in grid.records} == set(db)
    assert grid.layers == tuple(db.queries)
    alone = slices_grid(db, "currency")
    assert {(one["row"], one["column"]) for one in alone.records} == {("Malaysia", "Ringgit"), ("Singapore", "Dollar")}


def test_large_slices_are_aggregated_for_the_largest_queries():
    db = uniform(2_000, 30, 3_000)
    grid = slices_grid(db)
    assert len(grid.records) <= MOST_MARKS
    assert len(grid.layers) == 20
    assert any("20 queries with most facts of 30" in note for note in grid.notes)
    alone = slices_grid(db, "q07")
    assert sum(one["colour"] for one in alone.records) == 2_000


def test_block_means_are_means_of_blocks():
    rng = np.random.default_rng(0)
    matrix = rng.random((7, 5))
    rows, columns = blocks_of(list("abcdefg"), 3), blocks_of(list("vwxyz"), 2)
    means = block_means(matrix, rows, columns)
    direct = [[matrix[r : r + 3, c : c + 3].mean() for c in (0, 3)] for r in (0, 3, 6)]
    assert np.allclose(means, direct)
    assert rows.labels == ("a to c", "d to f", "g")


def test_grids_of_a_layer_are_its_parts(built):
    layer, db = built.model, built.data
    parts, tensor = parts_of(layer), np.asarray(layer.tensor())
    logits = logits_grid(built)
    for one in logits.records:
        at = db.keys.index(one["row"]), db.queries.index(one["layer"]), db.values.index(one["column"])
        assert one["colour"] == pytest.approx(float(tensor[at]), abs=1e-4)
        assert one["fact"] == ((one["row"], one["layer"], one["column"]) in db)
    assert len(logits.records) == tensor.size
    attention = {(one["row"], one["column"]): one["colour"] for one in attention_grid(built).records}
    expected = np.asarray(parts.attention)[0, ..., 0]
    assert attention["Astrid", "currency"] == pytest.approx(float(expected[0, db.queries.index("currency")]), abs=1e-4)
    tokens = [*db.keys, *db.queries]
    circuits = {(one["row"], one["column"]): one["colour"] for one in circuits_grid(built).records}
    assert np.allclose(
        [circuits[token, db.values[1]] for token in tokens], np.asarray(parts.circuits)[0, :, 1], atol=1e-3
    )
    direct = {(one["row"], one["column"]): one["colour"] for one in direct_grid(built).records}
    assert np.allclose([direct[q, db.values[0]] for q in db.queries], np.asarray(parts.direct)[:, 0], atol=1e-3)


def test_aggregated_logits_are_means(built):
    grid = logits_grid(built, query="born_in", most=4)
    tensor, db = np.asarray(built.model.tensor(), float), built.data
    rows, columns = blocks_of(db.keys, len(grid.rows)), blocks_of(db.values, len(grid.columns))
    assert len(grid.records) <= 4
    expected = block_means(tensor[:, db.queries.index("born_in")], rows, columns)
    assert np.allclose([one["colour"] for one in grid.records], expected.ravel(), atol=1e-3)


def test_a_layer_without_facts_has_numbers_for_names():
    layer = factrank.init_layer(factrank.LayerShape(4, 2, 2, 2), 5, 3, 4, key=0)
    grid = logits_grid(layer, query=1)
    assert grid.rows[0] == "key 0"
    assert grid.layers == ("query 1",)
    assert attention_grid(layer).layers == ("head 0", "head 1")
    with pytest.raises(InputError, match="has no facts: pass the database too"):
        layer.plot("margins")


def attribution(margins, database):
    heads = np.column_stack([margins, np.zeros(len(margins))])
    right = margins > 0
    return Attribution(margins, np.zeros(len(margins)), heads, right, np.column_stack([right] * 3), database)


def test_contributions_of_many_facts_are_means_of_facts_with_similar_margins():
    db = uniform(1_000, 2, 50)
    margins = np.random.default_rng(1).permutation(2_000).astype(float)
    grid = contribution_records(attribution(margins, db))
    first = [one["colour"] for one in grid.records if one["row"] == grid.rows[0] and one["column"] == "head 0"]
    assert len(grid.records) <= MOST_MARKS
    assert len(grid.rows) == 250
    assert first == [np.arange(8).mean()]
    assert "8 facts of similar margin" in grid.notes[0]


def test_the_histogram_counts_every_finite_margin_on_its_side_of_zero():
    db = uniform(20, 1, 5)
    margins = np.append(np.linspace(-3.0, 7.0, 18), [np.inf, np.nan])
    bars, least, notes = margin_records(margins, db)
    assert sum(one["y"] for one in bars) == 18
    assert sum(one["y"] for one in bars if one["colour"] == "wrong") == (margins < 0).sum()
    assert all((one["x"] >= 0) == (one["colour"] == "right") for one in bars)
    assert [one["x"] for one in least] == sorted(one["x"] for one in least)
    assert least[0]["x"] == -3.0
    assert len(notes) == 2


def test_singular_values_of_a_table_are_those_of_its_flattenings():
    db = factrank.sample("astrid")
    dense = np.zeros(db.shape)
    dense[tuple(db.triples.T)] = 1
    records, notes = singular_records(db)
    assert notes == ()
    for axis, name in enumerate(("key", "query", "value")):
        expected = np.linalg.svd(np.moveaxis(dense, axis, 0).reshape(db.shape[axis], -1), compute_uv=False)
        assert np.allclose([one["y"] for one in records if one["colour"] == name], expected, atol=1e-5)


def test_tried_bounds_are_on_their_side_of_the_rank():
    for bounds in factrank.measure(factrank.sample("astrid"), budget=1.0).brackets.values():
        found = tried_records(bounds)
        assert max(one["x"] for one in found if one["colour"] == "at least") == bounds.lower.value
        assert min(one["x"] for one in found if one["colour"] == "at most") == bounds.upper.value


def test_curves_are_thinned_and_need_a_measure():
    trial = factrank.Trial(factrank.generated("unit", n=3), factrank.LayerShape(3, 1, 1, 2))
    epochs = list(range(1, 10_001))
    result = factrank.experiments.training.TrialResult(
        trial,
        "finished",
        curves={"epoch": epochs, "loss": [1 / at for at in epochs], "recall": [float("nan")] * 10_000},
    )
    records, notes = curve_records(result)
    assert len(records) <= MOST_MARKS
    assert {"x": 1, "y": 1.0, "row": "loss"} in records
    assert {one["row"] for one in records} == {"loss"}
    assert notes == ("Every 4th recorded epoch and the last.",)
    assert result.plot().to_dict()
    with pytest.raises(InputError, match="measures=Curve"):
        factrank.experiments.training.TrialResult(trial, "finished").plot()


def test_labels_are_distinct():
    long = "a" * 100
    labels = distinct_labels([long + "1", long + "2", "a" * 21 + "... (2)", " ", "  "])
    assert len(set(labels)) == 5
