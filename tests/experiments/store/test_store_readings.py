"""Readings in a store: they come back as curves do, with the row that counts."""

from dataclasses import replace

import pytest

from factrank.experiments.store.columns import reading_rows
from factrank.experiments.store.store import Store
from made_up_results import made_up_result, made_up_trial


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def part_paths(store, folder="trials"):
    return sorted((store.folder / folder).iterdir())


def readings(seed, recall=0.5):
    """Readings in no order, one of them not a number."""
    return [
        {"precision": "float32", "temperature": 1.0, "tau": 0.5, "recall": recall, "ones": 3.0 + seed},
        {"precision": "bfloat16", "temperature": 2.0, "tau": 0.95, "recall": 0.25, "ones": 0.0, "cp": 4.0},
        {"precision": "bfloat16", "temperature": 2.0, "tau": 0.5, "recall": 0.125, "ones": 1.0},
    ]


def read_result(seed, **changes):
    return replace(made_up_result(seed, **changes), readings=readings(seed, changes.get("recall", 0.5)))


def test_readings_come_back(store):
    results = [*map(read_result, range(3)), made_up_result(3)]
    store.append(results[:2])
    store.append(results[2:])
    expected = [{"cp": None, **row} for result in results for row in reading_rows(result)]
    expected.sort(key=lambda row: (row["hash"], row["precision"], row["temperature"], row["tau"]))
    assert store.readings().to_pylist() == expected
    assert store.readings().schema.names == ["hash", "precision", "temperature", "tau", "cp", "ones", "recall"]
    tables = store.tables()
    assert tables.trials.equals(store.trials())
    assert tables.curves.equals(store.curves())
    assert tables.readings.equals(store.readings())
    assert store.problems() == []


def test_readings_come_from_the_writer_of_the_row(store):
    store.append([], [(made_up_trial(0), "no memory")])
    store.append([read_result(0, recall=0.25), read_result(0, recall=1.0)])
    store.append([read_result(0, recall=0.75)])
    assert store.readings()["recall"].to_pylist() == [0.125, 0.25, 0.25]
    part_paths(store)[1].unlink()  # as if that writer had been killed before the last rename
    assert store.readings()["recall"].to_pylist() == [0.125, 0.25, 0.75]
    for path in part_paths(store)[1:]:
        path.unlink()
    assert store.readings().num_rows == 3, "a trial that failed has a row, and other readings are better than none"
    part_paths(store)[0].unlink()
    assert store.readings().num_rows == 0


def test_damaged_readings_are_reported(store):
    store.append([read_result(0)])
    store.append([read_result(1)])
    victim = part_paths(store, "readings")[0]
    victim.write_bytes(victim.read_bytes()[:-9])
    (victim.parent / "other.parquet").write_bytes(part_paths(store, "curves")[0].read_bytes())
    problems = [problem.split(": ", 1) for problem in store.problems()]
    assert [place for place, _ in problems] == [str(victim), str(victim.parent / "other.parquet")]
    assert "truncated or modified" in problems[0][1]
    assert "it has no column precision, temperature, tau" in problems[1][1]
    assert store.readings().num_rows == 3
