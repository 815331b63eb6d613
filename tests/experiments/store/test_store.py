"""The store: what was appended comes back, once, whatever else lies in its folder and whoever else writes."""

import csv
import errno
import hashlib
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from factrank.databases.database import Database
from factrank.errors import InputError
from factrank.experiments.specs.data import Generated, Given
from factrank.experiments.specs.specification import Options
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store import parquet_parts as parts
from factrank.experiments.store.columns import RUN_COLUMNS, curve_rows, row_of, trial_of
from factrank.experiments.store.store import Store
from factrank.experiments.training import train_many
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.nn.part_arrays import to_arrays
from made_up_results import made_up_result, made_up_trial


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results" / "store")


def rows(table):
    return {row["hash"]: row for row in table.to_pylist()}


def part_paths(store, folder="trials"):
    return sorted((store.folder / folder).iterdir())


# ---------------------------------------------------------------- round trip


def test_every_column_comes_back(store):
    results = [made_up_result(seed) for seed in range(5)]
    failures = [(made_up_trial(9), "no memory"), (made_up_trial(8), "=CMD()")]
    store.append(results[:3])
    store.append(results[3:], failures)
    found = rows(store.trials())
    assert len(found) == store.trials().num_rows == 7
    assert list(found) == sorted(found)
    for result in results:
        assert {name: value for name, value in found[result.trial.hash].items() if value is not None} == {
            name: value for name, value in row_of(result).items() if value is not None
        }
        assert trial_of(found[result.trial.hash]["trial"]) == result.trial
    for trial, error in failures:
        assert (found[trial.hash]["status"], found[trial.hash]["error"]) == ("failed", error)
        assert found[trial.hash]["recall"] is None
        assert trial_of(found[trial.hash]["trial"]).hash == trial.hash
    assert store.finished() == {result.trial.hash for result in results}
    assert store.failed() == {trial.hash for trial, _ in failures}
    assert store.problems() == []
    curves = sorted(
        (row for result in results for row in curve_rows(result)), key=lambda row: (row["hash"], row["epoch"])
    )
    assert store.curves().to_pylist() == curves


def test_special_numbers_come_back(store):
    numbers = {"loss": float("nan"), "recall": float("inf"), "margin": -0.0, "median_margin": 5e-324}
    result = replace(made_up_result(0, status="diverged"), metrics=numbers)
    store.append([result])
    row = store.trials().to_pylist()[0]
    assert {name: repr(row[name]) for name in numbers} == {name: repr(number) for name, number in numbers.items()}
    assert store.finished() == {result.trial.hash}


def test_odd_names_and_texts_come_back(store, tmp_path):
    odd = ["", "a.b", "arguments.x", "generator", "é ü", "\0", "=SUM(A1)", "</script>", "x" * 500]
    options = Options.of({name: number for number, name in enumerate(odd)})
    result = made_up_result(0, data=Generated("nobody", options))
    result = replace(result, metrics={name: float(number) for number, name in enumerate(odd)}, device='\0=\n,"é')
    store.append([result])
    (row,) = store.trials().to_pylist()
    assert row == {name: row_of(result).get(name) for name in row}
    assert [row[name] for name in odd] == list(range(len(odd)))
    assert [row[f"data.{name}"] for name in odd if name not in ("generator", "arguments.x")] == [
        0,
        1,
        4,
        5,
        6,
        7,
        8,
    ]
    assert row["data.arguments.generator"] == 3
    assert store.problems() == []
    store.export(tmp_path / "all.csv")
    header = (tmp_path / "all.csv").read_text(encoding="utf-8").splitlines()[0]
    assert '"\'=SUM(A1)"' in header


def test_an_empty_store_is_a_table_without_rows(store):
    assert (store.trials().num_rows, store.curves().num_rows, store.readings().num_rows) == (0, 0, 0)
    assert store.readings().schema.names == ["hash", "precision", "temperature", "tau"]
    assert store.trials().schema.names == list(RUN_COLUMNS)
    assert (store.finished(), store.failed(), store.problems(), store.exists) == (set(), set(), [], False)
    store.append([])
    store.append([replace(made_up_result(0), status="interrupted")])
    assert not store.folder.exists(), "reading makes nothing"


