"""Generators: exact sizes, the structure each kind promises, ranks that are known, and streams of their own."""

from __future__ import annotations

import inspect
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.generators import random_tables as generators_module
from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.databases.generators.association_tables import associations
from factrank.databases.generators.expected_sizes import expected_facts
from factrank.databases.generators.known_rank import KnownRank, boxes, overlapping_boxes
from factrank.databases.generators.named import diagonal, diagonal2, matmul, unit, w_state
from factrank.databases.generators.people_tables import BIOS_BITS, phonebook
from factrank.databases.generators.random_tables import bijections, disjoint, structured, uniform, zipf
from factrank.databases.generators.registry import GENERATORS, generate
from factrank.errors import InputError

sizes = st.integers(1, 8)
seeds = st.integers(0, 2**64)
fractions = st.floats(0.0, 1.0)
unhurried = settings(deadline=None, max_examples=60)

SEEDED = {
    "uniform": {"n_keys": 6, "n_queries": 5, "n_values": 7, "n_facts": 20},
    "disjoint": {"n_keys": 6, "n_queries": 5, "values_per_query": 7, "n_facts": 20},
    "structured": {"n_keys": 6, "n_queries": 5, "values_per_query": 7, "n_classes": 3},
    "bijections": {"n_keys": 6, "n_queries": 5},
    "zipf": {"n_keys": 6, "n_queries": 5, "n_values": 7, "n_facts": 20},
    "associations": {"n_inputs": 6, "n_outputs": 9, "kind": "random"},
    "answer-sets": {"n_keys": 6, "n_queries": 5, "answers_per_query": 7},
    "bios": {"n_people": 5},
    "phonebook": {"n_people": 5, "digits": 3, "n_names": 4, "n_last": 4},
    "boxes": {"shapes": [(2, 3), (1, 4), (5, 1)]},
    "overlapping-boxes": {"n_keys": 6, "n_queries": 5, "rank": 9},
    "shared-functions": {"n_keys": 12, "n_queries": 4, "n_values": 4, "n_functions": 2, "n_shared": 1, "n_missing": 1},
}
NAMED: dict[str, dict[str, object]] = {
    "unit": {"n": 3},
    "matmul": {"n": 2},
    "w-state": {},
    "diagonal": {},
    "diagonal2": {},
}


def dense(database: Database) -> np.ndarray:
    tensor = np.zeros(database.shape, dtype=np.int64)
    tensor[tuple(database.triples.T)] = 1
    return tensor


def flattening_ranks(tensor: np.ndarray) -> list[int]:
    flattenings = (np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1) for axis in range(3))
    return [int(np.linalg.matrix_rank(flattening)) for flattening in flattenings]


def part_of(n_keys: int, n_queries: int, fraction: float) -> int:
    return max(1, round(fraction * n_keys * n_queries))


# -------------------------------------------------------------------- what each kind promises


@unhurried
@given(sizes, sizes, sizes, fractions, seeds)
def test_uniform_and_zipf_have_exactly_the_facts_asked_for(
    n_keys: int, n_queries: int, n_values: int, fraction: float, seed: int
) -> None:
    n_facts = part_of(n_keys, n_queries, fraction)
    for database in (
        uniform(n_keys, n_queries, n_values, n_facts, seed=seed),
        zipf(n_keys, n_queries, n_values, n_facts, seed=seed),
    ):
        assert database.functional
        assert database.n_facts == n_facts
        assert database.duplicates == 0
        assert database.shape == (n_keys, n_queries, n_values)


def test_uniform_is_full_by_default_and_fills_every_cell_alike() -> None:
    assert uniform(5, 4, 3, seed=1).full
    counts = np.zeros((4, 3, 2))
    for seed in range(600):
        counts[tuple(uniform(4, 3, 2, 6, seed=seed).triples.T)] += 1
    expected = 600 * 6 / 24
    assert counts.sum() == 600 * 6
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


