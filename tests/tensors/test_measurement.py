"""`measure`: known answers, brackets that never cross, invariances, budgets and interruptions."""

import json
from itertools import permutations
from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.generators.known_rank import boxes, overlapping_boxes
from factrank.databases.generators.named import diagonal, diagonal2, matmul, unit, w_state
from factrank.databases.generators.random_tables import disjoint, uniform
from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.tensors.bounds.certified_bounds import Bound, RankBounds
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.lower.substitution import substitution_bound
from factrank.tensors.bounds.upper.plain_bounds import proposition_bound
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.measurement import measure
from strategies import as_database, tensors

RANKS = ("rank", "completion_rank", "effective_rank")


def brackets(database, **kwargs):
    measurement = measure(database, **kwargs)
    return [(getattr(measurement, name).lower.value, getattr(measurement, name).upper.value) for name in RANKS]


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        (sample("astrid"), [(5, 5), (4, 5), (2, 2)]),
        (diagonal(), [(5, 5), (1, 1), (0, 0)]),
        (diagonal2(), [(5, 5), (2, 2), (1, 1)]),
        (w_state(), [(3, 3), (2, 2), (1, 1)]),
    ],
)
@pytest.mark.searches
def test_known_brackets(database, expected):
    assert brackets(database) == expected


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_unit_tensors(n):
    assert brackets(unit(n))[0] == (n, n)


@pytest.mark.parametrize(("n", "lower", "known"), [(2, 6, 7), (3, 15, 23)])
def test_matrix_multiplication(n, lower, known):
    """Rank 7 for 2 x 2 (Strassen, Winograd); at most 23 for 3 x 3 (Laderman)."""
    rank = measure(matmul(n)).rank
    assert rank.lower.value == lower <= known <= rank.upper.value


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=6), st.integers(0, 999))
def test_direct_sums_of_boxes_have_their_rank(shapes, seed):
    known = boxes(shapes, seed=seed)
    assert brackets(known.database)[0] == (known.rank, known.rank) == (len(shapes), len(shapes))


@given(st.integers(2, 8), st.integers(2, 6), st.data())
def test_overlapping_boxes_have_their_rank(n_keys, n_queries, data):
    rank = data.draw(st.integers(1, n_keys * n_queries))
    known = overlapping_boxes(n_keys, n_queries, rank, seed=data.draw(st.integers(0, 999)))
    assert brackets(known.database)[0] == (rank, rank)


def test_disjoint_ranges_have_as_much_rank_as_values():
    database = disjoint(30, 6, 5, seed=0)
    used = len(np.unique(database.triples[:, 2]))
    assert brackets(database)[0] == (used, used)


def test_samples():
    assert brackets(sample("countries"))[0] == (1137, 1137)
    lower, upper = brackets(sample("elements"))[0]
    assert 253 <= lower <= upper <= 271


# Random tables of the usual sizes: (shape, facts, at least, at most). The certified lower bound of a full 8 x 4 x 6
# table is 8 or 9, as the rank of its Koszul flattening has it; the others vary likewise by one or two.
RANDOM = [
    ((8, 4, 6), 32, 8, 17),
    ((8, 4, 6), 20, 8, 14),
    ((12, 6, 12), 72, 18, 45),
    ((20, 10, 20), 200, 35, 121),
    ((20, 10, 20), 100, 32, 79),
]


@pytest.mark.parametrize(("shape", "facts", "lower", "upper"), RANDOM)
@pytest.mark.parametrize("seed", [0, 1])
def test_random_tables(shape, facts, lower, upper, seed):
    rank = measure(uniform(*shape, facts, seed=seed), budget=30.0).rank
    assert lower <= rank.lower.value <= rank.upper.value <= upper
    assert rank.estimate is None


@given(tensors())
def test_brackets_are_ordered_and_witnessed(tensor):
    database = as_database(tensor)
    measurement = measure(database)
    rank, completion, effective = (getattr(measurement, name) for name in RANKS)
    assert effective.upper.value <= completion.upper.value <= rank.upper.value
    assert completion.lower.value <= rank.lower.value
    for bounds in (rank, completion, effective):
        assert bounds.lower.value <= bounds.upper.value
        assert bounds.lower.certified
        assert bounds.upper.certified
    if len(database):
        assert rank.upper.witness().equals(tensor)
        assert rank.lower.witness.recompute(tensor) >= rank.lower.value
        assert completion.upper.witness().completes(tensor)
        assert completion.upper.witness().n_terms <= completion.upper.value