def test_studies_of_different_columns_share_a_store(store):
    whole = made_up_result(0, data=Generated("own", Options.of({"size": 3, "mixed": 1, "big": 2**60})))
    real = made_up_result(1, data=Generated("own", Options.of({"size": 0.5, "mixed": "x", "big": 0.5})))
    given = made_up_result(2, data=Given("ab" * 32), model=TransformerShape(4, 1, 2, 2, mlp_width=8))
    for order in ([whole, real, given], [given, whole, real]):
        both = Store(store.folder.with_name(f"store-{order[0].trial.seed}"))
        for result in order:
            both.append([result])
        table = both.trials()
        found = rows(table)
        assert table.schema.field("data.size").type == pa.float64()
        assert table.schema.field("data.mixed").type == table.schema.field("data.big").type == pa.string()
        assert [found[result.trial.hash]["data.size"] for result in (whole, real, given)] == [3.0, 0.5, None]
        assert [found[result.trial.hash]["data.mixed"] for result in (whole, real, given)] == ["1", "x", None]
        assert [found[result.trial.hash]["data.big"] for result in (whole, real)] == [str(2**60), "0.5"]
        assert [found[result.trial.hash]["model.mlp_width"] for result in (whole, given)] == [None, 8]
    assert both.trials().equals(Store(store.folder.with_name("store-0")).trials()), "who wrote first shows nowhere"


def test_models_come_back_bit_for_bit(store):
    shapes = [LayerShape(3, 1, 2, 2), TransformerShape(3, 1, 1, 2, positions=True, layer_norm=True, mlp_width=4)]
    models = [init_layer(shapes[0], 3, 2, 3, key=0, dtype="float64"), init_transformer(shapes[1], 3, 2, 3, key=0)]
    pairs = zip(shapes, models, strict=True)
    results = [replace(made_up_result(0, model=shape), weights=model) for shape, model in pairs]
    store.append(results, keep_weights=True)
    store.append(results, keep_weights=True)
    for result in results:
        found, wanted = to_arrays(store.weights(result.trial.hash)), to_arrays(result.weights)
        assert found.keys() == wanted.keys()
        assert all(
            np.array_equal(found[name], wanted[name]) and found[name].dtype == wanted[name].dtype for name in found
        )
        row = rows(store.trials())[result.trial.hash]
        assert {name: row[name] for name in result.metrics} == result.metrics
    assert (store.curves().num_rows, store.trials().num_rows, store.problems()) == (4, 2, [])
    with pytest.raises(InputError, match="no such file"):
        store.weights("0" * 64)
    with pytest.raises(InputError, match="hexadecimal"):
        store.weights("../trials/x")
    here, there = (store.folder / "weights" / f"{result.trial.hash}.safetensors" for result in results)
    there.write_bytes(here.read_bytes())
    with pytest.raises(InputError, match="another trial"):
        store.weights(results[1].trial.hash)
    here.write_bytes(here.read_bytes()[:100])
    (here.parent / "notes.txt").write_text("mine")
    wrong = [Path(problem.split(":")[0]).name for problem in store.unsound_files()]
    assert wrong == sorted([here.name, there.name, "notes.txt"])
    assert store.losses() == store.problems()[-1:]
    assert "weights: 2 trials have lost their weights" in store.losses()[0]


def test_weights_are_kept_only_where_asked_for(store):
    store.append([made_up_result(0)])
    assert not (store.folder / "weights").exists()
    assert not list((store.folder / "drafts").iterdir())


# ---------------------------------------------------------------- duplicates


def test_what_ended_beats_what_failed_and_the_first_wins(store):
    trial = made_up_trial(0)
    store.append([], [(trial, "first error")])
    store.append([], [(trial, "second error")])
    assert store.trials()["error"].to_pylist() == ["first error"]
    assert store.failed() == {trial.hash}
    store.append([made_up_result(0, recall=0.25), made_up_result(0, recall=1.0)], [(trial, "third error")])
    store.append([made_up_result(0, recall=0.75)])
    table = store.trials()
    assert (table["recall"].to_pylist(), table["status"].to_pylist()) == ([0.25], ["finished"])
    assert (store.finished(), store.failed()) == ({trial.hash}, set())
    assert store.curves()["recall"].to_pylist() == [0.0, 0.25], "curves come from the same writer as the row"


