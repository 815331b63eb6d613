"""Parabola: labels and what they are proved for, recall, exact margins, counts, the three codes of the query."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_proofs import prove
from fact_tables import SMALLEST, UNICODE, every_value, rounded, slow_margins, with_ranges
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms.building.circle_routing import compact_refusal, compact_routing
from factrank.families.attention.forms.building.parabola_labels import (
    Labels,
    label_choices,
    labels_for,
    stretched_sizes,
)
from factrank.families.attention.forms.building.query_routing import SATURATION
from factrank.families.attention.forms.construction import Construction, FormSearch
from factrank.families.attention.forms.parabola_layer import Parabola, packed
from factrank.families.attention.forms.registry import CONSTRUCTIONS
from factrank.nn.part_arrays import to_arrays
from factrank.nn.precision import SIGNIFICAND
from strategies import as_database, tensors

PRECISIONS = ("float64", "float32", "bfloat16")
CODES = ("own coordinates", "one-hot", "compact")


def built(database, precision="float32", code="own coordinates"):
    return Parabola(code).build(database, precision, FormSearch()).layer


# -------------------------------------------------------------------- labels


@pytest.mark.parametrize(("precision", "plain", "shifted"), [
    ("bfloat16", 19, 23), ("float32", 4729, 5793), ("float64", 109_588_317, 134_217_729),
])  # fmt: skip
def test_the_most_values_of_integer_labels(precision, plain, shifted):
    """The largest n for which the absolute values of all terms add up to at most 2^p; one more label is too large."""
    limit = 2 ** SIGNIFICAND[precision]
    for written in (0, 2):
        choices = label_choices(3, precision, written)
        for labels, factor in zip(choices[:2], (3, 2), strict=True):
            h = (labels.most - 1) // 2
            assert factor * h**2 + 2 * written * h <= limit < factor * (h + 1) ** 2 + 2 * written * (h + 1)
        if not written:
            assert [labels.most for labels in choices[:2]] == [plain, shifted]


@pytest.mark.parametrize(("kind", "factor"), [("integers", 3), ("shifted integers", 2)])
def test_sums_of_absolute_values_by_brute_force(kind, factor):
    """2|x_f x_v| + |s - x_v^2| over all pairs of labels, in bfloat16, for what is proved and for two labels more."""
    for labels in label_choices(3, "bfloat16"):
        if labels.kind == kind:
            for extra, fits in ((0, True), (2, False)):
                x = labels.of(np.arange(labels.most + extra), "bfloat16")
                shift = int(np.abs(x).max()) ** 2 if factor == 2 else labels.shift
                sizes = 2 * np.abs(np.outer(x, x)) + np.abs(shift - x**2)
                assert (sizes.max() <= 2**8) == fits


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_stretched_labels_are_apart_by_more_than_all_errors(precision):
    """Every pair, not only neighbours: gap^2 against 6 roundings of both logits; numbers of the precision."""
    sizes = stretched_sizes(precision)
    np.testing.assert_array_equal(rounded(sizes, precision), sizes)
    chosen = sizes if len(sizes) < 500 else sizes[np.r_[0:60, 560:620, len(sizes) - 60 : len(sizes)]]
    x = np.concatenate([-chosen[1:], chosen])
    fact, value = x[:, None], x[None, :]
    size = (np.abs(fact) + 2) * 2 * np.abs(value) + value**2
    errors = 6 * 2.0 ** -SIGNIFICAND[precision] * (size + np.diag(size)[:, None])
    np.fill_diagonal(errors, -1.0)
    assert ((value - fact) ** 2 > errors).all()


@given(st.integers(1, 20_000), st.sampled_from(PRECISIONS), st.sampled_from([0, 2]))
def test_labels_are_different_and_stay_as_more_are_added(n_values, precision, written):
    labels = labels_for(n_values, label_choices(5, precision, written))
    if labels is None:
        assert n_values > label_choices(5, precision, written)[-1].most
        return
    x = labels.of(np.arange(min(n_values + 1, labels.most)), precision)
    assert len(np.unique(x)) == len(x)
    np.testing.assert_array_equal(rounded(x, precision), x)
    np.testing.assert_array_equal(labels.biases(x), labels.shift - x**2)


# -------------------------------------------------------------------- layers


@pytest.mark.parametrize(("precision", "code"), list(zip(PRECISIONS, CODES, strict=True)))
def test_random_tables_are_certified_by_integers(precision, code):
    database = uniform(60, 7, 17, 300, seed=1)
    found = verify(built(database, precision, code), database)
    assert (found.certified, found.recalled, found.margin, found.proved_margin) == (True, 300, 1.0, 1.0)
    assert found.arithmetic == "exact integers"


@settings(max_examples=30)
@given(tensors(functional=True, empty=False), st.sampled_from(PRECISIONS), st.sampled_from(CODES))
def test_margins_are_squared_distances_of_labels(tensor, precision, code):
    database = as_database(tensor)
    layer = built(database, precision, code)
    used = np.unique(database.triples[:, 2])
    labels = np.arange(len(used))
    x = np.where(labels % 2, -1, 1) * ((labels + 1) // 2)
    own = x[np.searchsorted(used, database.triples[:, 2])]
    gaps = (x - own[:, None]) ** 2.0
    gaps[gaps == 0] = np.inf
    expected = np.minimum(gaps.min(axis=1), own**2 + 1.0 if len(used) < database.n_values else np.inf)
    np.testing.assert_allclose(slow_margins(layer, database), expected, rtol=0, atol=1e-9)
    assert layer.shape == Parabola(code).shape(database, precision)
    assert prove(layer, database).holds


@pytest.mark.parametrize("code", CODES)
def test_the_most_values_in_bfloat16(code):
    """Every label meets every other: 21 or 23 values by integers, 85 by stretched ones, one more is refused."""
    exact = 21 if code == "own coordinates" else 23
    for n_values, arithmetic in (
        (exact, "exact integers"),
        (exact + 1, "running error bound"),
        (85, "running error bound"),
    ):
        database = every_value(n_values)
        proof = prove(built(database, "bfloat16", code), database)
        assert proof.holds
        assert proof.arithmetic == arithmetic
    assert "86 values do not fit into bfloat16: at most 85 do" in Parabola(code).refusal(every_value(86), "bfloat16")


def test_the_most_values_are_recalled_by_the_forward_pass():
    database = every_value(85)
    found = verify(built(database, "bfloat16"), database)
    assert found.certified
    assert found.margin >= 1


def test_integers_beyond_the_limit_are_not_proved(monkeypatch):
    """21 values with integer labels are not proved any more; at 41 the layer's own forward pass is wrong."""
    monkeypatch.setattr(
        "factrank.families.attention.forms.parabola_layer.label_choices", lambda *_: (Labels("integers", 1, 99),)
    )
    for n_values, proved in ((19, True), (21, False)):
        database = every_value(n_values)
        assert prove(built(database, "bfloat16", "one-hot"), database).holds == proved
    database = every_value(41)
    assert verify(built(database, "bfloat16", "one-hot"), database).recalled < database.n_facts


