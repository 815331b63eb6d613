"""Certified ranks as plain numbers: against known ranks, against `measure`, and without python-flint."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.databases.generators.registry import generate
from factrank.databases.sample_tables import sample
from factrank.readouts import database_ranks
from factrank.readouts.database_ranks import certified_ranks
from factrank.tensors.bounds.upper import code_bounds, cp_bounds
from factrank.tensors.measurement import measure
from planted_layers import random_facts

NAMES = ("rank", "completion", "effective")


@pytest.mark.parametrize(("shape", "rank"), [((9, 5), 7), ((12, 8), 30), ((30, 6), 12)])
def test_a_known_rank_lies_between_the_bounds(shape, rank):
    for seed in range(3):
        found = certified_ranks(
            generate("overlapping-boxes", n_keys=shape[0], n_queries=shape[1], rank=rank, seed=seed)
        )
        assert found["rank_lower"] <= rank <= found["rank_upper"]
        assert found["rank_upper"] <= found["proposition"]


@pytest.fixture(autouse=True)
def _no_searches(monkeypatch):
    monkeypatch.setattr(code_bounds, "SHARES", dict.fromkeys(code_bounds.SHARES, 0.0))
    monkeypatch.setattr(cp_bounds, "SHARE", 0.0)


@settings(max_examples=6)
@given(st.integers(1, 30), st.integers(0, 2**32 - 1), st.integers(1, 2))
def test_a_measurement_with_time_lies_inside_the_brackets(n_fibers, seed, most):
    database = random_facts((6, 5, 4), n_fibers, seed, most)
    found, measured = certified_ranks(database), measure(database, budget=100.0)
    for name, bounds in zip(NAMES, measured.brackets.values(), strict=True):
        assert found[f"{name}_lower"] <= bounds.lower.value <= bounds.upper.value <= found[f"{name}_upper"]
    assert found["effective_upper"] <= found["completion_upper"] <= found["rank_upper"]


def test_astrid():
    found = certified_ranks(sample("astrid"))
    assert (found["rank_lower"], found["rank_upper"]) == (5, 5)
    assert (found["completion_lower"], found["completion_upper"]) == (4, 5)
    assert found["effective_lower"] == 2 <= found["effective_upper"]
    assert (found["proposition"], found["bits"]) == (6, sample("astrid").bits)


@pytest.mark.parametrize("most", [1, 3])
def test_the_proposition_counts_values_per_slice(most):
    database = random_facts((7, 5, 6), 20, seed=3, most=most)
    by_key = {(k, v) for k, _, v in database.triples.tolist()}
    by_query = {(q, v) for _, q, v in database.triples.tolist()}
    assert certified_ranks(database)["proposition"] == min(len(by_key), len(by_query))


def test_a_database_is_ranked_once_and_the_oldest_is_forgotten(monkeypatch):
    counted = []
    monkeypatch.setattr(database_ranks, "_known", {})
    monkeypatch.setattr(database_ranks, "MOST_KEPT", 2)
    monkeypatch.setattr(database_ranks, "_certified_ranks", lambda database: counted.append(database) or {"rank": 1.0})
    first, second, third = (random_facts((3, 2, 2), 4, seed) for seed in (1, 2, 3))
    for database in (first, second, first, third, first):
        certified_ranks(database)["rank"] = 5.0  # a copy: nobody else sees it
    assert counted == [first, second, third, first]
    assert certified_ranks(third) == {"rank": 1.0}


WITHOUT_FLINT = """
import sys
sys.modules["flint"] = sys.modules["threadpoolctl"] = None
from factrank import generate
from factrank.readouts.database_ranks import certified_ranks
from factrank.tensors.cp.planted import planted_rank
for kind, sizes in {cases!r}:
    database = generate(kind, seed=2, **sizes)
    print(sorted(certified_ranks(database).items()), planted_rank(database, 1e-3)[0])
"""

CASES = (
    ("overlapping-boxes", {"n_keys": 12, "n_queries": 8, "rank": 30}),
    ("uniform", {"n_keys": 4, "n_queries": 3, "n_values": 3}),
    ("uniform", {"n_keys": 30, "n_queries": 20, "n_values": 4, "n_facts": 60}),
)


def test_the_numbers_are_the_same_without_flint():
    program = WITHOUT_FLINT.format(cases=CASES)
    without = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    for line, (kind, sizes) in zip(without.splitlines(), CASES, strict=True):
        found = certified_ranks(generate(kind, seed=2, **sizes))
        assert line.startswith(str(sorted(found.items())))
