"""Additive fit: cycles against the linear programme and against brute force, planted answers, the samples."""

from itertools import combinations, permutations

import pytest
from hypothesis import given, settings

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import disjoint, uniform
from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.families.attention.forms.building.additive_fit import (
    _programme,
    additive_classes,
    additive_fit,
    pair_cycle,
)
from strategies import as_database, tensors


@pytest.mark.parametrize("n_keys", [3, 5, 8])
def test_linear_programme_is_acyclicity_for_pairs(n_keys):
    outcomes = set()
    for seed in range(25):
        database = uniform(n_keys, 2, 6, seed=seed)
        acyclic = not pair_cycle(database, 0, 1)
        assert _programme(database, [0, 1])[0] == acyclic
        outcomes.add(acyclic)
    assert outcomes == {True, False}


@settings(max_examples=40)
@given(tensors(functional=True, empty=False, most=5))
def test_cycles_are_cycles_of_the_facts(tensor):
    """And without a cycle some order of the values puts f(k, q) before f(k, q') for every key: brute force."""
    database = as_database(tensor)
    for first, second in combinations(range(database.n_queries), 2):
        answers = [{k: v for k, q, v in database.triples.tolist() if q == query} for query in (first, second)]
        arcs = {(v, answers[1][k]) for k, v in answers[0].items() if k in answers[1] and v != answers[1][k]}
        cycle = pair_cycle(database, first, second)
        assert all(arc in arcs for arc in zip(cycle, cycle[1:] + cycle[:1], strict=True))
        ordered = any(
            all(order.index(u) < order.index(w) for u, w in arcs) for order in permutations(range(database.n_values))
        )
        assert ordered == (not cycle)


def test_pairwise_acyclic_is_necessary():
    pairwise, together = 0, 0
    for seed in range(40):
        database = uniform(4, 3, 8, seed=seed)
        acyclic = not any(pair_cycle(database, a, b) for a, b in combinations(range(3), 2))
        fits = additive_fit(database).fits
        assert acyclic or not fits
        pairwise, together = pairwise + acyclic, together + bool(fits)
    assert 0 < together <= pairwise < 40


def test_three_queries_in_a_circle():
    """One key permutes (u, v, w) over three queries one way, another the other way round: no two queries object."""
    one_way = [("a", "p", "u"), ("a", "q", "v"), ("a", "r", "w")]
    other_way = [("b", "p", "v"), ("b", "q", "w"), ("b", "r", "u")]
    found = additive_fit(Database.from_facts([*one_way, *other_way]))
    assert (found.fits, found.cycle) == (False, ())
    assert additive_fit(Database.from_facts([*one_way, *other_way[:2]])).fits


def test_solutions_have_the_margin_that_was_asked_for():
    found = additive_fit(sample("astrid"))
    assert found.fits
    assert found.margin == pytest.approx(1.0)
    assert found.queries == ("born_in", "lives_in", "currency")


def test_disjoint_ranges_need_no_attention():
    database = disjoint(20, 5, 4, seed=0)
    assert additive_fit(database).fits
    assert additive_classes(database) == (tuple(database.queries),)


def test_classes_fit_and_cover():
    database = uniform(6, 5, 7, seed=2)
    classes = additive_classes(database)
    assert sorted(name for members in classes for name in members) == sorted(database.queries)
    assert all(additive_fit(database, members).fits for members in classes)


def test_fibers_with_several_values():
    """(u and w) against (w and u) is no contradiction; u against w and w against u is one."""
    table = [("a", "p", "u"), ("a", "p", "w"), ("a", "q", "w"), ("a", "q", "u")]
    assert additive_fit(Database.from_facts(table, multi=True)).fits
    crossed = [("a", "p", "u"), ("a", "q", "w"), ("b", "p", "w"), ("b", "p", "x"), ("b", "q", "u")]
    found = additive_fit(Database.from_facts(crossed, multi=True))
    assert (found.fits, set(found.cycle), found.between) == (False, {"u", "w"}, ("p", "q"))


def test_one_query_and_mistakes(monkeypatch):
    database = uniform(4, 3, 5, seed=0)
    assert additive_fit(database, ["q1"]).fits
    assert additive_fit(database, "q1").queries == ("q1",)
    with pytest.raises(InputError, match="once"):
        additive_fit(database, ["q1", "q1"])
    with pytest.raises(InputError, match="not in the vocabulary"):
        additive_fit(database, ["q9"])
    monkeypatch.setattr("factrank.families.attention.forms.building.additive_fit.MOST_INEQUALITIES", 3)
    assert additive_fit(disjoint(20, 5, 4, seed=0)).fits is None
