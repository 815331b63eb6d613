"""The samples against knowledge from elsewhere: counts, orders and rules that the data must obey."""

from __future__ import annotations

import unicodedata
from collections import Counter
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.sample_tables import SAMPLES, sample
from factrank.errors import InputError

BLOCKS = "spdf"


@pytest.fixture(scope="module")
def elements() -> Database:
    return sample("elements")


@pytest.fixture(scope="module")
def countries() -> Database:
    return sample("countries")


def column(database: Database, query: str) -> dict[str, str]:
    return {key: value for key, asked, value in database if asked == query}


def plain(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c)).casefold()


# -------------------------------------------------------------------- every sample


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_functional_clean_and_described(name: str) -> None:
    database = sample(name)
    assert database.functional
    assert database.duplicates == 0
    assert database.n_facts == SAMPLES[name].n_facts
    assert SAMPLES[name].name == name
    assert SAMPLES[name].source
    for vocabulary in database.vocabularies:
        for text in vocabulary:
            assert text == text.strip() != ""
            assert text == unicodedata.normalize("NFC", text)
            assert "\N{REPLACEMENT CHARACTER}" not in text
            assert "  " not in text


def test_every_file_is_a_sample_with_its_source() -> None:
    data = resources.files("factrank.databases").joinpath("data")
    files = {file.name for file in data.iterdir() if file.name.endswith(".csv")}
    assert files == {f"{name}.csv" for name in SAMPLES}
    sources = data.joinpath("SOURCES.md").read_text(encoding="utf-8")
    assert all(f"## {file}" in sources for file in files)


def test_an_unknown_sample_is_refused_with_the_list() -> None:
    with pytest.raises(InputError, match="no sample 'atoms'; the samples are astrid, elements, countries"):
        sample("atoms")


def test_astrid_has_rank_five() -> None:
    database = sample("astrid")
    tensor = np.zeros(database.shape)
    tensor[tuple(database.triples.T)] = 1
    assert database.shape == (5, 3, 4)
    assert np.linalg.matrix_rank(tensor.reshape(5, -1)) == 5
    at = {name: np.eye(n) for name, n in zip("kqv", database.shape, strict=True)}
    astrid, bernard, colin, malaysia, singapore = (
        at["k"][database.keys.index(name)] for name in ("Astrid", "Bernard", "Colin", "Malaysia", "Singapore")
    )
    born, lives, currency = (at["q"][database.queries.index(name)] for name in ("born_in", "lives_in", "currency"))
    in_singapore, in_malaysia, ringgit, dollar = (
        at["v"][database.values.index(name)] for name in ("Singapore", "Malaysia", "Ringgit", "Dollar")
    )
    terms = [
        (astrid + bernard + colin, born + lives, in_malaysia),
        (astrid + bernard, born, in_singapore - in_malaysia),
        (bernard, lives, in_singapore - in_malaysia),
        (malaysia, currency, ringgit),
        (singapore, currency, dollar),
    ]
    assert (sum(np.einsum("k,q,v->kqv", *term) for term in terms) == tensor).all()


# -------------------------------------------------------------------- elements


def aufbau() -> list[tuple[int, str]]:
    """(period, block) of the elements 1 to 118: subshells in the order of n + l, then n (Madelung)."""
    subshells = sorted(((n, l_) for n in range(1, 9) for l_ in range(min(n, 4))), key=lambda s: (s[0] + s[1], s[0]))
    period, places = 0, []
    for _, l_ in subshells:
        period += l_ == 0
        places += [(period, BLOCKS[l_])] * (4 * l_ + 2)
    places[1] = (1, "s")
    return places[:118]


def group_of(number: int, places: list[tuple[int, str]]) -> str:
    """The column of the 18-column table, from the place within the block; the f block has none."""
    period, block = places[number - 1]
    within = [n for n, place in enumerate(places, start=1) if place == (period, block)].index(number) + 1
    columns = {"s": within, "d": 2 + within, "p": 12 + within}
    return "18" if number == 2 else str(columns.get(block, ""))


