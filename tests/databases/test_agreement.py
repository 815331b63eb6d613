"""Agreement of two databases, against sets of Python."""

import numpy as np
import pytest

from factrank.databases.agreement import agreement_of
from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError

AXES = [Vocabulary([f"{axis}{i}" for i in range(4)]) for axis in "kqv"]


def fibers_of(facts):
    return {(k, q): {v for *pair, v in facts if pair == [k, q]} for k, q, _ in facts}


@pytest.mark.parametrize("seed", range(20))
def test_random_facts(seed):
    rng = np.random.default_rng(seed)
    one, other = (Database(rng.integers(4, size=(rng.integers(0, 40), 3)), *AXES) for _ in range(2))
    found = agreement_of(one, other)
    sets = [set(map(tuple, facts.triples.tolist())) for facts in (one, other)]
    fibers = [fibers_of(facts) for facts in sets]
    common = fibers[0].keys() & fibers[1].keys()
    assert found.shared == len(sets[0] & sets[1])
    assert found.contradicted.tolist() == sorted([*pair] for pair in common if fibers[0][pair] != fibers[1][pair])


def test_other_codes_are_refused():
    facts = Database.from_facts([("a", "b", "c")])
    with pytest.raises(InputError, match="different vocabularies"):
        agreement_of(facts, Database.from_facts([("a", "b", "d")]))
