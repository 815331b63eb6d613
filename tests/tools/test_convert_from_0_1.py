"""What factrank 0.1 wrote: refused by name, and converted without the loss of a bit."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factrank import load
from factrank.errors import InputError
from factrank.experiments.models import handed_model
from factrank.experiments.store import Store, trial_of

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "convert_from_0_1.py"
OLD = ROOT / "tests" / "data" / "of_0_1"
NOT_NUMBERS = ("database.", "model.", "training.", "measures.", "hash", "trial", "curve_epochs", "seed")


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("convert_from_0_1", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def converted(tool: Any, tmp_path_factory: pytest.TempPathFactory) -> Store:
    new = tmp_path_factory.mktemp("converted") / "store"
    tool.convert_store(OLD / "store", new)
    return Store(new)


def old_rows(folder: str) -> list[dict[str, Any]]:
    return [
        row for path in sorted((OLD / "store" / folder).glob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def today(name: str) -> str:
    return name.replace("artifacts_", "hallucinations_")


def test_a_store_of_0_1_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"written by factrank 0\.1; convert it with .*convert_from_0_1"):
        Store(OLD / "store").trials()
    with pytest.raises(InputError, match="convert_from_0_1"):
        Store(OLD / "store").finished()


def test_no_number_of_a_trial_changes(tool: Any, converted: Store) -> None:
    table = {row["hash"]: row for row in converted.trials().to_pylist()}
    rows = old_rows("trials")
    assert len(rows) == len(table) == 7
    for old in rows:
        plain = tool.trial_today(json.loads(old["trial"]))
        new = table[trial_of(json.dumps(plain)).hash]
        assert json.loads(new["trial"]) == plain
        kept = {name: cell for name, cell in old.items() if not name.startswith(NOT_NUMBERS) and cell is not None}
        numbers = {today(name): cell for name, cell in kept.items()}
        assert {name: repr(new[name]) for name in numbers} == {name: repr(cell) for name, cell in numbers.items()}


@pytest.mark.parametrize("folder", ["curves", "readings"])
def test_curves_and_readings_follow_their_trials(tool: Any, converted: Store, folder: str) -> None:
    hashes = {
        old["hash"]: trial_of(json.dumps(tool.trial_today(json.loads(old["trial"])))).hash for old in old_rows("trials")
    }
    expected = [{**row, "hash": hashes[row["hash"]]} for row in old_rows(folder)]
    table: pa.Table = getattr(converted, folder)()
    assert sorted(map(_known, table.to_pylist())) == sorted(map(_known, expected))
    assert not converted.problems()


def _known(row: dict[str, Any]) -> str:
    return repr(sorted((today(name), cell) for name, cell in row.items() if cell is not None))


def test_weights_are_the_same_bits(converted: Store) -> None:
    kept = converted.finished(with_weights=True)
    assert len(kept) == 3
    before = {path.stem: path for path in (OLD / "store" / "weights").iterdir()}
    assert not kept & set(before)
    for name in kept:
        assert np.isfinite(sum(float(np.sum(part)) for part in _arrays(converted.weights(name))))


def _arrays(model: Any) -> list[Any]:
    return [part for part in vars(model).values() if isinstance(part, np.ndarray)]


def test_a_model_file_that_says_how_it_starts(tool: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"written by factrank 0\.1; .*convert_from_0_1"):
        load(OLD / "memory.safetensors")
    tool.convert_file(OLD / "memory.safetensors", tmp_path / "new.safetensors")
    saved = load(tmp_path / "new.safetensors")
    model, data, family, spec = handed_model(saved, None)
    assert (family.name, spec.d_model, len(data)) == ("memory", 4, 6)
    assert model.n_keys == 6


def test_the_command_overwrites_nothing(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.mkdir()
    found = subprocess.run(
        [sys.executable, str(TOOL), str(OLD / "store"), str(place)], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (2, f"error: {place}: exists already; name a new place\n")
    assert not list(place.iterdir())


def test_nothing_is_written_before_everything_is_sound(tool: Any, tmp_path: Path) -> None:
    shutil.copytree(OLD / "store", tmp_path / "old")
    (weights,) = list((tmp_path / "old" / "weights").glob("33190*"))
    weights.rename(weights.with_name(f"{'0' * 64}.safetensors"))
    with pytest.raises(InputError, match="the weights of no trial"):
        tool.convert_store(tmp_path / "old", tmp_path / "new")
    assert not (tmp_path / "new").exists()