def test_curves_whose_row_never_came_do_not_count(store):
    store.append([made_up_result(0, recall=0.25)])
    part_paths(store)[0].unlink()  # as if the writer had been killed before the last rename
    assert store.curves().num_rows == 0
    store.append([made_up_result(0, recall=0.75)])
    assert store.curves()["recall"].to_pylist() == [0.0, 0.75]
    part_paths(store, "curves")[1].unlink()
    assert store.curves()["recall"].to_pylist() == [0.0, 0.25], "other curves are better than none"


def test_the_table_does_not_depend_on_names_or_number_of_parts(tmp_path):
    results = [made_up_result(seed) for seed in range(12)]
    one, many = Store(tmp_path / "one"), Store(tmp_path / "many")
    one.append(results)
    for result in reversed(results):
        many.append([result], [(made_up_trial(99), "gone")])
    one.append([], [(made_up_trial(99), "gone")])
    assert one.trials().equals(many.trials())
    assert one.curves().equals(many.curves())


# ---------------------------------------------------------------- damage


def test_a_part_cut_short_anywhere_is_reported(store):
    store.append([made_up_result(0)])
    (kept,) = part_paths(store)
    store.append([made_up_result(seed) for seed in range(1, 4)])
    victim = next(path for path in part_paths(store) if path != kept)
    whole = victim.read_bytes()
    renamed = victim.with_name("renamed.parquet")
    for path in (victim, renamed):  # with the checksum in its name, and by what Parquet checks itself
        for length in range(0, len(whole), 37):
            path.write_bytes(whole[:length])
            if length % 8 == 0:
                assert store.trials().num_rows == 1
            (problem,) = store.unsound_files()
            assert problem.startswith(f"{path}: ")
            assert ("empty" in problem) == (length == 0)
            assert path.read_bytes() == whole[:length]
        path.unlink()
    renamed.write_bytes(whole)
    assert (store.trials().num_rows, store.problems()) == (4, [])


def test_altered_bytes_are_noticed_everywhere(store):
    store.append([made_up_result(seed) for seed in range(2)])
    (path,) = part_paths(store)
    whole, drawn = bytearray(path.read_bytes()), random.Random(0)  # noqa: S311
    for place in drawn.sample(range(len(whole)), 60):
        altered = bytearray(whole)
        altered[place] ^= 1 << drawn.randrange(8)
        path.write_bytes(altered)
        assert store.trials().num_rows == 0
        assert "truncated or modified" in store.problems()[0]


def test_random_bytes_are_reported(store):
    store.append([made_up_result(0)])
    (good,), drawn = part_paths(store), random.Random(1)  # noqa: S311
    whole, before = good.read_bytes(), store.trials()
    strange = good.with_name("strange.parquet")
    for attempt in range(60):
        noise = drawn.randbytes(drawn.randrange(1, 3000))
        if attempt % 3 == 1:
            noise = b"PAR1" + noise + b"PAR1"
        if attempt % 3 == 2:  # a sound beginning and end with noise between
            noise = whole[: drawn.randrange(len(whole))] + noise + whole[-drawn.randrange(8, len(whole)) :]
        strange.write_bytes(noise)
        table, problems = store.trials(), store.problems()
        assert problems or table.equals(before), "noise that no reader looks at"
        assert table.num_rows == 1
        assert strange.read_bytes() == noise


CELLS = {name: pa.array([text]) for name, text in [("hash", "0" * 64), ("status", "finished"), ("trial", "{}")]}
FOREIGN = [
    ("no column hash", pa.table({"city": ["Oslo"]})),
    ("no column trial", pa.table({name: CELLS[name] for name in ("hash", "status")})),
    ("is of the type", pa.table(CELLS | {"hash": pa.array([7])})),
    ("is of the type", pa.table(CELLS | {"when": pa.array([[1, 2]])})),
    ("missing in some rows", pa.table(CELLS | {"status": pa.array([None], pa.string())})),
    ("1 of 1 rows were modified", pa.table(CELLS)),
    ("same name", pa.table([*CELLS.values(), CELLS["hash"]], names=[*CELLS, "hash"])),
]