def same_rank(measurements) -> None:
    """Brackets of one rank: they overlap. Chains of slices break ties by order, so only flattenings agree exactly."""
    ranks = [measurement.rank for measurement in measurements]
    assert max(rank.lower.value for rank in ranks) <= min(rank.upper.value for rank in ranks)
    flattenings = {max(bound.value for bound in rank.tried if bound.method.startswith("B1")) for rank in ranks}
    assert len(flattenings) == 1


@given(tensors(most=5, empty=False), st.integers(0, 2**32 - 1))
def test_brackets_do_not_depend_on_the_order_of_names(tensor, seed):
    rng = np.random.default_rng(seed)
    columns = [rng.permutation(size)[tensor.coordinates[:, axis]] for axis, size in enumerate(tensor.shape)]
    shuffled = ZeroOneTensor(np.column_stack(columns).astype(np.int64), tensor.shape)
    same_rank([measure(as_database(tensor)), measure(as_database(shuffled))])


@given(tensors(most=5))
def test_repeating_slices_changes_nothing(tensor):
    copies = [tensor.coordinates]
    for axis in range(3 if not tensor.determined[2] else 2):
        again = tensor.coordinates.copy()
        again[:, axis] += tensor.shape[axis]
        copies.append(again)
        shape = tuple(size * (2 if at == axis else 1) for at, size in enumerate(tensor.shape))
        doubled = ZeroOneTensor(np.concatenate([tensor.coordinates, again]), shape)
        assert brackets(as_database(doubled)) == brackets(as_database(tensor))


def views(tensor):
    for order in permutations(range(3)):
        yield ZeroOneTensor(tensor.coordinates[:, order], tuple(tensor.shape[axis] for axis in order))


@given(tensors(most=4, empty=False))
def test_rank_does_not_depend_on_the_view(tensor):
    same_rank([measure(as_database(view)) for view in views(tensor)])


def test_ties_between_chains_may_move_a_lower_bound_but_never_past_an_upper_one():
    facts = [[0, 1, 1], [2, 2, 3], [0, 0, 0], [3, 1, 3], [0, 2, 0], [2, 0, 2], [1, 2, 1], [1, 0, 1]]
    tensor = ZeroOneTensor(np.array(facts), (4, 3, 4))
    same_rank([measure(as_database(view)) for view in views(tensor)])


def test_empty_database():
    assert brackets(Database.from_facts([])) == [(0, 0), (0, 0), (0, 0)]


def test_names_without_facts_do_not_matter():
    database = uniform(20, 10, 40, 60, seed=1)
    assert brackets(database) == brackets(database.compact())


@settings(max_examples=20)
@given(tensors(empty=False))
def test_no_budget_still_gives_a_certified_bracket(tensor):
    database = as_database(tensor)
    measurement = measure(database, budget=0.0)
    with_time = measure(database)
    for name in RANKS:
        hasty, patient = getattr(measurement, name), getattr(with_time, name)
        assert hasty.lower.value <= patient.lower.value <= patient.upper.value <= hasty.upper.value
    assert measurement.rank.upper.witness().equals(tensor)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensors(functional=False, empty=False))
def test_bounds_that_only_count_are_given_when_there_is_time_for_nothing(monkeypatch, tensor):
    """As for millions of facts: no pass over them fits into the budget, not even the one that merges slices."""
    monkeypatch.setattr("factrank.tensors.bounds.ledger.PER_FACT", 1.0)
    steps = []
    hasty = measure(as_database(tensor), budget=0.0, on_step=steps.append)
    monkeypatch.undo()
    assert not any(step.startswith(("equal slices", "U2", "U3", "U4", "U6", "U7", "B3")) for step in steps)
    assert hasty.rank.upper.value <= min(len(tensor), proposition_bound(tensor))
    counted = [bound.method for bound in hasty.rank.tried if bound.method.startswith("U1")][1:4]
    pairs = ["U1 pairs of query and value", "U1 pairs of key and value", "U1 pairs of key and query"]
    assert counted == pairs[: len(counted)]
    assert hasty.rank.upper.witness().equals(tensor)
    patient = measure(as_database(tensor), budget=0.0)
    for name in RANKS:
        assert getattr(hasty, name).lower.value <= getattr(patient, name).lower.value
        assert getattr(hasty, name).upper.value >= getattr(patient, name).upper.value
    assert hasty.rank.lower.value >= 1
    assert hasty.determined == patient.determined
    # A tie of all values is right only where every fiber has all of them.
    n_fibers = len({(k, q) for k, q, _ in tensor.coordinates.tolist()})
    n_values = len({v for _, _, v in tensor.coordinates.tolist()})
    assert (hasty.effective_rank.lower.value >= 1) == (len(tensor) < n_fibers * n_values)


