"""The search over sizes, its folder, and training for margins on sets of values."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from factrank import Database, LayerShape, construct, load, verify
from factrank.certificates import ConfidenceClaim, certify
from factrank.cli import run
from factrank.errors import InputError, SearchError
from factrank.families.attention.attention_layer import draw_layer
from factrank.families.attention.forms.building import certified_claim
from factrank.families.attention.proof import AttentionProver
from factrank.families.attention.searching import Rounds, TrainedSearch, search_trained, train_margins, trained_search
from factrank.families.attention.searching.margin_training import TrainedMargins, targets_of, violation

FACTS = [("Ann", "speaks", "Thai"), ("Ann", "speaks", "Urdu"), ("Bob", "speaks", "Urdu"), ("Bob", "reads", "Thai")]
FACTS += [("Cid", "reads", "Urdu"), ("Cid", "speaks", "Igbo"), ("Cid", "speaks", "Thai"), ("Ann", "reads", "Igbo")]
ENOUGH = 100
"""Layers with this many parameters hold the table, as the planted training has it."""


@pytest.fixture(scope="module")
def table() -> Database:
    """Three keys, two queries, three values; some pairs have two values."""
    return Database.from_facts(FACTS, multi=True)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, table: Database) -> list[LayerShape]:
    """Replace training and proof by a threshold on the size; returns the sizes that were trained."""
    seen: list[LayerShape] = []
    real = construct(table, only="set-valued")

    def planted(database: Database, shape: LayerShape, rounds: Rounds, **_: Any) -> TrainedMargins:
        seen.append(shape)
        layer = draw_layer(shape, *database.shape, rng=np.random.default_rng(0))
        wrong = 0 if shape.parameters(*database.shape) >= ENOUGH else 1
        return TrainedMargins(layer, 1.0, wrong, rounds.steps)

    def proved(layer: Any, database: Database, claim: ConfidenceClaim | None) -> tuple[Any, int, Any]:
        return layer, 0, replace(real.certificate, certified=layer.parameters >= ENOUGH)

    monkeypatch.setattr(trained_search, "train_margins", planted)
    monkeypatch.setattr(trained_search, "certified_claim", proved)
    return seen


def search(table: Database, folder: Path | None = None, seconds: float = 100.0, **more: Any) -> TrainedSearch:
    """Search with few seeds."""
    return search_trained(table, "float32", seconds=seconds, folder=folder, rounds=Rounds(seeds=1), **more)


def test_the_loss_bounds_the_violated_margin(table: Database) -> None:
    """For every fiber, log(1 + e^violation) at least; no value competes inside a set."""
    logits = np.random.default_rng(0).normal(size=(table.n_keys * table.n_queries, table.n_values)) * 3
    targets = targets_of(table)
    assert targets.keys is None  # nearly all pairs have a fact
    losses = np.asarray(violation(jnp.asarray(logits), targets))
    for pair, loss in enumerate(losses):
        key, query = divmod(pair, table.n_queries)
        inside = [table.values.index(name) for name in table.fiber(table.keys[key], table.queries[query])]
        outside = np.setdiff1d(np.arange(table.n_values), inside)
        if not inside or not len(outside):
            assert loss == 0
            continue
        sums = np.exp(-logits[pair, inside]).sum() * np.exp(logits[pair, outside]).sum()
        assert loss == pytest.approx(np.log1p(sums), rel=1e-4)


def test_a_trained_layer_of_sets_is_certified(table: Database) -> None:
    """Trained, scaled for tau, certified, and answered by an independent argsort."""
    shape = LayerShape(d_model=5, n_heads=2, d_qk=2, d_vo=2)
    found = train_margins(table, shape, Rounds(steps=500, rates=(0.02,), seeds=1))
    assert found.wrong == 0
    layer, _, certificate = certified_claim(found.layer, table, ConfidenceClaim(0.95))
    assert certificate.certified
    logits = np.asarray(layer.tensor())
    for key, query in {(key, query) for key, query, _ in table.triples.tolist()}:
        inside = [table.values.index(name) for name in table.fiber(table.keys[key], table.queries[query])]
        assert set(np.argsort(-logits[key, query])[: len(inside)]) == set(inside)
    saved = construct(table, only="set-valued").to_saved()
    assert verify(replace(saved, layer=found.layer)).certified


def test_the_search_ends_at_a_size_whose_neighbours_fail(table: Database, trained: list[LayerShape]) -> None:
    """No size is trained twice, and none above the closed form."""
    found = search(table)
    assert found.exhausted
    best = found.layer.shape
    assert best.parameters(*table.shape) == min(size.parameters for size in found.probes if size.certified) >= ENOUGH
    for name in ("n_heads", "d_vo", "d_qk", "d_model"):
        if getattr(best, name) > 1:
            smaller = replace(best, **{name: getattr(best, name) - 1})
            assert smaller in trained
            assert smaller.parameters(*table.shape) < ENOUGH
    assert len(set(trained)) == len(trained)
    limited = search(table, below=float(ENOUGH))
    assert limited.layer is None
    assert all(size.parameters < ENOUGH for size in limited.probes)


def test_a_killed_search_goes_on(
    table: Database, trained: list[LayerShape], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the sizes that were tried to their end; the folder goes when no size is left."""
    whole = search(table)
    order = list(trained)
    trained.clear()
    planted: Callable[..., TrainedMargins] = trained_search.train_margins

    def killed(*given: Any, **more: Any) -> TrainedMargins:
        if len(trained) == 3:
            raise KeyboardInterrupt
        return planted(*given, **more)

    monkeypatch.setattr(trained_search, "train_margins", killed)
    with pytest.raises(KeyboardInterrupt):
        search(table, tmp_path / "kept")
    assert trained == order[:3]
    assert (tmp_path / "kept" / "search.json").exists()
    with pytest.raises(InputError, match="another search"):
        search(table, tmp_path / "kept", claim=ConfidenceClaim(0.9))
    monkeypatch.setattr(trained_search, "train_margins", planted)
    resumed = search(table, tmp_path / "kept")
    assert trained == order
    assert resumed.layer.parameters == whole.layer.parameters
    assert not (tmp_path / "kept").exists()


