"""Database: identities against Python sets of string triples."""

from collections import defaultdict
from itertools import permutations
from math import comb, log2

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.databases.database import COLUMNS, Database
from factrank.databases.sample_tables import sample
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import ConflictError, InputError

names = st.sampled_from(["a", "b", "c", "1", "01", "Zürich", ""])
facts_lists = st.lists(st.tuples(names, names, names), max_size=25)


def make(facts):
    return Database.from_facts(facts, multi=True)


@given(facts_lists)
def test_iterates_over_its_facts(facts):
    database = make(facts)
    assert set(database) == set(facts)
    assert len(database) == len(set(facts))
    assert database.duplicates == len(facts) - len(set(facts))
    assert all(fact in database for fact in facts)
    assert ("nobody", "born_in", "nowhere") not in database


@given(facts_lists, st.randoms(use_true_random=False))
def test_equality_and_hash_ignore_the_order(facts, random):
    shuffled = facts[:]
    random.shuffle(shuffled)
    assert make(facts) == make(shuffled)
    assert hash(make(facts)) == hash(make(shuffled))


@given(facts_lists, facts_lists)
def test_different_facts_are_different(facts, others):
    assert (make(facts) == make(others)) == (set(facts) == set(others))


def test_names_without_a_fact_are_part_of_the_identity():
    database = Database.from_facts([("a", "q", "x")])
    wider = Database(database.triples, database.keys, database.queries, Vocabulary(["x", "y"]))
    assert wider != database
    assert wider.compact() == database


def test_names_cannot_be_confused_by_joining_them():
    assert make([("ab", "c", "d"), ("a", "c", "d")]) != make([("a", "c", "d"), ("b", "c", "d")])
    assert make([("ab", "q", "x"), ("c", "q", "x")]) != make([("a", "q", "x"), ("bc", "q", "x")])
    assert make([("a", "b", "c")]) != "a"


@given(facts_lists)
def test_functional_full_and_determined(facts):
    database, distinct = make(facts), set(facts)
    for axis, column in enumerate(COLUMNS):
        rest = {tuple(name for at, name in enumerate(fact) if at != axis) for fact in distinct}
        assert (column in database.determined) == (len(rest) == len(distinct))
    assert database.functional == ("value" in database.determined)
    pairs = {fact[:2] for fact in distinct}
    assert database.n_fibers == len(pairs)
    assert database.full == (len(pairs) == len({k for k, _ in pairs}) * len({q for _, q in pairs}))


@given(facts_lists)
def test_fibers_and_ranges(facts):
    database = make(facts)
    fibers, by_query = defaultdict(set), defaultdict(set)
    for key, query, value in facts:
        fibers[key, query].add(value)
        by_query[query].add(value)
    for key in database.keys:
        for query in database.queries:
            assert set(database.fiber(key, query)) == fibers.get((key, query), set())
    assert [len(by_query[q]) for q in database.queries] == database.values_per_query.tolist()
    assert all(set(database.values_of_query(q)) == by_query[q] for q in database.queries)


@given(facts_lists)
def test_bits(facts):
    database = make(facts)
    fibers, ranges = defaultdict(set), defaultdict(set)
    for key, query, value in facts:
        fibers[key, query].add(value)
        ranges[query].add(value)
    n_values = len({value for _, _, value in facts})
    assert database.bits == pytest.approx(sum(log2(comb(n_values, len(f))) for f in fibers.values()))
    by_query = sum(log2(comb(len(ranges[query]), len(f))) for (_, query), f in fibers.items())
    assert database.bits_by_query == pytest.approx(by_query)


def test_bits_of_astrid():
    assert sample("astrid").bits == 16.0
    assert sample("astrid").bits_by_query == 8.0


@given(facts_lists, st.sets(names), st.sets(names))
def test_select(facts, keys, values):
    database = make(facts)
    keys, values = keys & set(database.keys), values & set(database.values)
    expected = {fact for fact in facts if fact[0] in keys and fact[2] in values}
    assert database.select(keys=keys, values=values) == make(expected)
    kept = database.select(keys=keys, values=values, compact=False)
    assert set(kept) == expected
    assert kept.keys == database.keys


def test_select_takes_one_name_or_many():
    database = sample("astrid")
    assert database.select(queries="born_in") == database.select(queries=["born_in"])
    with pytest.raises(InputError, match="married_to"):
        database.select(queries="married_to")


@given(facts_lists, facts_lists)
def test_union(facts, others):
    assert make(facts).union(make(others), multi=True) == make([*facts, *others])


def test_union_of_functional_databases_must_stay_functional():
    here, there = make([("a", "q", "x")]), make([("a", "q", "y")])
    with pytest.raises(ConflictError, match=r"\(a, q\): x, y"):
        here | there
    assert len(here.union(there, multi=True)) == 2
    assert (here | make([("b", "q", "x")])).functional


