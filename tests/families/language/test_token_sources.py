"""Sequences of tokens: records say what the database says, recall is unambiguous, text survives its tokeniser."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.databases import Database
from factrank.databases.generators.people_tables import bios, phonebook
from factrank.errors import InputError
from factrank.experiments.specs import Given, from_plain, to_plain
from factrank.families import language
from factrank.families.language.in_context_sequences import InContextSource
from factrank.families.language.language_data import InContextRecall, Sentences, TextFile
from factrank.families.language.sentences import FactSource
from factrank.families.language.templates import SLOT, TEMPLATES
from factrank.families.language.text_windows import TextSource, tokenised
from factrank.families.language.token_sources import BLANK

EXCERPT = Path(language.__file__).parent / "data" / "library.txt"
"""Written for the package; it has its licence."""

PEOPLE, BOOK = bios(6, n_names=3, n_last=3, seed=2), phonebook(5, digits=4, n_names=3, n_last=3, seed=2)


def source(database, **options):
    return FactSource(database, Sentences(Given(database.fingerprint), **options))


def said(facts, tokens):
    return " ".join(facts.words[token] for token in np.asarray(tokens))


# -------------------------------------------------------------------- facts


def test_a_record_of_a_phone_book_is_a_name_and_its_digits():
    facts = source(BOOK, templates=0)
    tokens, slots = facts.records(facts.arrays(), jnp.arange(5), jax.random.key(0))
    for person, name in enumerate(BOOK.keys):
        digits = [BOOK.fiber(name, query)[0] for query in BOOK.queries]
        assert said(facts, tokens[person]) == " ".join(["<blank>", name, *digits])
    assert slots.tolist() == [[4, 5, 6, 7]] * 5
    assert facts.length == tokens.shape[1] == 8


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_biography_has_a_sentence_of_each_attribute_in_one_of_its_templates(shuffled):
    facts = source(PEOPLE, templates=5, shuffled=shuffled)
    tokens, slots = facts.records(facts.arrays(), jnp.arange(6), jax.random.key(1))
    orders, chosen = set(), set()
    for person, name in enumerate(PEOPLE.keys):
        words = said(facts, tokens[person]).split()
        assert words[:4] == ["<blank>", *name.split()]
        sentences = [" ".join(words[at : at + 6]) for at in range(4, 46, 6)]
        expected = {
            template.replace(SLOT, PEOPLE.fiber(name, query)[0]): (query, at)
            for query in PEOPLE.queries
            for at, template in enumerate(TEMPLATES[query])
        }
        found = [expected[sentence] for sentence in sentences]  # fails if no template says this
        assert {query for query, _ in found} == set(PEOPLE.queries)
        orders.add(tuple(query for query, _ in found))
        chosen |= {at for _, at in found}
        assert [words[slot] for slot in slots[person]] == [PEOPLE.fiber(name, query)[0] for query in PEOPLE.queries]
    assert (len(orders) > 1) == shuffled
    assert chosen == set(range(5))


def test_templates_are_equally_long_and_tell_the_attribute():
    everything = [sentence for sentences in TEMPLATES.values() for sentence in sentences]
    assert {(len(one.split()), one.split().count(SLOT), one.split()[-1]) for one in everything} == {(6, 1, ".")}
    assert len(set(everything)) == len(everything)


def test_other_databases_are_said_by_the_name_of_the_query():
    cities = Database.from_facts([("New York", "country", "USA"), ("Lima", "country", "Peru")])
    facts = source(cities)
    tokens, _ = facts.records(facts.arrays(), jnp.arange(2), jax.random.key(0))
    assert sorted(said(facts, row) for row in tokens) == [
        "<blank> Lima country Peru .",
        "<blank> New York country USA .",
    ]


def test_sampled_sequences_are_records_of_several_people():
    facts = source(BOOK, templates=0, people=3)
    data = facts.arrays()
    batch = facts.sample(data, jax.random.key(3), 10)
    every = {tuple(row) for row in np.asarray(facts.records(data, jnp.arange(5), jax.random.key(0))[0]).tolist()}
    assert {tuple(row) for row in np.asarray(batch.tokens).reshape(30, 8).tolist()} == every
    assert batch.weights.shape == (10, 23)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: source(BOOK, templates=2), "there are 1 templates for each of these queries; got templates 2"),
        (lambda: source(PEOPLE, templates=6), "there are 5 templates"),
        (lambda: source(Database.from_facts([("a", "p", "x"), ("b", "q", "y")])), "one value for every query"),
        (lambda: source(BOOK, templates=0, shuffled=True), "values alone cannot be shuffled"),
        (lambda: source(BOOK, recall_fraction=0.5), "recall and recall_fraction must be given together"),
        (lambda: source(BOOK, recall=InContextRecall()), "recall and recall_fraction must be given together"),
        (lambda: source(BOOK, recall=InContextRecall(), recall_fraction=1.0), "must leave a part of each batch"),
        (lambda: InContextRecall(pairs=()), "at least one"),
        (lambda: InContextRecall(pairs=(65,)), "n_keys must be at least the number of pairs, 65; got 64"),
        (lambda: InContextRecall(length=10), "length"),
        (lambda: TextFile.of(EXCERPT, n_tokens=256), "n_tokens"),
        (lambda: TextFile.of(EXCERPT, held_out=1.0), "held_out must be a fraction"),
    ],
)
def test_impossible_data_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# -------------------------------------------------------------------- in-context recall


def test_mqar_asks_for_every_key_once_after_its_pair():
    recall = InContextSource(InContextRecall(pairs=(1, 3, 5), n_keys=7, n_values=4, length=31), first_token=10)
    batch = jax.jit(recall.sample, static_argnums=2)(recall.arrays(), jax.random.key(0), 40)
    numbers = set()
    for tokens, weights in zip(np.asarray(batch.tokens), np.asarray(batch.weights), strict=True):
        assert len(tokens) == 30
        pairs = {key: value for key, value in tokens[:10].reshape(5, 2).tolist() if key != BLANK}
        assert all(10 <= key < 17 and 17 <= value < 21 for key, value in pairs.items())
        asked = [(tokens[at], tokens[at + 1]) for at in np.flatnonzero(weights)]
        assert dict(asked) == pairs
        assert len(asked) == len(pairs)
        assert np.flatnonzero(weights).min() >= 10
        assert (tokens[10:] != BLANK).sum() == 2 * len(pairs)
        numbers.add(len(pairs))
    assert numbers == {1, 3, 5}
    places = {tuple(np.flatnonzero(row)) for row in np.asarray(batch.weights)}
    assert len(places) > 20  # gaps are drawn


def test_induction_repeats_different_tokens():
    recall = InContextSource(InContextRecall("induction", pairs=(2, 4), n_keys=6))
    batch = jax.jit(recall.sample, static_argnums=2)(recall.arrays(), jax.random.key(0), 20)
    numbers = set()
    for tokens, weights in zip(np.asarray(batch.tokens), np.asarray(batch.weights), strict=True):
        n = int((tokens != BLANK).sum()) // 2
        assert tokens[:n].tolist() == tokens[n : 2 * n].tolist()
        assert len(set(tokens[:n].tolist())) == n
        assert (np.flatnonzero(weights) + 1).tolist() == list(range(n + 1, 2 * n))
        numbers.add(n)
    assert numbers == {2, 4}


# -------------------------------------------------------------------- text


def test_a_text_survives_its_tokeniser_and_the_end_is_held_out():
    pytest.importorskip("tokenizers")
    spec, text = TextFile.of(EXCERPT, n_tokens=300, length=16, held_out=0.2), EXCERPT.read_text(encoding="utf-8")
    found = spec.build()
    cut = round(len(text) * 0.8)
    assert found.decoded(found.training) == text[:cut]
    assert found.decoded(found.held_out) == text[cut:]
    assert found.token_bytes[found.held_out].sum() == len(text[cut:].encode())
    assert max(found.training.max(), found.held_out.max()) < 300
    assert tokenised(spec).fingerprint == found.fingerprint
    assert from_plain(TextFile, to_plain(spec)) == spec
    windows = TextSource(found, first_token=5)
    data = windows.arrays()
    batch = np.asarray(windows.sample(data, jax.random.key(0), 50).tokens) - 5
    inside = found.training.tolist()
    assert all(row.tolist() in [inside[at : at + 16] for at in range(len(inside) - 15)] for row in batch)
    predicted = [found.decoded(window[1:] - 5) for window in np.asarray(data["held_out"])]
    assert data["bytes"] == sum(len(part.encode()) for part in predicted)


def test_what_is_no_corpus_says_so(tmp_path):
    pytest.importorskip("tokenizers")
    path = tmp_path / "corpus.txt"
    with pytest.raises(InputError, match=r"corpus\.txt"):
        TextFile.of(path)
    path.write_text("too short " * 30)
    with pytest.raises(InputError, match=r"the text has only 2\d\d tokens; n_tokens must be at most that, got 1,024"):
        TextFile.of(path).build()
    with pytest.raises(InputError, match=r"the held-out part has .* too few for a sequence of 64"):
        TextFile.of(path, n_tokens=258).build()
    spec = TextFile.of(path)
    path.write_text("something else")
    with pytest.raises(InputError, match="the text has changed: expected SHA-256"):
        spec.build()
    path.write_bytes(b"abc \xff def")
    with pytest.raises(InputError, match="must be UTF-8 text; byte 4 is not"):
        TextFile.of(path).build()
    path.write_text("one <end> two")
    with pytest.raises(InputError, match="contains <end>"):
        TextFile.of(path).build()