def test_estimates_follow_the_pace_of_the_machine():
    ledger = Ledger(3.0, lambda _: None)
    ledger.seconds["first"] = 4.0
    assert ledger.run("second", 2.0, lambda: "done") == "done"
    ledger.calibrate("first", 2.0)
    assert ledger.run("third", 2.0, lambda: "done") is None
    assert "would take about 4.0 s" in ledger.take_skipped()[0].reason


def test_time_that_is_held_back_is_not_spent():
    ledger = Ledger(10.0, lambda _: None)
    ledger.hold_back(5.0, most=0.35)
    assert 6.0 < ledger.left() <= 6.5
    assert ledger.run("long", 8.0, lambda: "done") is None
    ledger.hold_back(0.0)
    assert ledger.run("long", 8.0, lambda: "done") == "done"


def test_substitution_ends_at_its_deadline():
    core = Core.of(ZeroOneTensor.of(uniform(20, 6, 15, seed=0)))
    assert substitution_bound(core, 2, 1, deadline=-inf) is None
    found = substitution_bound(core, 2, 1)
    assert found is not None
    assert found.value > 0
    assert substitution_bound(core, 2, 1, to_beat=found.value) is None
    best = substitution_bound(core, 2, 1, to_beat=found.value - 1)
    assert best is not None
    assert best.value == found.value


def test_skipped_methods_have_reasons():
    rank = measure(uniform(20, 10, 20, seed=0), budget=0.0).rank
    skipped = {skip.method: skip.reason for skip in rank.skipped}
    assert any(method.startswith("B2 Koszul") for method in skipped)
    assert all("budget" in reason or "meet" in reason or "cannot exceed" in reason for reason in skipped.values())


@pytest.mark.parametrize("budget", [-1.0, float("nan"), float("inf")])
def test_a_senseless_budget_is_an_error(budget):
    with pytest.raises(InputError, match="budget"):
        measure(sample("astrid"), budget=budget)


def test_an_interrupt_keeps_what_was_found():
    database = uniform(20, 10, 20, seed=0)

    def interrupt(method):
        if method.startswith("U7"):
            raise KeyboardInterrupt

    measurement = measure(database, on_step=interrupt, interruptible=True)
    reasons = {skip.reason for skip in measurement.rank.skipped}
    assert "interrupted" in reasons
    assert measurement.interrupted
    assert not measure(sample("astrid")).interrupted
    assert measurement.effective_rank.upper.value <= 20  # the cheap codes still ran
    assert measurement.rank.lower.value <= measurement.rank.upper.value < database.n_facts
    with pytest.raises(KeyboardInterrupt):
        measure(database, on_step=interrupt)


def test_plain_data():
    data = measure(sample("astrid")).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["triples"] == 8
    assert data["bits"] == 16.0
    assert data["bits_by_query"] == 8.0
    assert data["rank"]["lower"] == {"value": 5, "method": "B1 key flattening", "certified": True}
    assert data["rank"]["estimate"] is None


def test_one_value_needs_no_budget():
    assert brackets(Database.from_facts([(k, q, "v") for k in "abc" for q in "xy"]), budget=0.0)[2] == (0, 0)


def test_what_is_not_a_database():
    with pytest.raises((InputError, TypeError)):
        measure([("a", "b", "c")])


def test_crossing_bounds_are_reported_as_a_defect():
    with pytest.raises(ArithmeticError, match="cross"):
        RankBounds.best_of([Bound(3, "too high")], [Bound(2, "too low")], ())
