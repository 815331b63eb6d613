"""Splits: shared names, facts and names of one split in another, tables, files of every format, hostile input."""

from __future__ import annotations

import io
import sys
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factrank.databases import Database, Splits, split_facts
from factrank.databases.files import FORMATS, read, read_splits, write_splits
from factrank.errors import ConflictError, InputError, InputWarning

names = st.sampled_from(["a", "b", "_:c", "http://d.e/f", '"5"@en', "g,h", "i\tj", "01", "é"])
some_facts = st.sets(st.tuples(names, names, names), min_size=1, max_size=8)
several = st.dictionaries(st.sampled_from(["train", "valid", "test"]), some_facts, min_size=1)
quick = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def database(*facts: tuple[str, str, str]) -> Database:
    return Database.from_facts(facts, multi=True)


def cities() -> Splits:
    return Splits(
        {
            "train": database(("Oslo", "in", "Norway"), ("Lima", "in", "Peru")),
            "valid": database(("Lima", "in", "Peru"), ("Bergen", "in", "Norway")),
            "test": database(("Cusco", "near", "Lima")),
        }
    )


@given(parts=several)
@quick
def test_splits_share_names_and_keep_their_facts(parts: dict[str, set[tuple[str, str, str]]]) -> None:
    given_parts = {name: database(*sorted(facts)) for name, facts in parts.items()}
    splits = Splits(given_parts)
    assert {name: set(part) for name, part in splits.items()} == parts
    assert all(part.vocabularies == splits.everything.vocabularies for part in splits.values())
    assert set(splits.everything) == set.union(*parts.values())
    first = next(iter(parts))
    assert np.array_equal(splits[first].triples, given_parts[first].triples)  # its codes stay as they are
    for (one, mine), (other, theirs) in product(parts.items(), repeat=2):
        assert set(splits.shared(one, other)) == mine & theirs
        for axis, only in enumerate(splits.unseen(one, other).values()):
            assert set(only) == {fact[axis] for fact in mine} - {fact[axis] for fact in theirs}
    known = [{fact[axis] for fact in parts[first]} for axis in range(3)]
    for name, part in splits.restricted_to(first).items():
        assert set(part) == {
            fact for fact in parts[name] if all(cell in column for cell, column in zip(fact, known, strict=True))
        }
        assert part.shape == given_parts[first].compact().shape


@given(parts=several)
@quick
def test_tables_with_a_column_of_splits(parts: dict[str, set[tuple[str, str, str]]]) -> None:
    splits = Splits({name: database(*sorted(facts)) for name, facts in parts.items()})
    frame = pl.DataFrame(splits.to_table())
    assert frame.columns == ["key", "query", "value", "split"]
    assert Splits.from_table(frame, multi=True) == splits
    assert hash(Splits.from_table(frame.reverse(), multi=True)) == hash(splits)


def test_wide_tables_and_conflicts_between_splits() -> None:
    frame = pl.DataFrame({"who": ["Ann", "Bob", "Ann"], "city": ["Oslo", None, "Lima"], "part": ["x", "x", "y"]})
    splits = Splits.from_table(frame, "part", wide=True, multi=True)
    assert {name: set(part) for name, part in splits.items()} == {
        "x": {("Ann", "city", "Oslo")},
        "y": {("Ann", "city", "Lima")},
    }
    with pytest.raises(ConflictError, match=r"row 1: \(Ann, city, Oslo\)\n  row 3: \(Ann, city, Lima\)"):
        Splits.from_table(frame, "part", wide=True)
    with pytest.raises(InputError, match="table: no column 'split'; the columns are 'who', 'city', 'part'"):
        Splits.from_table(frame, wide=True)
    with pytest.raises(InputError, match="table, row 2: empty cell in column 'part'"):
        Splits.from_table(frame.with_columns(part=pl.Series(["x", "", "y"])), "part", wide=True)


@pytest.mark.parametrize("suffix", sorted(FORMATS))
def test_splits_are_read_back_from_files_of_every_format(tmp_path: Path, suffix: str) -> None:
    splits = Splits({name: part.compact() for name, part in cities().items() if name != "valid"})
    written = write_splits(splits, tmp_path / "graph", suffix=suffix)
    assert [path.name for path in written] == [f"train{suffix}", f"test{suffix}"]
    assert read_splits(tmp_path / "graph") == splits
    assert read_splits(dict(zip(splits, written, strict=True))) == splits
    assert read(written) == splits.everything


@pytest.mark.parametrize("suffix", [".nq", ".nq.gz"])
@given(parts=several)
@quick
def test_each_named_graph_is_a_split(tmp_path: Path, suffix: str, parts: dict[str, set[tuple[str, str, str]]]) -> None:
    named = {"default" if name == "valid" else f"http://{name}": facts for name, facts in parts.items()}
    splits = Splits({name: database(*sorted(facts)) for name, facts in named.items()})
    write_splits(splits, tmp_path / f"graph{suffix}")
    with pytest.warns(InputWarning) if _repeated(parts) else _no_warning():
        assert read_splits(tmp_path / f"graph{suffix}", multi=True) == splits
    assert set(read(tmp_path / f"graph{suffix}", multi=True)) == set(splits.everything)


def _repeated(parts: dict[str, set[tuple[str, str, str]]]) -> bool:
    return len(set.union(*parts.values())) < sum(map(len, parts.values()))


def _no_warning() -> io.StringIO:
    return io.StringIO()  # a context that does nothing: warnings are errors already