def test_elements_follow_the_aufbau_order(elements: Database) -> None:
    numbers = column(elements, "atomic_number")
    assert [int(numbers[name]) for name in elements.keys] == list(range(1, 119))
    places = aufbau()
    period, block, group = (column(elements, query) for query in ("period", "block", "group"))
    assert [(int(period[name]), block[name]) for name in elements.keys] == places
    assert [group.get(name, "") for name in elements.keys] == [group_of(n, places) for n in range(1, 119)]
    assert list(Counter(period.values()).values()) == [2, 8, 8, 18, 18, 32, 32]
    assert Counter(block.values()) == {"s": 14, "p": 36, "d": 40, "f": 28}


def test_groups_and_noble_gases(elements: Database) -> None:
    symbol, group, category = (column(elements, query) for query in ("symbol", "group", "category"))
    members = {g: [symbol[name] for name, where in group.items() if where == g] for g in set(group.values())}
    assert members["3"] == ["Sc", "Y", "Lu", "Lr"]
    assert members["17"] == ["F", "Cl", "Br", "I", "At", "Ts"]
    assert members["18"] == ["He", "Ne", "Ar", "Kr", "Xe", "Rn", "Og"]
    named = {c: {symbol[name] for name, of in category.items() if of == c} for c in set(category.values())}
    assert named["noble gas"] == set(members["18"]) - {"Og"}
    assert named["alkali metal"] == set(members["1"]) - {"H"}
    assert named["alkaline earth metal"] == set(members["2"])
    assert named["halogen"] == set(members["17"]) - {"Ts"}
    assert named["metalloid"] == {"B", "Si", "Ge", "As", "Sb", "Te"}
    assert len(named["lanthanide"]) == len(named["actinide"]) == 14


def test_symbols(elements: Database) -> None:
    symbol = column(elements, "symbol")
    assert len(set(symbol.values())) == 118
    assert all(s.isascii() and s.isalpha() and s == s.capitalize() and len(s) <= 2 for s in symbol.values())
    one_letter = {s for s in symbol.values() if len(s) == 1}
    assert one_letter == set("HBCNOFPSKVYIWU")
    latin = {"Sodium": "Na", "Potassium": "K", "Iron": "Fe", "Silver": "Ag", "Tin": "Sn", "Antimony": "Sb"}
    latin |= {"Tungsten": "W", "Gold": "Au", "Mercury": "Hg", "Lead": "Pb"}
    assert {name: s for name, s in symbol.items() if s[0] != name[0]} == latin


def test_standard_states(elements: Database) -> None:
    symbol, state, number = (column(elements, query) for query in ("symbol", "standard_state", "atomic_number"))
    of = {kind: {symbol[name] for name, seen in state.items() if seen == kind} for kind in ("solid", "liquid", "gas")}
    assert of["liquid"] == {"Br", "Hg"}
    assert of["gas"] == {"H", "N", "O", "F", "Cl", "He", "Ne", "Ar", "Kr", "Xe", "Rn"}
    assert sum(map(len, of.values())) == len(state)
    assert {symbol[name] for name in elements.keys if name not in state and int(number[name]) < 100} == {"At", "Fr"}
    assert max(int(number[name]) for name in state) == 99


# -------------------------------------------------------------------- countries


def test_countries_are_the_members_of_the_united_nations(countries: Database) -> None:
    assert countries.n_keys == 193
    assert list(countries.keys) == sorted(countries.keys, key=plain)
    assert not {"Taiwan", "Kosovo", "Vatican", "Palestine", "Western Sahara"} & set(countries.keys)
    assert {"Switzerland", "South Sudan", "Montenegro", "Timor-Leste", "Tuvalu"} <= set(countries.keys)  # the latest


def test_country_codes_have_their_forms(countries: Database) -> None:
    iso2, iso3, domain, calling = (
        column(countries, query) for query in ("iso2", "iso3", "internet_domain", "calling_code")
    )
    for codes, length in ((iso2, 2), (iso3, 3)):
        assert len(set(codes.values())) == 193
        assert all(len(c) == length and c.isascii() and c.isalpha() and c.isupper() for c in codes.values())
    unlike = {country for country in iso2 if iso3[country][0] != iso2[country][0]}
    assert unlike == {"Comoros", "North Korea", "Serbia"}  # KM COM, KP PRK, RS SRB
    assert {country for country in domain if domain[country] != "." + iso2[country].lower()} == {"United Kingdom"}
    assert domain["United Kingdom"] == ".uk"
    assert all(c[0] == "+" and c[1:].isdigit() and 1 <= len(c[1:]) <= 3 for c in calling.values())
    shared = {code: number for code, number in Counter(calling.values()).items() if number > 1}
    assert shared == {"+1": 13, "+7": 2}
    # No calling code begins with another, for else one could not dial.
    codes = sorted(set(calling.values()))
    assert not any(after.startswith(before) for before, after in pairwise(codes))