@unhurried
@given(sizes, sizes, sizes, fractions, seeds)
def test_disjoint_queries_share_no_value_and_the_rank_is_the_number_of_values_in_use(
    n_keys: int, n_queries: int, values_per_query: int, fraction: float, seed: int
) -> None:
    n_facts = part_of(n_keys, n_queries, fraction)
    database = disjoint(n_keys, n_queries, values_per_query, n_facts, seed=seed)
    assert database.functional
    assert database.n_facts == n_facts
    assert database.n_values == n_queries * values_per_query
    ranges = [set(database.values_of_query(query)) for query in database.queries]
    assert all(one.isdisjoint(other) for one, other in combinations(ranges, 2))
    assert max(map(len, ranges)) <= values_per_query
    assert flattening_ranks(dense(database))[2] == sum(map(len, ranges))


@unhurried
@given(sizes, sizes, sizes, st.data())
def test_structured_keys_of_a_class_have_equal_slices(
    n_keys: int, n_queries: int, values_per_query: int, data: st.DataObject
) -> None:
    n_classes = data.draw(st.integers(1, n_keys))
    database = structured(n_keys, n_queries, values_per_query, n_classes, seed=data.draw(seeds))
    assert database.functional
    assert database.full
    table = database.triples[:, 2].reshape(n_keys, n_queries)
    assert len(np.unique(table, axis=0)) <= n_classes
    assert (table // values_per_query == np.arange(n_queries)).all()


def test_structured_classes_have_nearly_equal_sizes() -> None:
    database = structured(23, 12, 50, 5, seed=3)  # two classes coincide with probability 50^-12
    _, members = np.unique(database.triples[:, 2].reshape(23, 12), axis=0, return_counts=True)
    assert sorted(members) == [4, 4, 5, 5, 5]


@unhurried
@given(sizes, sizes, seeds)
def test_every_query_of_bijections_is_one(n_keys: int, n_queries: int, seed: int) -> None:
    database = bijections(n_keys, n_queries, seed=seed)
    assert database.full
    assert database.shape == (n_keys, n_queries, n_keys)
    columns = database.triples[:, 2].reshape(n_keys, n_queries)
    assert (np.sort(columns, axis=0) == np.arange(n_keys)[:, None]).all()


@unhurried
@given(sizes, sizes, seeds)
def test_associations_are_a_function_of_one_query(n_inputs: int, more: int, seed: int) -> None:
    n_outputs = n_inputs + more - 1
    for database in (
        associations(n_inputs, n_outputs, seed=seed),
        associations(n_inputs, n_outputs, kind="random", seed=seed),
        associations(n_inputs + more, n_inputs, kind="random", seed=seed),
    ):
        assert database.full
        assert database.functional
        assert tuple(database.queries) == ("f",)
    injection = associations(n_inputs, n_outputs, seed=seed)
    assert injection.shape == (n_inputs, 1, n_outputs)
    assert len(set(injection.triples[:, 2].tolist())) == n_inputs


def test_associations_take_every_output_alike() -> None:
    for kind in ("injective", "random"):
        counts = np.zeros((3, 4))
        for seed in range(600):
            counts[np.arange(3), associations(3, 4, kind=kind, seed=seed).triples[:, 2]] += 1
        assert np.abs(counts - 150).max() < 5 * np.sqrt(150)


@unhurried
@given(sizes, sizes, sizes, seeds)
def test_answer_sets_are_disjoint_and_keep_their_order(n_keys: int, n_queries: int, n_answers: int, seed: int) -> None:
    for structure in ("random", "structured"):
        database = answer_sets(n_keys, n_queries, n_answers, structure=structure, seed=seed)
        assert database.full
        assert database.shape == (n_keys, n_queries, n_queries * n_answers)
        _, queries, values = database.triples.T
        assert (values // n_answers == queries).all()
    answers = values.reshape(n_keys, n_queries) % n_answers  # those of the structured one
    assert (answers == answers[:, :1]).all()
    counts = np.bincount(answers[:, 0], minlength=n_answers)
    assert counts.max() - counts.min() <= 1


def test_random_answers_are_independent_of_each_other() -> None:
    answers = answer_sets(400, 40, 4, seed=0).triples[:, 2].reshape(400, 40) % 4
    counts = np.bincount(answers.ravel(), minlength=4)
    assert np.abs(counts - 4000).max() < 5 * np.sqrt(3000)
    same = (answers[:, 0] == answers[:, 1]).mean()
    assert same == pytest.approx(1 / 4, abs=5 * np.sqrt(3 / 16 / 400))


# -------------------------------------------------------------------- Zipf


def test_zipf_frequencies_fall_with_the_rank() -> None:
    database = zipf(3_000, 60, 1_000, 20_000, seed=5)
    keys, queries, values = (
        np.bincount(database.triples[:, axis], minlength=n) for axis, n in enumerate(database.shape)
    )
    for counts, edges in ((keys, [10, 100, 1_000]), (queries, [5, 20]), (values, [1, 10, 100])):
        means = [part.mean() for part in np.split(counts, edges)]
        assert means == sorted(means, reverse=True)
        assert means[-1] > 0
    harmonic = (1.0 / np.arange(1, 1_001)).sum()
    assert values[0] / 20_000 == pytest.approx(1 / harmonic, rel=0.06)


def test_zipf_draws_the_first_distinct_pairs_of_a_weighted_stream() -> None:
    # Two of the four pairs of a 2 x 2 table: P{first i, then j} = p_i p_j / (1 - p_i), summed over both orders.
    weights = np.outer([1, 1 / 2], [1, 1 / 2]).ravel()
    p = weights / weights.sum()
    expected = {(i, j): p[i] * p[j] * (1 / (1 - p[i]) + 1 / (1 - p[j])) for i, j in combinations(range(4), 2)}
    trials = 3_000
    seen = dict.fromkeys(expected, 0)
    for seed in range(trials):
        triples = zipf(2, 2, 1, 2, seed=seed).triples
        seen[tuple(int(cell) for cell in triples[:, 0] * 2 + triples[:, 1])] += 1
    for cells, probability in expected.items():
        assert seen[cells] / trials == pytest.approx(probability, abs=4.5 * np.sqrt(probability / trials))


def test_zipf_does_not_depend_on_the_blocks_in_which_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = zipf(50, 7, 9, 120, seed=8)
    monkeypatch.setattr(generators_module, "RACE_CELLS", 21)
    assert zipf(50, 7, 9, 120, seed=8) == whole


@pytest.mark.parametrize("exponent", [0.0, 1.0, 3.0, 300.0])
def test_zipf_ends_however_thin_the_tail(exponent: float) -> None:
    database = zipf(40, 10, 30, 399, exponent=exponent, seed=2)
    assert database.n_facts == database.n_fibers == 399


def test_a_million_zipf_facts() -> None:
    database = zipf(100_000, 200, 50_000, 1_000_000, seed=0)
    assert database.n_facts == database.n_fibers == 1_000_000


# -------------------------------------------------------------------- known ranks


def check_rank(known: KnownRank) -> None:
    """Both halves of the proof: the value flattening has that rank, and one term per value sums to the tensor."""
    tensor = dense(known.database)
    assert known.database.functional
    assert flattening_ranks(tensor)[2] == known.rank == known.database.n_values
    keys, queries = tensor.any(axis=1).astype(int), tensor.any(axis=0).astype(int)
    terms = [
        np.multiply.outer(keys[:, v, None] * queries[None, :, v], np.eye(known.rank)[v]) for v in range(known.rank)
    ]
    assert (sum(terms) == tensor).all()


@unhurried
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=6), seeds)
def test_boxes_have_the_rank_they_say(shapes: list[tuple[int, int]], seed: int) -> None:
    known = boxes(shapes, seed=seed)
    check_rank(known)
    database = known.database
    assert known.rank == len(shapes)
    assert (database.n_keys, database.n_queries) == tuple(np.sum(shapes, axis=0))
    found = [(k.any(axis=1).sum(), k.any(axis=0).sum()) for k in np.moveaxis(dense(database), 2, 0)]
    assert sorted(found) == sorted(shapes)