@pytest.mark.parametrize(("n_values", "arithmetic"), [(5791, "exact integers"), (9000, "running error bound")])
def test_many_values_in_float32(n_values, arithmetic):
    database = every_value(n_values, n_queries=1)
    corners = np.concatenate([np.arange(0, n_values, 97), np.arange(n_values - 40, n_values)])
    few = database.select(keys=[database.keys[int(k)] for k in corners], compact=False)
    layer = built(database)
    proof = prove(layer, few)
    assert (proof.holds, proof.arithmetic) == (True, arithmetic)
    assert Parabola().refusal(every_value(5793, 1), "float64") is None


def test_more_values_than_labels_are_split_by_ranges():
    """12 ranges of 20 values, 240 in all: packed into groups of at most 85."""
    database = with_ranges(12, n_keys=40)
    layer = built(database, "bfloat16")
    assert layer.shape.d_model == 12 + 3
    assert layer.shape == Parabola().shape(database, "bfloat16")
    found = verify(layer, database)
    assert found.certified
    assert found.margin >= 1
    n_used = len(np.unique(database.triples[:, 2]))
    assert f"{n_used} values do not fit" in Parabola("compact").refusal(database, "bfloat16")


@given(st.lists(st.sets(st.integers(0, 15), min_size=1, max_size=8), min_size=1, max_size=8), st.integers(8, 12))
def test_packed_groups_hold_every_range(ranges, most):
    grouping = [([query], np.array(sorted(values))) for query, values in enumerate(ranges)]
    found = packed(grouping, most)
    assert sorted(query for queries, _ in found for query in queries) == list(range(len(ranges)))
    for queries, values in found:
        assert len(values) <= most
        assert set(values.tolist()) == set.union(*(ranges[query] for query in queries))


