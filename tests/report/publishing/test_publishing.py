"""Publishing: whoever has the folder finds the same, and what was altered in it is found."""

import fcntl
import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.store.columns import row_of
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.store.store import Store
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.trials_of_study import study_table
from factrank.report.publishing.published_checks import checksums_text
from factrank.report.publishing.published_tables import LEFT_OUT, load_published, published_size, write_published
from factrank.report.publishing.publishing import differences, publish
from made_up_paper import PAPER, QUOTE, fill, recall_of, result_of, widths

WIDTHS, READOUTS = PAPER


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with the results of the paper, of a trial that is not in it, and of one that failed first."""
    kept = Store(tmp_path_factory.mktemp("store"))
    first = WIDTHS.trials_of("full")[0]
    kept.append([], [(first, "MemoryError: secret words of an error")])
    fill(kept)
    return kept


@pytest.fixture(scope="module")
def published(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper") / "made-up"
    publish("made-up", PAPER, "full", store.tables(), folder)
    return folder


@pytest.fixture
def copy(published, tmp_path):
    """A copy of the folder to be altered."""
    for path in published.rglob("*"):
        if path.is_file():
            place = tmp_path / path.relative_to(published)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    return tmp_path


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_holds_everything(published):
    assert sorted(contents(published)) == [
        "README.md",
        *(f"charts/readouts-{name}.svg" for name in ("curve", "ranks")),
        *(f"charts/widths-{name}.svg" for name in ("all", "by-width", "heat", "lines", "points")),
        "checksums.txt",
        "claims.csv",
        "claims.md",
        "summaries/readouts-ranks.csv",
        *(f"summaries/widths-{name}.csv" for name in ("all", "by-width")),
        *(f"tables/readouts.{name}parquet" for name in ("curves.", "", "readings.")),
        "tables/widths.parquet",
        "text.md",
    ]
    readme = (published / "README.md").read_text(encoding="utf-8")
    assert "Of 5 statements 2 are reproduced, 2 are not, 0 are undecided and 1 are not comparable" in readme
    assert "The claims were not frozen" in readme
    assert "| Recall falls \\| really. | falls | 0.1 [0.1, 0.1] | 0 | 10 | not reproduced |" in readme
    assert "`mean = 0.02 + 0.1 d_vo`" in readme
    assert "![Recall by (width)](charts/widths-lines.svg)" in readme
    assert "{{" not in readme
    assert differences(published, PAPER) == []


def test_quotes_and_notes_are_published(published):
    rows = pyarrow.csv.read_csv(
        published / "claims.csv", parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)
    ).to_pylist()
    assert [(row["quote"], row["note"]) for row in rows[:2]] == [(QUOTE, "d_qk is\nfixed <here>."), ("", "")]
    text = (published / "claims.md").read_text(encoding="utf-8")
    assert "## Widths | and recall\n\n| name | claim | published |" in text
    assert "| rises | Recall rises. (Figure 1) | rises | 0.1 [0.1, 0.1] |" in text
    quoted = '“recall \\*rises\\* with d_vo, "always" \\[3\\]”'
    assert f"\n\n- **rises** (Figure 1): {quoted} Note: d_qk is fixed &lt;here>.\n\n## Readouts\n" in text
    assert text.count("\n- **") == 1


def test_publishing_twice_gives_the_same_bytes(store, published, copy):
    before = contents(published)
    publish("made-up", PAPER, "full", store.tables(), copy)
    assert contents(copy) == before


def test_verdicts_from_the_published_tables_are_those_of_the_store(store, published):
    for study in PAPER:
        tables = load_published(published, study)
        assert published_size(published, study) == "full"
        again, first = results_of(study, "full", tables), results_of(study, "full", store.tables())
        assert again.judged == first.judged
        for (_, ours), (_, theirs) in zip(again.summaries, first.summaries, strict=True):
            assert ours.equals(theirs)
    found = load_published(published, WIDTHS).trials
    recalls = [recall_of(trial) for trial in widths("full")]
    assert found["recall"].to_pylist() == recalls
    assert not set(LEFT_OUT) & set(found.column_names)
    assert b"secret words" not in b"".join(contents(published).values())


def test_constants_stand_in_the_metadata(published):
    path = published / "tables" / "widths.parquet"
    about = json.loads(pq.read_metadata(path).metadata[b"factrank"])
    assert (about["study"], about["size"], about["seconds"]) == ("widths", "full", 10.0)
    assert about["constants"]["model.d_model"] == 4
    assert about["constants"]["status"] == "finished"
    assert "model.d_model" not in pq.read_schema(path).names
    assert {"hash", "model.d_vo", "seed", "recall"} <= set(pq.read_schema(path).names)


CELLS = {
    pa.int64(): st.integers(-(2**53), 2**53),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
}


@given(data=st.data())
@settings(max_examples=15)
def test_any_columns_come_back_as_they_were(tmp_path_factory, data):
    """Constant, null, infinite or not: the table of the study is the same, but for what is left out."""
    rows = [row_of(result_of(trial)) for trial in widths("quick")[:4]]
    table = pa.Table.from_pylist(rows)
    for at, (kind, cells) in enumerate(CELLS.items()):
        cell = st.one_of(cells, st.none())
        column = data.draw(st.one_of(st.lists(cell, min_size=4, max_size=4), cell.map(lambda one: [one] * 4)))
        table = table.append_column(f"odd {at}", pa.array(column, kind))
    tables = Tables(table, pa.table({}), pa.table({}))
    folder = tmp_path_factory.mktemp("any")
    (folder / "tables").mkdir()
    write_published(folder / "tables", results_of(WIDTHS, "quick", tables))
    ours = study_table(WIDTHS, "quick", load_published(folder, WIDTHS).trials)
    theirs = study_table(WIDTHS, "quick", table)
    kept = [name for name in theirs.column_names if name not in LEFT_OUT]
    for name in kept:
        assert name in ours.column_names or theirs[name].null_count == theirs.num_rows
        if name in ours.column_names:
            assert str(ours[name].to_pylist()) == str(theirs[name].to_pylist())  # nan is nan
            assert ours[name].type == theirs[name].type


# ---------------------------------------------------------------- what is altered


def altered(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def rewrite_checksums(folder):
    """As somebody would who knows of them."""
    names = [name for name in contents(folder) if name not in ("checksums.txt", "charts/old-name.svg")]
    names = [name for name in names if not name.startswith("store/")]
    (folder / "checksums.txt").write_text(checksums_text(folder, names), encoding="utf-8")


def test_altered_texts_are_found(copy):
    altered(copy / "claims.csv", '"reproduced"', '"not reproduced"')
    altered(copy / "claims.md", "**reproduced**", "not reproduced")
    altered(copy / "summaries" / "widths-by-width.csv", "0.42", "0.43")
    altered(copy / "README.md", "50 trials", "51 trials")
    (copy / "charts" / "widths-lines.svg").unlink()
    altered(copy / "charts" / "widths-heat.svg", "</text>", " not</text>")
    before = differences(copy, PAPER)
    for name in ("README.md", "charts/widths-heat.svg", "claims.csv", "claims.md", "summaries/widths-by-width.csv"):
        assert f"{copy / name}: not the file that was published: its checksum differs" in before
    rewrite_checksums(copy)
    (copy / "charts" / "old-name.svg").write_text("<svg/>")
    found = "\n".join(differences(copy, PAPER))
    for text in (
        "claims.csv, row 1: verdict is 'not reproduced', but the tables give 'reproduced'",
        "claims.md, line 7:",
        "widths-by-width.csv, row 4: value is 0.43, but the tables give 0.42",
        "README.md, line 5: '2 studies, 51 trials",
        "charts/widths-lines.svg: no such file",
        "charts/old-name.svg: not of this paper",
    ):
        assert text in found
    assert found.count("\n") == 5


def test_altered_tables_are_found(copy, published):
    path = copy / "tables" / "widths.parquet"
    table, about = pq.read_table(path), pq.read_metadata(path).metadata
    recall = pa.array([value / 2 for value in table["recall"].to_pylist()])
    changed = table.set_column(table.schema.get_field_index("recall"), "recall", recall)
    pq.write_table(changed.replace_schema_metadata({b"factrank": about[b"factrank"]}), path)
    assert any("claims.csv, row 1: value is 0.1, but the tables give 0.05" in text for text in differences(copy, PAPER))
    fewer = changed.slice(3).replace_schema_metadata({b"factrank": about[b"factrank"]})
    pq.write_table(fewer, path)
    assert "widths: 3 of its trials are not in its table" in differences(copy, PAPER)
    for content, expected in (
        (b"PAR1", "not a published table"),
        (
            (published / "tables" / "readouts.parquet").read_bytes(),
            "expected the table of widths; its metadata name 'readouts'",
        ),
    ):
        path.write_bytes(content)
        checksum, found = differences(copy, PAPER)
        assert checksum == f"{path}: not the file that was published: its checksum differs"
        assert expected in found
    path.unlink()
    assert differences(copy, PAPER) == [f"{path}: no such file"]


def test_files_that_are_gone_are_found(copy):
    for name in ("claims.csv", "README.md", "claims.md"):
        (copy / name).unlink()
    found = differences(copy, PAPER)
    assert [Path(text.split(": ")[0]).name for text in found] == ["README.md", "claims.csv", "claims.md"]
    (copy / "README.md").write_bytes(b"\xff")
    assert any("README.md: cannot be read as UTF-8 text" in text for text in differences(copy, PAPER))
    (copy / "checksums.txt").unlink()
    assert f"{copy / 'checksums.txt'}: no such file" in differences(copy, PAPER)
    with pytest.raises(InputError, match="nowhere: no such folder"):
        differences(copy / "nowhere", PAPER)


def test_checksums_are_those_of_sha256sum(copy):
    path = copy / "checksums.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    files = sorted(name for name in contents(copy) if name != "checksums.txt")
    assert lines == [f"{hashlib.sha256((copy / name).read_bytes()).hexdigest()}  {name}" for name in files]
    outside = f"{'0' * 64}  ../secret.txt"
    path.write_text("\n".join([*lines[1:], outside, lines[3], "no checksum"]) + "\n", encoding="utf-8")
    wrong = "expected the checksum and name of a file of this paper, each once"
    n_lines = len(lines)
    assert differences(copy, PAPER) == [
        *(f"{path}, line {line}: {wrong}" for line in (n_lines, n_lines + 1, n_lines + 2)),
        f"{copy / files[0]}: not listed in checksums.txt",
    ]
    path.write_bytes(b"\xff")
    assert "checksums.txt: cannot be read" in differences(copy, PAPER)[0]


def test_every_chart_that_can_be_drawn_must_be_there(copy):
    altered(copy / "text.md", "{{chart widths | heat}}", "")
    tables = fill(Store(copy / "store")).tables()
    publish("made-up", PAPER, "full", tables, copy)
    assert differences(copy, PAPER) == []
    assert "widths-heat" not in (copy / "README.md").read_text(encoding="utf-8")
    (copy / "charts" / "widths-heat.svg").unlink()
    rewrite_checksums(copy)
    assert differences(copy, PAPER) == [f"{copy / 'charts' / 'widths-heat.svg'}: no such file"]


@pytest.mark.parametrize(
    ("name", "alter", "expected"),
    [
        (
            "widths",
            lambda rows: [row | {"model.d_qk": 99} for row in rows],
            ["40 rows with another model.d_qk than the trial, as 99 for 2"],
        ),
        (
            "widths",
            lambda rows: [row | {"model.d_vo": 5 - row["model.d_vo"]} for row in rows],
            ["40 rows with another model.d_vo than the trial, as 4 for 1"],
        ),
        (
            "widths",
            lambda rows: [row | {"seed": None} for row in rows[:1]] + rows[1:],
            ["1 row with another seed than the trial, as None for 0"],
        ),
        (
            "widths",
            lambda rows: [row | {"model.more": "odd"} for row in rows],
            ["40 rows with another model.more than the trial, as 'odd' for None"],
        ),
        ("widths", lambda rows: rows + rows[3:5], ["2 rows repeating the hash of another row"]),
        ("widths", lambda rows: [*rows, rows[0] | {"hash": "0" * 64}], ["1 row of no trial of the study"]),
        ("readouts.curves", lambda rows: [*rows, rows[0]], ["1 row repeating the hash, epoch of another row"]),
        (
            "readouts.readings",
            lambda rows: [*rows, rows[0] | {"upper": 0.0}],
            ["1 row repeating the hash, precision, temperature, tau of another row"],
        ),
        (
            "readouts.readings",
            lambda rows: [row | {"model.d_vo": 7} for row in rows],
            ["20 rows with another model.d_vo than the trial, as 7 for 2"],
        ),
        (
            "readouts.curves",
            lambda rows: [{key: row[key] for key in row if key != "epoch"} for row in rows],
            ["it has no column epoch"],
        ),
    ],
)
def test_rows_that_are_not_those_of_the_trials_are_found(copy, name, alter, expected):
    """Even where somebody wrote the checksums anew."""
    study = next(one for one in PAPER if one.name == name.split(".")[0])
    path = copy / "tables" / f"{name}.parquet"
    data = name.partition(".")[2] or "trials"
    about = json.loads(pq.read_metadata(path).metadata[b"factrank"])
    rows = alter(getattr(load_published(copy, study), data).to_pylist())
    content = json.dumps(about | {"constants": {}}).encode()
    pq.write_table(pa.Table.from_pylist(rows).replace_schema_metadata({b"factrank": content}), path)
    rewrite_checksums(copy)
    found = [text.removeprefix(f"{path}: ") for text in differences(copy, PAPER) if text.startswith(f"{path}: ")]
    assert found == expected


def test_two_processes_do_not_publish_to_one_folder_at_once(tmp_path, monkeypatch):
    """The files of one could get the checksums of the other."""
    folder, tables = tmp_path / "paper", Store(tmp_path / "store").tables()
    seen = []

    def write(*arguments):
        other = os.open(folder, os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(other)
        seen.append(arguments[1].study.name)
        return write_published(*arguments)

    monkeypatch.setattr("factrank.report.publishing.publishing.write_published", write)
    publish("made-up", PAPER, "quick", tables, folder)
    assert seen == [study.name for study in PAPER]


# ---------------------------------------------------------------- what is missing


def test_a_claim_cannot_rest_on_what_is_not_published(tmp_path):
    """Times are left out of published tables; a claim about them could not be judged again."""
    claim = Claim("fast", "It is fast.", Quantity("mean", "seconds"), None)
    store = fill(Store(tmp_path / "store"), "quick")
    with pytest.raises(InputError, match="study widths, claim fast: it is computed from seconds, which the published"):
        publish("made-up", [replace(WIDTHS, claims=(claim,))], "quick", store.tables(), tmp_path / "paper")


def test_trials_that_were_not_run_are_counted(tmp_path):
    store = fill(Store(tmp_path / "store"), "quick")
    with pytest.raises(InputError, match="only its quick size was run"):
        publish("made-up", PAPER, "full", store.tables(), tmp_path / "paper")
    for study in PAPER:
        quick = {trial.hash for trial in study.trials_of("quick")}
        store.append([result_of(next(trial for trial in study.trials_of("full") if trial.hash not in quick))])
    publication = publish("made-up", PAPER, "full", store.tables(), tmp_path / "paper")
    assert {name: found.n_missing for name, found in publication.results.items()} == {"widths": 27, "readouts": 6}
    assert {verdict.status for found in publication.results.values() for _, verdict in found.judged} == {
        "not comparable"
    }
    found = differences(tmp_path / "paper", PAPER)
    assert found == [f"{name}: {n} of its trials are not in its table" for name, n in (("widths", 27), ("readouts", 6))]


def test_an_empty_store_and_a_text_of_ones_own(tmp_path):
    tables = Store(tmp_path / "store").tables()
    publish("made-up", PAPER, "quick", tables, tmp_path / "paper")
    assert "charts/" not in (tmp_path / "paper" / "README.md").read_text(encoding="utf-8")
    text = tmp_path / "paper" / "text.md"
    text.write_text("Mine: {{verdict widths | rises}}, {{claim widths | rises}}.\n")
    publish("made-up", PAPER, "quick", tables, tmp_path / "paper")
    readme = (tmp_path / "paper" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"Mine: not comparable, no value \(.*\)\.\n$", readme)
    text.write_text("{{chart widths | lines}}")
    with pytest.raises(InputError, match=r"text.md: it shows charts/widths-lines.svg, but there are no results"):
        publish("made-up", PAPER, "quick", tables, tmp_path / "paper")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot create the folder"):
        publish("made-up", PAPER, "quick", tables, tmp_path / "file" / "below")