@unhurried
@given(sizes, sizes, st.data())
def test_overlapping_boxes_have_the_rank_they_say(n_keys: int, n_queries: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, n_keys * n_queries))
    known = overlapping_boxes(n_keys, n_queries, rank, seed=data.draw(seeds))
    check_rank(known)
    assert known.rank == rank
    assert known.database.full


# -------------------------------------------------------------------- named tensors


@unhurried
@given(st.integers(1, 4), seeds)
def test_matmul_multiplies_matrices(n: int, seed: int) -> None:
    database = matmul(n)
    a, b = np.random.default_rng(seed).integers(-9, 10, size=(2, n, n))
    product = np.einsum("kqv,k,q->v", dense(database), a.ravel(), b.ravel())
    assert (product.reshape(n, n) == a @ b).all()
    assert database.functional
    assert database.n_facts == n**3


def test_flattening_ranks_of_the_named_tensors() -> None:
    assert flattening_ranks(dense(unit(4))) == [4, 4, 4]
    assert flattening_ranks(dense(matmul(2))) == [4, 4, 4]
    assert flattening_ranks(dense(w_state())) == [2, 2, 2]
    assert flattening_ranks(dense(diagonal())) == [5, 5, 1]
    assert flattening_ranks(dense(diagonal2())) == [5, 5, 2]