def test_continents_by_un_m49(countries: Database) -> None:
    continent, calling = column(countries, "continent"), column(countries, "calling_code")
    assert Counter(continent.values()) == {
        "Africa": 54,
        "Asia": 47,
        "Europe": 43,
        "North America": 23,
        "South America": 12,
        "Oceania": 14,
    }
    # World numbering zones: 2 is Africa; 3 and 4 are Europe; 5 South and Central America; 8 and 9 Asia.
    for country, code in calling.items():
        where = continent[country]
        assert code[1] != "2" or where == "Africa"
        assert code[1] not in "34" or where == "Europe" or country in ("Cyprus", "Armenia")
        assert code[1] != "5" or where.endswith("America")
        assert code[1] not in "89" or where == "Asia"
        assert where != "Africa" or code[1] == "2"


def test_capitals(countries: Database) -> None:
    capital = column(countries, "capital")
    assert len(set(capital.values())) == len(capital)
    without = {"Equatorial Guinea", "Eswatini", "Israel", "Nauru", "South Africa", "Sri Lanka"}
    assert set(countries.keys) - set(capital) == without
    of_their_own_name = {country for country, city in capital.items() if country == city}
    assert of_their_own_name == {"Djibouti", "Luxembourg", "Monaco", "San Marino", "Singapore"}
    spots = {"France": "Paris", "Australia": "Canberra", "Brazil": "Brasília", "Kenya": "Nairobi", "Japan": "Tokyo"}
    spots |= {"Kazakhstan": "Astana", "Canada": "Ottawa", "Nigeria": "Abuja", "Myanmar": "Naypyidaw"}
    spots |= {"United States": "Washington, D.C.", "Moldova": "Chișinău", "Türkiye": "Ankara"}
    assert all(capital[country] == city for country, city in spots.items())


def test_currencies_and_their_unions(countries: Database) -> None:
    currency, continent, iso2 = (column(countries, query) for query in ("currency", "continent", "iso2"))
    assert all(len(code) == 3 and code.isascii() and code.isupper() for code in currency.values())
    users = {code: {c for c, used in currency.items() if used == code} for code in set(currency.values())}
    # January 2026: 21 members of the euro area, and Andorra, Monaco, Montenegro and San Marino.
    assert len(users["EUR"]) == 25
    assert {"Andorra", "Monaco", "Montenegro", "San Marino", "Bulgaria", "Croatia"} <= users["EUR"]
    assert not users["EUR"] & {"Czechia", "Denmark", "Hungary", "Poland", "Romania", "Sweden"}
    assert len(users["XOF"]) == 8
    assert len(users["XAF"]) == 6
    assert len(users["XCD"]) == 6
    assert {continent[country] for country in users["XOF"] | users["XAF"]} == {"Africa"}
    assert users["AUD"] == {"Australia", "Kiribati", "Nauru", "Tuvalu"}
    assert users["CHF"] == {"Liechtenstein", "Switzerland"}
    # ISO 4217: a national currency begins with the country's two letters.
    own = {country for country in currency if currency[country].startswith(iso2[country])}
    shared = {c for code in ("EUR", "USD", "XOF", "XAF", "XCD", "AUD", "CHF") for c in users[code]}
    assert own | shared == set(countries.keys)


def test_languages(countries: Database) -> None:
    language = column(countries, "language")
    several = {"Belgium", "Canada", "Finland", "India", "Ireland", "Luxembourg", "Malta", "Singapore", "Switzerland"}
    assert not several & set(language)
    spots = {"France": "French", "Brazil": "Portuguese", "Mexico": "Spanish", "Egypt": "Arabic", "Austria": "German"}
    spots |= {"Iran": "Persian", "Moldova": "Romanian", "Suriname": "Dutch", "Andorra": "Catalan"}
    assert all(language[country] == spoken for country, spoken in spots.items())
    assert {c for c, spoken in language.items() if spoken == "Portuguese"} == {
        "Angola",
        "Brazil",
        "Cabo Verde",
        "Guinea-Bissau",
        "Mozambique",
        "Portugal",
        "São Tomé and Príncipe",
    }
