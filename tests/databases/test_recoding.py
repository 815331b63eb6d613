"""Recoding keeps every fact by name, and names what is not known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.recoding import recode
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError
from strategies import as_database, tensors

NAMES = st.sampled_from(["a", "b", "c", "d", "<b>", "é", "e\u0301", ""])


@given(tensors(functional=False), st.randoms(use_true_random=False))
def test_the_facts_are_the_same_in_the_other_codes(tensor, random):
    """Onto a database with the same names in another order and some more."""
    database = as_database(tensor)
    shuffled = []
    for vocabulary in database.vocabularies:
        names = [*vocabulary, "one more", "and another"]
        random.shuffle(names)
        shuffled.append(Vocabulary(names))
    onto = Database(np.empty((0, 3), np.int32), *shuffled)
    recoded = recode(database, onto)
    assert recoded.vocabularies == onto.vocabularies
    assert set(recoded) == set(database)
    assert len(recoded) == len(database)
    assert recode(recoded, database).triples.tolist() == database.triples.tolist()


@given(st.sets(st.tuples(NAMES, NAMES, NAMES)), st.sets(st.tuples(NAMES, NAMES, NAMES)))
def test_it_succeeds_exactly_when_every_name_is_known(facts, known):
    def database_of(triples):
        vocabularies = [Vocabulary(dict.fromkeys(column)) for column in zip(*triples, strict=True)] or [
            Vocabulary([])
        ] * 3
        codes = [[vocabulary.index(n) for vocabulary, n in zip(vocabularies, t, strict=True)] for t in triples]
        return Database(np.array(codes, dtype=np.int32).reshape(-1, 3), *vocabularies)

    facts, known = sorted(facts), sorted(known)
    fits = all({t[axis] for t in facts} <= {t[axis] for t in known} for axis in range(3))
    if fits:
        assert set(recode(database_of(facts), database_of(known))) == set(facts)
    else:
        with pytest.raises(InputError, match="unknown names"):
            recode(database_of(facts), database_of(known))


def test_the_error_lists_a_few_unknown_names_of_each_column():
    known = Database.from_facts([("k0", "q0", "v0"), ("k1", "q0", "v1")])
    facts = [(f"key {i}", "q0", "v" * 1000) for i in range(10)] + [("k0", "q0", "v0")]
    with pytest.raises(InputError) as caught:
        recode(Database.from_facts(facts), known)
    assert str(caught.value) == (
        f"unknown names: 10 of 11 keys ('key 0', 'key 1', 'key 2', ...); 1 of 2 values ('{'v' * 40}...'); "
        "there are 2 keys, 1 queries, 2 values"
    )


def test_names_without_a_fact_need_not_be_known():
    known = Database.from_facts([("k0", "q0", "v0")])
    wider = Database(
        np.array([[1, 0, 0]]), Vocabulary(["stranger", "k0"]), Vocabulary(["q0"]), Vocabulary(["v0", "odd"])
    )
    assert recode(wider, known) == known


def test_a_million_facts():
    """Vectorised: a loop over facts would be noticed by whoever waits for this test."""
    rng = np.random.default_rng(0)
    size = 1000
    codes = np.arange(size * size)
    triples = np.column_stack([codes // size, codes % size, rng.integers(size, size=size * size)])
    database = Database(triples, *(Vocabulary.numbered(prefix, size) for prefix in "kqv"))
    orders = [rng.permutation(size) for _ in range(3)]
    onto = Database(
        np.empty((0, 3), np.int32), *(v.take(order) for v, order in zip(database.vocabularies, orders, strict=True))
    )
    back = np.column_stack(
        [order[column] for order, column in zip(orders, recode(database, onto).triples.T, strict=True)]
    )
    assert np.array_equal(back[np.lexsort(back.T[::-1])], database.triples)