def test_counts():
    """K = 2000, Q = 12, V = 500: 1.60 parameters per fact with points on a circle, 1.39 with own coordinates."""
    database = uniform(2000, 12, 500, seed=0)
    sizes = {code: Parabola(code).shape(database, "float32") for code in CODES}
    assert [sizes[code].d_model for code in CODES] == [13, 24, 15]
    assert {(shape.n_heads, shape.d_qk, shape.d_vo) for shape in sizes.values()} == {(12, 1, 1)}
    K, Q, V = database.shape
    assert sizes["compact"].parameters(K, Q, V) == (K + Q + V) * (Q + 3) + 4 * Q * (Q + 3)
    per_fact = {code: shape.parameters(K, Q, V) / database.n_facts for code, shape in sizes.items()}
    assert [round(per_fact[code], 2) for code in CODES] == [1.39, 2.56, 1.6]
    assert round(np.log2(500) / per_fact["compact"], 1) == 5.6
    layer = built(uniform(1000, 12, 500, seed=0), code="compact")
    assert prove(layer, uniform(1000, 12, 500, seed=0)).margin == 1.0


@pytest.mark.parametrize("database", SMALLEST)
def test_smallest_tables(database):
    for precision in PRECISIONS:
        for code in CODES:
            margins = slow_margins(built(database, precision, code), database)
            assert margins.min() == pytest.approx(np.inf if database.n_values == 1 else 1.0)


def test_unicode_and_names_without_facts():
    assert verify(built(UNICODE), UNICODE).certified
    database = uniform(6, 5, 9, seed=0).select(keys=["k1", "k3"], queries=["q1", "q4"], compact=False)
    for code in CODES:
        layer = built(database, code=code)
        assert prove(layer, database).holds
        assert layer.shape == Parabola(code).shape(database, "float32")


@pytest.mark.parametrize("code", CODES)
def test_changing_a_fact_touches_one_number(code):
    database = every_value(5)
    changed = database.triples.copy()
    changed[7, 2] = (changed[7, 2] + 1) % 5
    before, after = (to_arrays(built(db, code=code)) for db in (database, Database(changed, *database.vocabularies)))
    differences = {name: int((before[name] != after[name]).sum()) for name in before}
    assert differences.pop("embedding") == 1
    assert not any(differences.values())


def test_a_perturbed_weight_breaks_the_proof():
    database = every_value(9)
    layer = built(database)
    unembedding = layer.unembedding.copy()
    unembedding[-1, 3] += 1.0
    assert not prove(replace(layer, unembedding=unembedding), database).holds


# -------------------------------------------------------------------- points on a circle


@pytest.mark.parametrize(("precision", "n_queries"), [("bfloat16", 9), ("float32", 2300), ("float64", 300)])
def test_compact_scores_saturate_where_they_are_not_refused(precision, n_queries):
    assert compact_refusal(n_queries, precision) is None
    tokens, w_q, w_k = compact_routing(np.arange(n_queries), 3, precision)
    dtype = np.float32 if precision != "float64" else np.float64
    tokens, w_q = (rounded(part, precision).astype(dtype) for part in (tokens, w_q[..., 0].T))
    scores = (tokens @ w_q) * -w_k[0, -1, 0]
    signed = np.where(np.eye(n_queries, dtype=bool), scores, -scores)
    assert signed.min() >= SATURATION[precision]


def test_compact_scores_degrade_with_many_queries():
    assert compact_refusal(1, "bfloat16") is None
    for precision, n_queries in (("bfloat16", 10), ("float32", 2700)):
        assert "not proved to saturate" in compact_refusal(n_queries, precision)
    database = uniform(2, 11, 3, seed=0)
    assert Parabola().refusal(database, "bfloat16") is None
    with pytest.raises(InputError, match="compact-parabola: the scores of 11 queries"):
        built(database, "bfloat16", "compact")


def test_refusals():
    several = Database.from_facts([("k", "q", "v"), ("k", "q", "w")], multi=True)
    empty = uniform(2, 2, 2, seed=0).select(keys=[], compact=False)
    for name in ("parabola", "compact-parabola", "one-hot-parabola"):
        form = CONSTRUCTIONS[name]
        assert isinstance(form, Construction)
        for database, reason in ((several, "several values"), (empty, "no facts")):
            with pytest.raises(InputError, match=f"{name}: .*{reason}"):
                form.build(database, "float32", FormSearch())