def test_the_layer_in_a_folder_is_not_trusted(table: Database, tmp_path: Path) -> None:
    """A folder whose layer recalls nothing gives no layer."""
    saved = construct(table, only="set-valued").to_saved()
    broken = replace(saved, layer=replace(saved.layer, unembedding=-np.asarray(saved.layer.unembedding)))
    for layer, is_found in ((broken, False), (saved, True)):
        folder = tmp_path / str(is_found)
        search(table, folder, seconds=0.0)
        asked = {
            "facts": table.fingerprint,
            "precision": "float32",
            "claim": None,
            "rounds": [2000, [0.02, 0.01], 1, 0],
        }
        shape = {"d_model": 99, "n_heads": 1, "d_qk": 1, "d_vo": 1}
        size = {"shape": shape, "parameters": 9999, "certified": True, "wrong": 0, "steps": 1, "seconds": 1.0}
        trained_search.SearchFolder(folder, asked).keep([], layer)
        (folder / "search.json").write_text(json.dumps({"asked": asked, "probes": [size]}))
        found = search(table, folder, seconds=0.0)
        assert (found.layer is not None) == is_found
        assert not found.exhausted


@pytest.mark.parametrize("text", ["{", "[]", '{"asked": {}, "probes": 3}', '{"asked": {}, "probes": []}'])
def test_a_broken_folder_is_named(table: Database, tmp_path: Path, text: str) -> None:
    """Bad input, not a traceback."""
    (tmp_path / "search.json").write_text(text)
    with pytest.raises(InputError, match=str(tmp_path)):
        search(table, tmp_path)


def test_both_kinds_are_among_the_alternatives(table: Database, trained: list[LayerShape], tmp_path: Path) -> None:
    """The smaller is taken; its file is like any other."""
    by_formula = construct(table, only="set-valued")
    found = construct(table, method="any", budget=30.0, only="set-valued")
    kinds = {one.construction for one in found.runners_up if one.shape is not None} | {found.form}
    assert {"trained", by_formula.form} <= kinds
    assert found.parameters <= by_formula.parameters
    alone = construct(table, method="trained", budget=30.0)
    assert (alone.form, alone.parameters) == ("trained", min(size for size in sizes(trained, table) if size >= ENOUGH))
    alone.save(tmp_path / "layer.safetensors")
    read = load(tmp_path / "layer.safetensors")
    assert json.loads(read.notes["construction"]) == {"construction": "trained", "editing": {}}
    assert not certify(AttentionProver(read.layer, table)).certified  # training was planted, the proof is not


def sizes(shapes: list[LayerShape], table: Database) -> list[int]:
    """Their parameters."""
    return [shape.parameters(*table.shape) for shape in shapes]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "trained", "only": "binary"}, "only chooses among closed forms"),
        ({"method": "any", "minimise": "heads"}, "minimises parameters"),
        ({"method": "trained", "share_tokens": True}, "shared tokens"),
        ({"method": "trained", "precision": "bfloat16"}, "bfloat16"),
        ({"method": "trained", "abstain": "quiet"}, "quiet"),
        ({"method": "trained", "budget": -1.0}, "at least 0"),
    ],
)
def test_what_training_cannot_do(table: Database, options: dict[str, Any], message: str) -> None:
    """It is refused before anything is trained."""
    with pytest.raises(InputError, match=message):
        construct(table, **options)


def test_a_search_that_finds_nothing_says_no(table: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer, not bad input: exit code 1."""
    with pytest.raises(SearchError, match="budget ended before"):
        construct(table, method="trained", budget=0.0)
    command = ["construct", "sample:astrid", "--method", "trained", "--budget", "0"]
    monkeypatch.setattr(sys, "argv", ["factrank", *command])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1