def test_the_w_state_is_symmetric_and_its_hyperdeterminant_vanishes() -> None:
    t = dense(w_state())
    assert (t == t.transpose(1, 0, 2)).all()
    assert (t == t.transpose(2, 1, 0)).all()
    # det(x T_0 + y T_1) has a double root: border rank 2 with rank 3 (de Silva and Lim 2008), not rank 2.
    first, second = t[0], t[1]
    mixed = round(np.linalg.det(first + second) - np.linalg.det(first) - np.linalg.det(second))
    assert mixed**2 - 4 * round(np.linalg.det(first)) * round(np.linalg.det(second)) == 0


def test_diagonal2_uses_both_values() -> None:
    assert [value for _, _, value in diagonal2()] == ["v0", "v0", "v0", "v1", "v1"]
    assert diagonal2(2).values_per_query.tolist() == [1, 1]
    assert diagonal(1).n_facts == 1


# -------------------------------------------------------------------- people


def test_people_have_the_bits_of_their_attributes() -> None:
    """12 x 28 x 200 birth dates, 200 cities, 300 universities, 100 majors, 263 employers: Allen-Zhu and Li 2024."""
    people, book = generate("bios", n_people=5000, seed=1), phonebook(500, n_names=8, n_last=8, seed=1)
    assert people.values_per_query.tolist() == [12, 28, 200, 200, 300, 100, 263]
    assert people.bits_by_query == pytest.approx(5000 * np.log2(12 * 28 * 200 * 200 * 300 * 100 * 263))
    assert people.bits_by_query == pytest.approx(5000 * BIOS_BITS)
    assert book.bits_by_query == pytest.approx(500 * 10 * np.log2(10))
    assert people.full
    assert book.full
    assert {len(name.split()) for name in (*people.keys, *book.keys)} == {3}


def test_every_name_may_be_drawn_once() -> None:
    assert phonebook(8, n_names=2, n_last=2, seed=0).n_keys == 8


# -------------------------------------------------------------------- seeds