@pytest.mark.parametrize(("reason", "table"), FOREIGN)
def test_foreign_tables_are_reported(store, reason, table):
    store.append([made_up_result(0)])
    path = store.folder / "trials" / "0foreign.parquet"
    pq.write_table(table, path)
    before = path.read_bytes()
    assert store.trials().num_rows == 1
    assert len(store.finished()) == 1
    (problem,) = store.problems()
    assert str(path) in problem
    assert reason in problem
    assert path.read_bytes() == before


def test_a_row_that_was_edited_is_left_out_and_named(store):
    store.append([made_up_result(seed) for seed in range(3)])
    (path,) = part_paths(store)
    table = pq.read_table(path)
    edited = [text.replace('"seed":1', '"seed":7') for text in table["trial"].to_pylist()]
    path.unlink()
    pq.write_table(
        table.set_column(table.schema.names.index("trial"), "trial", [edited]), path.with_name("by-hand.parquet")
    )
    assert sorted(store.trials()["seed"].to_pylist()) == [0, 2]
    assert len(store.finished()) == 2
    assert "1 of 3 rows were modified (row 2)" in store.problems()[0]


def test_text_in_the_place_of_numbers_harms_no_other_part(store):
    """A foreign part with a true hash, text for recall and a trial of another version: named, and numbers stay."""
    store.append([made_up_result(seed) for seed in range(3)])
    before = store.trials()
    row = {**row_of(made_up_result(7)), "recall": "high"}
    later = json.dumps(json.loads(row["trial"]) | {"version": 99}, sort_keys=True, separators=(",", ":"))
    strange = {**row, "trial": later, "hash": hashlib.sha256(later.encode()).hexdigest()}
    pq.write_table(pa.Table.from_pylist([row, strange]), store.folder / "trials" / "other.parquet")
    after = store.trials()
    assert after["recall"].type == pa.float64()
    assert after.num_rows == before.num_rows + 1
    assert strange["hash"] not in store.finished()
    problems = "\n".join(store.problems())
    assert "other.parquet: the column recall contains text" in problems
    assert "other.parquet: 1 of 2 rows" in problems


def test_other_things_in_the_folder(store):
    store.append([made_up_result(0)])
    trials = store.folder / "trials"
    (trials / "folder.parquet").mkdir()
    (trials / "loop.parquet").symlink_to("loop.parquet")
    (trials / "notes.txt").write_text("mine")
    (trials / "empty.parquet").touch()
    (trials / ".hidden").touch()
    os.mkfifo(trials / "pipe.parquet")
    (store.folder / "drafts" / "left-behind.tmp").write_bytes(b"PAR1")
    before = sorted(path.name for path in trials.iterdir())
    assert store.trials().num_rows == 1
    problems = {Path(problem.split(": ")[0]).name: problem.split(": ", 1)[1] for problem in store.problems()}
    assert set(problems) == {"folder.parquet", "loop.parquet", "notes.txt", "empty.parquet", "pipe.parquet"}
    for name, reason in [("folder", "directory"), ("loop", "symbolic links"), ("empty", "empty"), ("pipe", "regular")]:
        assert reason in problems[f"{name}.parquet"]
    assert sorted(path.name for path in trials.iterdir()) == before
    (store.folder / "curves").rename(store.folder / "elsewhere")
    (store.folder / "curves").write_text("not a folder")
    assert store.curves().num_rows == 0
    assert any("curves: cannot be read: Not a directory" in problem for problem in store.problems())


def test_parts_rewritten_by_other_tools_are_read(store):
    import polars

    store.append([made_up_result(0), made_up_result(1)])
    before = store.trials()
    polars.read_parquet(store.folder / "trials").write_parquet(store.folder / "trials" / "polars.parquet")
    part_paths(store)[0].unlink()
    assert store.problems() == []
    assert store.trials().equals(before)


# ---------------------------------------------------------------- folders that cannot be written