@given(facts_lists)
def test_views_permute_the_columns(facts):
    database = make(facts)
    for order in permutations(range(3)):
        view = database.view(*(COLUMNS[axis] for axis in order))
        assert view == make([tuple(fact[axis] for axis in order) for fact in facts])


def test_a_view_names_every_column_once():
    with pytest.raises(InputError, match="each of key, query and value once"):
        sample("astrid").view("key", "key", "value")


def test_two_values_are_an_error_that_lists_the_first_offenders():
    facts = [(f"k{i}", "q", f"v{j}") for i in range(7) for j in range(2)]
    with pytest.raises(ConflictError) as caught:
        Database.from_facts(facts)
    message = str(caught.value)
    assert "7 (key, query) pairs" in message
    assert "(k0, q): v0, v1" in message
    assert "(k4, q): v0, v1" in message
    assert "k5" not in message
    assert "and 2 more" in message
    assert "--multi" in message


def test_half_a_surrogate_pair_is_not_text():
    with pytest.raises(InputError, match="surrogate"):
        Database.from_facts([("\ud800", "q", "x")])


def test_everything_is_text():
    assert Database.from_facts([(1, 2.0, 3.5)]) == Database.from_facts([("1", "2", "3.5")])
    assert Database.from_facts([(True, "q", 1e300)]) == Database.from_facts([("true", "q", "1e+300")])
    assert len(Database.from_facts([("01", "q", "x"), ("1", "q", "x")]).keys) == 2


@pytest.mark.parametrize("empty", [None, float("nan")])
def test_a_fact_without_a_value_is_no_fact(empty):
    with pytest.raises(InputError, match="fact 1: the value is empty"):
        Database.from_facts([("a", "q", empty)])


@pytest.mark.parametrize("bad", ["abc", ("a", "b"), ("a", "b", "c", "d"), 5, ("a", "q", [1])])
def test_facts_have_three_parts(bad):
    with pytest.raises(InputError, match=r"fact 2|\[1\] of type list"):
        Database.from_facts(iter([("a", "b", "c"), bad]))


def test_codes_must_fit_the_vocabularies():
    one = Vocabulary(["x"])
    with pytest.raises(InputError, match="outside"):
        Database(np.array([[0, 0, 1]]), one, one, one)
    with pytest.raises(InputError, match="outside"):
        Database(np.array([[0, -1, 0]]), one, one, one)


def test_it_is_frozen():
    database = sample("astrid")
    with pytest.raises(AttributeError):
        database.keys = database.values
    with pytest.raises(ValueError, match="read-only"):
        database.triples[0, 0] = 1


def test_repr_is_for_people():
    assert repr(sample("astrid")).splitlines() == [
        "Database(8 facts: 5 keys x 3 queries -> 4 values, functional)",
        "  (Astrid, born_in, Singapore)",
        "  (Astrid, lives_in, Malaysia)",
        "  (Bernard, born_in, Singapore)",
        "  ...",
    ]


def test_vast_vocabularies_do_not_overflow():
    """Axes of 2^22, 2^21 and 2^21 names have 2^64 cells, more than an int64 can number."""
    sizes = (2**22, 2**21, 2**21)
    vast = [Vocabulary(pa.array(np.arange(size)).cast(pa.large_string())) for size in sizes]
    last = [size - 1 for size in sizes]
    database = Database(np.array([last, [0, 0, 0], last, [5, sizes[1] - 1, 7]]), *vast)
    assert database.triples.tolist() == [[0, 0, 0], [5, sizes[1] - 1, 7], last]
    assert database.duplicates == 1
    assert database.functional


class TestVocabulary:
    def test_reads_like_a_tuple(self):
        vocabulary = Vocabulary(["b", "a", "c"])
        assert list(vocabulary) == ["b", "a", "c"]
        assert vocabulary[1:] == ("a", "c")
        assert [vocabulary.index(name) for name in vocabulary] == [0, 1, 2]
        assert vocabulary.take(np.array([2, 0])) == Vocabulary(["c", "b"])
        assert hash(vocabulary) == hash(Vocabulary(["b", "a", "c"]))
        assert "z" not in vocabulary

    def test_needs_distinct_names(self):
        with pytest.raises(InputError, match="distinct"):
            Vocabulary(["a", "a"])

    def test_names_what_it_lacks(self):
        with pytest.raises(InputError, match=r"'z'.*a, b, c, \.\.\."):
            Vocabulary("abcd").index("z")

    def test_numbered_names_sort_in_their_order(self):
        vocabulary = Vocabulary.numbered("k", 12)
        assert sorted(vocabulary) == list(vocabulary)
        assert vocabulary[3] == "k03"