def test_facts_in_two_splits_are_kept_and_reported(tmp_path: Path) -> None:
    write_splits(cities(), tmp_path)
    with pytest.warns(InputWarning, match="^1 of 2 facts of valid are also in train; they stay in both splits$"):
        splits = read_splits(tmp_path)
    assert splits == cities()
    assert list(splits.shared("train", "valid")) == [("Lima", "in", "Peru")]


def test_standard_input_has_the_format_of_the_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.tsv").write_text("Oslo\tin\tNorway\n")
    for files, text in (
        ({"train": tmp_path / "train.tsv", "test": "-"}, "Lima\tin\tPeru\n"),
        ({"train": "-", "valid": []}, ""),
        ({"train": "-"}, "Lima,in,Peru\n"),
        ({"train": [tmp_path / "train.tsv", "-"]}, "Lima\tin\tPeru\n"),
        ({"train": "-", "test": "-"}, ""),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        if [] in files.values() or list(files.values()).count("-") > 1:
            with pytest.raises(InputError, match=r"each split needs a file|standard input .* given twice"):
                read_splits(files, header=False)
        else:
            assert ("Lima", "in", "Peru") in read_splits(files, header=False).everything


def test_conflicts_between_splits_name_both_files(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("key,query,value\nOslo,in,Norway\n")
    (tmp_path / "test.csv").write_text("key,query,value\nOslo,in,Sweden\n")
    with pytest.raises(ConflictError, match=r"train\.csv, line 2: \(Oslo, in, Norway\)\n.*test\.csv, line 2: "):
        read_splits(tmp_path)
    assert len(read_splits(tmp_path, multi=True).everything) == 2


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    empty = tmp_path / "nothing"
    empty.mkdir()
    (tmp_path / "facts.csv").write_text("key,query,value\na,b,c\n")
    (tmp_path / "train.csv").write_text("key,query,value\na,b,c\n")
    for wrong, message in (
        ({}, "no file to read"),
        (empty, "nothing: no file train, valid or test with a known suffix"),
        (tmp_path / "facts.csv", r"facts\.csv: splits are read from a file for each"),
        (tmp_path / "absent.nq", r"absent\.nq"),
        ({"train": tmp_path / "train.csv", "test": tmp_path / "absent.csv"}, r"absent\.csv"),
        ({"": tmp_path / "train.csv"}, "a split needs a name, such as 'train'; got ''"),
    ):
        with pytest.raises(InputError, match=message):
            read_splits(wrong)
    (tmp_path / "train.tsv").write_text("key\tquery\tvalue\na\tb\tc\n")
    with pytest.raises(InputError, match=r"train\.csv and train\.tsv are both the split train"):
        read_splits(tmp_path)
    (tmp_path / "empty.nq").write_text("# nothing\n")
    with pytest.raises(InputError, match=r"empty\.nq: no facts"):
        read_splits(tmp_path / "empty.nq")
    one = database(("a", "b", "c"))
    with pytest.raises(InputError, match=r"'\.\./x' cannot be the name of a file"):
        write_splits(Splits({"../x": one}), tmp_path)
    with pytest.raises(InputError, match="the splits 'test' have no facts"):
        write_splits(Splits({"train": one, "test": one.select(values=[], compact=False)}), tmp_path)
    with pytest.raises(InputError, match="unknown file format"):
        write_splits(Splits({"train": one}), tmp_path, suffix=".docx")
    with pytest.raises(InputError, match="there is no split 'dev'; the splits are"):
        Splits({"train": one})["dev"]


@given(seed=st.integers(0, 99), n_facts=st.integers(8, 40), fraction=st.sampled_from([0.05, 0.1, 0.25]))
@quick
def test_drawn_splits_are_a_partition_in_which_training_knows_every_name(
    seed: int, n_facts: int, fraction: float
) -> None:
    drawn = np.random.default_rng(seed).integers(0, [4, 2, 3], size=(n_facts, 3))
    facts = Database.from_facts([tuple(map(str, row)) for row in drawn.tolist()], multi=True)
    asked = {"train": 1 - 2 * fraction, "valid": fraction, "test": fraction}
    n_held_out = 2 * round(fraction * len(facts))
    if n_held_out > len(facts) - sum(facts.compact().shape):  # there may be too few facts beside one for each name
        return
    splits = split_facts(facts, asked, seed=seed)
    assert [len(splits[name]) for name in ("valid", "test")] == [n_held_out // 2] * 2
    assert sum(map(len, splits.values())) == len(facts)
    assert splits.everything == facts
    assert all(not any(splits.unseen(name, "train").values()) for name in splits)
    assert split_facts(facts, asked, seed=seed) == splits


def test_which_fractions_are_refused() -> None:
    facts = database(("a", "b", "c"))
    for fractions, message in (({"train": 0.5}, "must add up to 1; got 0.5"), ({"x": 2.0, "y": -1.0}, "from 0 to 1")):
        with pytest.raises(InputError, match=message):
            split_facts(facts, fractions)
    with pytest.raises(InputError, match="1 facts are to be held out, but only 0 of 1 can be"):
        split_facts(facts, {"train": 0.0, "test": 1.0})


def test_a_target_that_is_no_folder_and_a_suffix_that_is_none_are_named(tmp_path):
    splits = Splits({"train": Database.from_facts([("a", "q", "x")])})
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match="taken: expected a folder for the splits; this is a file"):
        write_splits(splits, tmp_path / "taken")
    with pytest.raises(InputError, match=r"escaped\.tsv"):
        write_splits(splits, tmp_path / "folder", suffix="/../../escaped.tsv")
    assert not (tmp_path.parent / "escaped.tsv").exists()