def test_a_store_is_a_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "loop"):
        with pytest.raises(InputError, match="not a folder"):
            Store(tmp_path / name)
    for write in (lambda store: store.append([made_up_result(0)]), lambda store: store.require_writable()):
        with pytest.raises(InputError, match="cannot be written: Not a directory"):
            write(Store(tmp_path / "file" / "store"))
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "trials").write_text("mine")
    with pytest.raises(InputError, match="trials: cannot be written: File exists"):
        Store(tmp_path / "store").append([made_up_result(0)])
    assert (tmp_path / "file").read_text() == (tmp_path / "store" / "trials").read_text() == "mine"


def test_a_folder_that_can_be_written_is_left_clean(store):
    store.require_writable()
    assert sorted(path.name for path in store.folder.iterdir()) == ["curves", "drafts", "readings", "trials"]
    assert not any(part_paths(store, name) for name in ("trials", "curves", "readings", "drafts"))


@pytest.mark.parametrize("fails_at", [1, 2, 3])
@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_full_disk_loses_nothing(store, monkeypatch, call, fails_at):
    store.append([made_up_result(0)])
    before, files = store.trials(), sorted(store.folder.rglob("*"))
    calls, real = [], getattr(os, call)

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(parts.os, call, full)
    if (call, fails_at) == ("rename", 3) or (call, fails_at) == ("fsync", 3):
        store.append([made_up_result(1)])  # two files, and the folders, whose errors matter no more
        assert store.trials().num_rows == 2
        return
    with pytest.raises(InputError, match=f"{store.folder}: cannot be written: No space left on device"):
        store.append([made_up_result(1)])
    monkeypatch.undo()
    assert store.trials().equals(before)
    assert store.curves().num_rows == 2
    if call == "fsync":
        assert sorted(store.folder.rglob("*")) == files
    store.append([made_up_result(1)])
    assert (store.trials().num_rows, store.curves().num_rows, store.problems()) == (2, 4, [])


# ---------------------------------------------------------------- export and other readers


def test_export_to_parquet_and_csv(store, tmp_path):
    store.append(
        [made_up_result(seed) for seed in range(3)], [(made_up_trial(9), "=1+1"), (made_up_trial(8), "'no', -\n")]
    )
    store.export(tmp_path / "all.parquet")
    assert pq.read_table(tmp_path / "all.parquet").equals(store.trials())
    store.export(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    for row, cells in zip(store.trials().to_pylist(), found, strict=True):
        assert list(row) == list(cells)
        for name, value in row.items():
            cell = cells[name]
            if isinstance(value, bool):
                assert cell == str(value).lower()
            elif isinstance(value, int | float):
                assert float(cell) == value
            else:
                assert cell.removeprefix("'") == (value or "")
                assert not cell.startswith(("=", "+", "-", "@"))
    assert {cells["error"] for cells in found} == {"", "'=1+1", "''no', -\n"}
    with pytest.raises(InputError, match=r"\.parquet or \.csv"):
        store.export(tmp_path / "all.xlsx")
    with pytest.raises(InputError, match="cannot be written"):
        store.export(tmp_path / "nowhere" / "all.csv")


def test_other_libraries_open_the_parts(store):
    import pandas
    import polars

    store.append([made_up_result(seed) for seed in range(3)])
    store.append([made_up_result(seed) for seed in range(3, 5)])
    folder = store.folder / "trials"
    expected = sorted(store.trials()["loss"].to_pylist())
    assert sorted(pyarrow.dataset.dataset(folder).to_table()["loss"].to_pylist()) == expected
    assert sorted(pandas.read_parquet(folder)["loss"]) == expected
    assert sorted(polars.read_parquet(folder / "*.parquet")["loss"]) == expected


def test_a_given_database_and_its_facts_stay_apart(store):
    """The store holds the fingerprint and no fact of the user's table."""
    database = Database.from_facts([("secret key", "country", "Norway"), ("Lima", "country", "Peru")])
    trial = Trial(Given(database.fingerprint), LayerShape(2, 1, 1, 1), Training(epochs=1))
    store.append(train_many([trial], databases=[database]), keep_weights=True)
    assert store.trials()["data.fingerprint"].to_pylist() == [database.fingerprint]
    for path in store.folder.rglob("*.*"):
        assert b"secret key" not in path.read_bytes()
    assert json.loads(store.trials()["trial"].to_pylist()[0]) == trial.to_dict()
