"""The columns of results: declared once, documented from there (`python tests/report/test_column_tables.py`)."""

from dataclasses import replace
from pathlib import Path

from factrank.experiments.columns.labels import label
from factrank.experiments.columns.measured import columns_of, measure_of
from factrank.experiments.registry import families
from factrank.experiments.statistics.claims import Quantity
from factrank.experiments.statistics.summaries import Summary
from factrank.experiments.study.study import Chart, Study, no_trials
from factrank.report.column_tables import columns_text
from factrank.report.study.summary_charts import x_title, y_title
from factrank.studies import CATALOGUE

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"
HEAD = """\
# Columns of results

What studies and reports call the columns of a store, from where each is declared: with its measure, its family, or
in `factrank.experiments`. Axes, legends and tables show the label; a column without one is called by its name. A `*` at
the end of a name stands for the rest of it, such as a threshold. What the columns are for: [store.md](store.md).

"""


def test_the_page_of_columns_is_what_is_declared():
    assert PAGE.read_text(encoding="utf-8") == HEAD + columns_text()


def test_every_measure_says_what_it_is():
    columns = {one for family in families().values() for one in columns_of(family)}  # families share some measures
    assert [one.name for one in columns if not one.meaning] == []
    assert len({one.name for one in columns}) == len(columns)


def test_labels_are_those_of_the_declarations():
    for family in families().values():
        for one in columns_of(family):
            if one.label and "*" not in one.name:
                assert label(one.name) == one.label
    assert (label("recall_0.95"), label("recall_group_1")) == ("recall at confidence 0.95", "recall group 1")
    assert label("epochs_to.recall_0.5") == "epochs to full recall at confidence 0.5"
    assert (label("facts"), label("facts", "searches")) == ("facts", "facts held")
    assert measure_of("recall_group_1").name == "recall_group_*"


def test_no_study_repeats_a_label():
    """An axis title that says what its column is called anyway is left out."""
    repeated = [
        f"{study.name}, {part.name}: {column}"
        for study in CATALOGUE.values()
        for part in (*study.charts, *study.summaries)
        for column, title in ((part.x, part.x_title), (getattr(part, "y", ""), part.y_title))
        if title and title == label(column, part.data)
    ]
    assert repeated == []


def test_axes_are_called_as_the_study_says():
    two = (("few", Quantity("mean", "recall")), ("many", Quantity("mean", "recall", where=(("seed", 1),))))
    charts = (
        Chart("a", "A", "lines", "model.n_heads", "recall"),
        Chart("b", "B", "lines", "seed", "loss", y_title="J"),
    )
    summaries = (
        Summary("c", "C", two, ("model.n_heads",)),
        Summary("d", "D", two[:1], ("seed",)),
        Summary("e", "E", (*two[:1], ("loss", Quantity("mean", "loss"))), ("seed",)),
    )
    plain = Study("s", "S", None, "?", "!", no_trials, charts=charts, summaries=summaries)
    titled = replace(plain, titles={"model.n_heads": "heads H", "recall": "share", "loss": "error"})
    assert [(part.x_title, part.y_title) for part in titled.charts] == [("heads H", "share"), ("", "J")]
    others = [("seed", "few"), ("seed", "")]
    assert [(x_title(one), y_title(one)) for one in titled.summaries] == [("heads H", "share"), *others]
    assert [(x_title(one), y_title(one)) for one in plain.summaries] == [("heads", "recall"), *others]


if __name__ == "__main__":
    PAGE.write_text(HEAD + columns_text(), encoding="utf-8")