@pytest.mark.parametrize("kind", SEEDED)
def test_equal_seeds_agree_and_others_differ(kind: str) -> None:
    assert generate(kind, **SEEDED[kind], seed=7) == generate(kind, **SEEDED[kind], seed=7)
    assert len({generate(kind, **SEEDED[kind], seed=seed).fingerprint for seed in range(5)}) == 5


def test_kinds_with_the_same_seed_are_independent() -> None:
    pairs = [
        generate(kind, n_keys=30, n_queries=30, n_facts=300, seed=0, **{size: 900})
        for kind, size in (("uniform", "n_values"), ("disjoint", "values_per_query"))
    ]
    shared = len({f[:2] for f in pairs[0]} & {f[:2] for f in pairs[1]})
    assert shared == pytest.approx(100, abs=40)  # 300 * 300 / 900 expected, standard deviation about 7


GOLDEN = {
    "uniform": "7c76b0549335c79b",
    "disjoint": "b08cbf8d1d057d76",
    "structured": "e29e3cfba8295b4e",
    "bijections": "15aafb4701cc88d7",
    "zipf": "84aa2474d8d1324e",
    "associations": "7e4a0cc3223cccb4",
    "answer-sets": "2e30135aade4212c",
    "bios": "875ee0b792faf746",
    "phonebook": "1717a5b90b012296",
    "boxes": "4132e860353d82ee",
    "overlapping-boxes": "e442309cfb722bfa",
    "shared-functions": "247671804b53e513",
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_databases_stay_what_they_are(kind: str) -> None:
    assert generate(kind, **SEEDED[kind], seed=0).fingerprint[:16] == GOLDEN[kind]


# -------------------------------------------------------------------- the registry, and what it refuses


@pytest.mark.parametrize(("kind", "arguments"), (NAMED | {k: {**a, "seed": 0} for k, a in SEEDED.items()}).items())
def test_generate_calls_the_generator(kind: str, arguments: dict[str, object]) -> None:
    made = GENERATORS[kind](**arguments)
    assert generate(kind, **arguments) == (made.database if isinstance(made, KnownRank) else made)


def test_the_registry_is_complete() -> None:
    assert set(GENERATORS.built_in) == set(SEEDED) | set(NAMED)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("unifrom", {}, "no generator 'unifrom'; there are uniform, disjoint"),
        ("uniform", {"n_keys": 2, "n_queries": 2, "seed": 0}, "missing n_values; uniform takes n_keys"),
        ("bijections", {"n_keys": 2, "n_queries": 2}, "missing seed"),
        ("unit", {"n": 2, "seed": 0}, "unknown seed; unit takes n$"),
        ("w-state", {"n": 2}, "w-state takes no arguments"),
        ("unit", {"n": "two"}, "n must be an integer, got 'two'"),
        ("unit", {"n": True}, "n must be an integer"),
        ("zipf", {**SEEDED["zipf"], "seed": 0, "exponent": "1"}, "exponent must be a number"),
        ("uniform", {**SEEDED["uniform"], "seed": 0, "n_facts": 2.5}, "n_facts must be an integer or None"),
        ("boxes", {"shapes": [(1, 2, 3)], "seed": 0}, "shapes must be a list of pairs of integers"),
        ("boxes", {"shapes": 3, "seed": 0}, "shapes must be a list of pairs of integers"),
        ("boxes", {"shapes": [], "seed": 0}, "at least one"),
        ("boxes", {"shapes": [[1, 0]], "seed": 0}, "number of queries must be a positive integer, got 0"),
        ("overlapping-boxes", {"n_keys": 2, "n_queries": 2, "rank": 5, "seed": 0}, "at most n_keys \\* n_queries = 4"),
        ("uniform", {"n_keys": 2, "n_queries": 2, "n_values": 2, "n_facts": 5, "seed": 0}, "at most .* = 4, got 5"),
        (
            "uniform",
            {"n_keys": 0, "n_queries": 2, "n_values": 2, "seed": 0},
            "n_keys must be a positive integer, got 0",
        ),
        (
            "uniform",
            {"n_keys": 2, "n_queries": 2, "n_values": 2, "n_facts": 0, "seed": 0},
            "n_facts must be a positive",
        ),
        ("uniform", {"n_keys": 2, "n_queries": 2, "n_values": 2, "seed": -1}, "seed must be an integer, 0 or more"),
        ("structured", {**SEEDED["structured"], "n_classes": 7, "seed": 0}, "at most n_keys = 6, got 7"),
        ("zipf", {**SEEDED["zipf"], "seed": 0, "exponent": -1.0}, "exponent must be a finite number"),
        ("zipf", {**SEEDED["zipf"], "seed": 0, "exponent": float("nan")}, "exponent must be a finite number"),
        ("phonebook", {"n_people": 28, "n_names": 3, "n_last": 3, "seed": 0}, "there are 27 names"),
        ("bios", {"n_people": 0, "seed": 0}, "n_people must be a positive integer, got 0"),
        ("diagonal2", {"n": 1}, "2 or more"),
        ("associations", {"n_inputs": 3, "n_outputs": 2, "seed": 0}, "n_outputs >= n_inputs = 3, got 2"),
        ("associations", {"n_inputs": 3, "n_outputs": 3, "kind": 1, "seed": 0}, "kind must be one of injective, ran"),
        ("answer-sets", {**SEEDED["answer-sets"], "structure": "odd", "seed": 0}, "must be one of random, structured"),
        ("answer-sets", {"n_keys": 3, "n_queries": 0, "answers_per_query": 1, "seed": 0}, "n_queries must be a posi"),
    ],
)
def test_bad_requests_say_what_was_expected(kind: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(kind, **arguments)


@pytest.mark.parametrize(
    ("kind", "sizes", "n_facts"),
    [
        ("matmul", {"n": 100_000}, "1,000,000,000,000,000"),
        ("unit", {"n": 10**12}, "1,000,000,000,000"),
        ("zipf", {"n_keys": 10**6, "n_queries": 10**5, "n_values": 9, "n_facts": 10**10, "seed": 0}, "10,000,000,000"),
        ("uniform", {"n_keys": 10**6, "n_queries": 10**6, "n_values": 9, "seed": 0}, "1,000,000,000,000"),
        ("disjoint", {"n_keys": 9, "n_queries": 10**6, "values_per_query": 10**7, "seed": 0}, "9,000,000"),
        ("boxes", {"shapes": [(10**6, 10**6)], "seed": 0}, "1,000,000,000,000"),
        ("bios", {"n_people": 10**12, "seed": 0}, "7,000,000,000,000"),
        ("associations", {"n_inputs": 10**12, "n_outputs": 10**12, "seed": 0}, "1,000,000,000,000"),
    ],
)
def test_databases_that_no_memory_holds_are_refused_before_they_are_made(kind, sizes, n_facts):
    with pytest.raises(InputError, match=rf"{kind}: {n_facts} facts would take .* GiB of memory, this machine has"):
        generate(kind, **sizes)


def test_the_expected_number_of_facts_is_that_of_the_database():
    small = {
        "n": 3, "n_keys": 6, "n_queries": 2, "n_values": 4, "values_per_query": 3, "answers_per_query": 3, "rank": 4,
        "n_functions": 2, "n_shared": 1, "n_missing": 1,
        "n_inputs": 5, "n_outputs": 5, "n_people": 4, "digits": 3, "n_classes": 2, "shapes": [(2, 1), (1, 3)],
        "seed": 0,
    }  # fmt: skip
    for kind, generator in GENERATORS.built_in.items():
        taken = inspect.signature(generator).parameters
        sizes = {name: size for name, size in small.items() if name in taken}
        if kind == "zipf":
            sizes["n_facts"] = 7
        assert generate(kind, **sizes).n_facts == expected_facts(kind, sizes), kind
