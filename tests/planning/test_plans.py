"""Plans: proved, trained and excluded sizes, each from its own source."""

import json
import subprocess
import sys
from itertools import pairwise, product
from math import ceil, comb, log2

import numpy as np
import pytest

from factrank import Database, LayerShape, construct, sample
from factrank.databases.generators import generate
from factrank.errors import InputError
from factrank.families.attention import layer_rank_bounds
from factrank.families.attention.forms import CONSTRUCTIONS
from factrank.planning import TableSizes, exclusion, plan, smallest
from factrank.planning import validate as validate_plan
from factrank.planning.atlas import trained_recalls
from factrank.planning.exclusions import layer_bits, least_parameters, row_bits
from factrank.planning.proved_sizes import proved_layers
from factrank.planning.trained_sizes import (
    NARROWEST,
    best_within,
    beyond_atlas,
    described,
    expected_recall,
    needed_parameters,
    planned_shape,
)
from factrank.planning.validation import smaller
from factrank.tensors.bounds import typical_effective_rank

SIZES = {"n_facts": 400, "n_keys": 40, "n_queries": 10, "n_values": 40}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("precision", ["bfloat16", "float32", "float64"])
def test_proved_sizes_are_those_of_the_closed_forms(seed, precision):
    rng = np.random.default_rng(seed)
    n_keys, n_queries, n_values = (int(rng.integers(*ends)) for ends in ((20, 60), (1, 9), (2, 19)))
    facts = generate("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, seed=seed).compact()
    proved = [one for one in proved_layers(TableSizes.of(facts)) if one.precision == precision]
    assert {"parabola", "digits", "binary"} <= {one.form for one in proved}
    for one in proved:
        form = CONSTRUCTIONS[one.form]
        assert form.refusal(facts, precision) is None
        assert form.shape(facts, precision) == one.shape
        assert one.parameters == one.shape.parameters(*facts.shape)


def test_partial_tables_need_no_more_than_is_proved():
    facts = generate("zipf", n_keys=30, n_queries=6, n_values=12, n_facts=40, seed=1).compact()
    best = plan(facts).proved[0]
    built = construct(facts, precision=best.precision, only=[best.form], budget=0.0)
    assert built.certified
    assert built.spec.parameters(*facts.shape) <= best.parameters


def test_forms_that_a_precision_refuses_are_not_planned():
    many = TableSizes.given({"n_facts": 10**6, "n_keys": 10**6, "n_queries": 1, "n_values": 10**6})
    forms = {(one.form, one.precision) for one in proved_layers(many)}
    assert ("parabola", "bfloat16") not in forms
    assert ("circle", "float32") not in forms
    assert ("binary", "bfloat16") in forms


def test_a_stream_of_width_one_is_excluded_and_fails():
    facts = generate("uniform", n_keys=6, n_queries=2, n_values=4, seed=0)
    table, shape = TableSizes.of(facts), LayerShape(1, 8, 2, 2)
    assert shape.parameters(*table.shape) > least_parameters(table, "float32")
    assert exclusion(table, shape, "float32").certain
    assert max(trained_recalls(facts, [shape], range(3))[0]) < 1


def test_a_key_has_few_rows_in_a_narrow_stream():
    """The bound on the number of rows, against the rows that random embeddings of keys reach."""
    table, shape = (
        TableSizes.given({"n_facts": 400, "n_keys": 50, "n_queries": 8, "n_values": 3}),
        LayerShape(2, 1, 1, 1),
    )
    rng = np.random.default_rng(0)
    queries, unembedding, x = rng.normal(size=(8, 2)), rng.normal(size=(2, 3)), 5 * rng.normal(size=(200_000, 2))
    wq, wk, wv, wo = (rng.normal(size=size) for size in ((2, 1), (2, 1), (2, 1), (1, 2)))
    rows = []
    for q in queries:
        weight = 1 / (1 + np.exp(-((x - q) @ wk) @ (q @ wq)))
        rows.append(np.argmax((q + (q + weight[:, None] * (x - q)) @ wv @ wo) @ unembedding, axis=1))
    found = len(np.unique(np.array(rows), axis=1).T)
    assert found > 1
    assert np.log2(found) < row_bits(table, shape)


def test_counting_rows_excludes_layers_above_the_floor():
    table, shape = (
        TableSizes.given({"n_facts": 3200, "n_keys": 80, "n_queries": 40, "n_values": 4}),
        LayerShape(2, 1, 1, 1),
    )
    assert shape.parameters(*table.shape) > least_parameters(table, "float32")
    assert layer_bits(table, shape, "float32") < 6400 - 20
    assert "rows" in exclusion(table, shape, "float32").reason
    assert exclusion(table, LayerShape(8, 1, 1, 1), "float32") is None


def test_ranks_exclude_no_layer_of_width_two_or_more():
    """No table has a larger effective rank than min(K, Q) + 1 (the parabola), and every such layer may reach that."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        n_keys, n_queries, n_values = (int(2 ** rng.uniform(1, 9)) for _ in range(3))
        shape = LayerShape(*(int(rng.integers(low, 6)) for low in (2, 1, 1, 1)))
        least = min(n_keys, n_queries) + 1
        assert layer_rank_bounds(shape, n_keys, n_queries, n_values).upper.value >= least
        assert typical_effective_rank(n_keys, n_queries, n_values, n_keys * n_queries) <= least


def test_a_table_may_have_the_largest_sizes():
    found = plan(n_facts=10**12, n_keys=10**12, n_queries=1, n_values=1000, lora=4, d_model=8)
    assert found.proved
    assert typical_effective_rank(10**12, 10**6, 10**12, 10**18) >= 1


def test_updates_fit_no_more_facts_than_there_are_pairs():
    sizes = {"n_facts": 12, "n_keys": 6, "n_queries": 2, "n_values": 3}
    update = plan(**sizes, d_model=64, heads=8, lora=64).update
    assert update.solved_facts == 12
    assert update.facts <= 12
    many = {"n_facts": 5000, "n_keys": 5000, "n_queries": 1, "n_values": 40}
    assert "n_keys 5,000" in plan(**many, d_model=64, lora=32).update.beyond
    assert plan(**SIZES, d_model=16, heads=4, lora=8).update.beyond == ""


def test_a_plan_from_sizes_loads_neither_jax_nor_scipy_nor_charts():
    code = (
        "import sys; from factrank.planning import plan; from factrank.report import plan_tables; "
        "plan_tables('x', plan(n_facts=400, n_keys=40, n_queries=10, n_values=40, lora=2, d_model=8)); "
        "sys.exit(any(name in sys.modules for name in ('jax', 'scipy', 'altair', 'numba')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_two_values_are_enough_for_width_one():
    facts = generate("uniform", n_keys=6, n_queries=2, n_values=2, seed=0)
    assert exclusion(TableSizes.of(facts), LayerShape(1, 8, 2, 2), "float32") is None


def test_the_information_floor_counts_layers_against_tables():
    table = TableSizes.given(SIZES)
    least = least_parameters(table, "float32")
    assert (least - 1) * 32 < 400 * np.log2(40) - 20 <= least * 32
    assert least_parameters(table, "bfloat16") >= 2 * least - 1
    floors = [least_parameters(table, "float32", recall) for recall in (0.3, 0.5, 0.9, 1.0)]
    assert floors == sorted(floors)


def test_wider_layers_recall_more_and_higher_recalls_need_more():
    table = TableSizes.given(SIZES)
    recalls = [described(table, planned_shape(width, 8), 1.0).recall for width in (2, 4, 8, 16, 32)]
    assert all(a < b for a, b in pairwise(recalls))
    needed = [plan(**SIZES, recall=recall, heads=8).best.parameters for recall in (0.9, 0.95, 0.99, 1.0)]
    assert needed == sorted(needed)


def test_a_limit_is_kept_and_a_width_is_taken():
    within = plan(**SIZES, max_parameters=1500)
    assert all(one.parameters <= 1500 for one in (*within.trained, *within.proved))
    recalls = [one.recall for one in within.trained]
    assert recalls == sorted(recalls, reverse=True)
    assert {one.shape.d_model for one in plan(**SIZES, d_model=12).trained} == {12}
    both = plan(**SIZES, d_model=12, max_parameters=1900)
    assert 0 < len(both.trained) < 5
    assert all(one.parameters <= 1900 for one in both.trained)


def test_the_best_layer_under_a_limit_is_not_simply_the_largest():
    table, most = TableSizes.given(SIZES), 10**9
    for heads in (2, 8):
        best = best_within(table, heads, most)
        recall = round(expected_recall(table, best), 3)
        assert recall == 1.0
        assert round(expected_recall(table, planned_shape(best.d_model - 1, heads)), 3) < recall
    found = plan(**SIZES, max_parameters=most)
    assert found.best.parameters == min(one.parameters for one in found.trained if round(one.recall, 3) == 1.0)


def test_sizes_beyond_the_atlas_say_so_and_have_no_interval():
    best = plan(n_facts=2e6, n_keys=2e5, n_queries=10, n_values=5000).best
    assert "n_keys 200,000" in best.beyond
    assert best.recall_low is None and best.needed is None  # noqa: PT018
    inside = plan(**SIZES).best
    assert inside.beyond == ""
    assert inside.recall_low <= inside.recall_high
    assert inside.needed[0] <= inside.needed[1] <= inside.parameters


def test_sizes_that_the_atlas_never_had_together_are_beyond_it():
    """Every size alone is within the atlas, but no layer has many keys and many queries, or this many products."""
    table = TableSizes.given({"n_facts": 48_000, "n_keys": 800, "n_queries": 60, "n_values": 500})
    shape = planned_shape(100, 16)
    assert "products per epoch" in beyond_atlas(table, shape)
    assert described(table, shape, 1.0).recall_low is None
    tiny = TableSizes.given({"n_facts": 40, "n_keys": 10, "n_queries": 4, "n_values": 10})
    assert "bits per parameter" in beyond_atlas(tiny, planned_shape(64, 16))
    assert beyond_atlas(tiny, planned_shape(4, 4)) == ""


def test_no_layer_needs_fewer_parameters_than_the_narrowest_has():
    for n_values in (2, 3, 5, 9, 20):
        for n_heads, n_keys in product((2, 4, 8, 16), (15, 80)):
            table = TableSizes.given({"n_facts": 4 * n_keys, "n_keys": n_keys, "n_queries": 4, "n_values": n_values})
            least = planned_shape(NARROWEST, n_heads).parameters(*table.shape)
            needed = needed_parameters(table, n_heads, 0.9)
            assert needed is None or least <= needed[0] <= needed[1] <= needed[2]


def test_sizes_that_no_search_had_have_no_needed_parameters():
    """Searches began at widths of 6: a formula that is extrapolated to width 3 says nothing."""
    narrow = TableSizes.given({"n_facts": 110, "n_keys": 22, "n_queries": 5, "n_values": 35})
    assert needed_parameters(narrow, 8, 1.0) is None
    assert needed_parameters(TableSizes.given(SIZES), 8, 1.0) is not None
    one_query = TableSizes.given({"n_facts": 400, "n_keys": 400, "n_queries": 1, "n_values": 40})
    assert needed_parameters(one_query, 8, 1.0) is None


def test_intervals_contain_what_is_expected():
    table = TableSizes.given({"n_facts": 600, "n_keys": 60, "n_queries": 10, "n_values": 60})
    layers = [described(table, planned_shape(width, heads), 1.0) for width in range(3, 30) for heads in (1, 2, 8)]
    known = [one for one in layers if not one.beyond]
    assert len(known) > 40
    assert all(one.recall_low <= one.recall <= one.recall_high for one in known)


def test_tables_with_one_query_are_associations():
    table = TableSizes.given({"n_facts": 50, "n_keys": 50, "n_queries": 1, "n_values": 20})
    facts = generate("uniform", n_keys=50, n_queries=1, n_values=20, seed=0)
    assert table.kind == TableSizes.of(facts).kind == "associations"


def test_no_layer_of_the_front_is_beaten_by_another_of_its_source():
    front = plan(**SIZES).front
    sizes = [(one["source"], one["parameters"], one["n_heads"], one["d_model"]) for one in front]
    for one in sizes:
        others = [other for other in sizes if other[0] == one[0] and other != one]
        assert not any(all(a <= b for a, b in zip(other[1:], one[1:], strict=True)) for other in others)


def test_plans_are_plain_data():
    found = plan(sample("astrid"), recall=0.9, lora=2, d_model=4)
    assert json.loads(json.dumps(found.to_dict()))["table"]["n_facts"] == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_values": 0}, "n_values must be a whole number"),
        ({"n_keys": -3}, "n_keys must be a whole number"),
        ({"n_facts": 1e18}, "n_facts must be a whole number"),
        ({"n_facts": 2.5}, "n_facts must be a whole number"),
        ({"n_facts": float("nan")}, "n_facts must be a whole number"),
        ({"n_facts": 401}, "401 facts do not fit"),
        ({"n_values": 401}, "n_values is 401, but only 400 facts"),
        ({"n_values": None}, "n_values missing"),
        ({"recall": 0.0}, "recall is a fraction"),
        ({"recall": 1.01}, "recall is a fraction"),
        ({"d_model": 0}, "d_model must be a whole number from 1"),
        ({"d_model": 10**18}, "d_model must be a whole number from 1 to 1,048,576"),
        ({"heads": 10**18}, "heads must be a whole number from 1 to 4,096"),
        ({"heads": True}, "heads must be a whole number"),
        ({"max_parameters": 10**18}, "max_parameters must be a whole number"),
        ({"lora": 10**18, "d_model": 4}, "lora must be a whole number"),
        ({"n_values": 1}, "one value"),
        ({"lora": 5, "d_model": 4}, "at most rank 4; got 5"),
        ({"lora": 5}, "give its d_model"),
    ],
)
def test_senseless_sizes_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        plan(**{**SIZES, **given})


def test_tables_with_several_values_or_none_are_refused():
    several = Database.from_facts([("a", "q", "x"), ("a", "q", "y")], multi=True)
    with pytest.raises(InputError, match="several values"):
        plan(several)
    with pytest.raises(InputError, match="no facts"):
        plan(Database.from_facts([]))
    with pytest.raises(InputError, match="leave out n_keys"):
        plan(sample("astrid"), n_keys=3)


def test_both_ends_of_a_search_are_run():
    facts = generate("uniform", n_keys=8, n_queries=3, n_values=5, seed=0)
    seen = []
    found = smallest(facts, "d_model", seeds=1, on_probe=seen.append)
    assert found.found.met
    assert not found.too_small.met
    assert found.found.shape.d_model == found.too_small.shape.d_model + 1
    assert sorted(seen, key=lambda probe: probe.shape.d_model) == list(found.probes)


def test_a_search_that_no_size_meets_says_so():
    facts = generate("uniform", n_keys=20, n_queries=5, n_values=9, seed=0)
    found = smallest(facts, "d_vo", shape=LayerShape(2, 1, 1, 1), seeds=1, largest=2)
    assert found.found is None
    assert [probe.shape.d_vo for probe in found.probes] == [1, 2]


def trained_with(monkeypatch, recall):
    """Replace training, and return the list of what is trained."""
    seen = []

    def trained(table, shapes, seeds):
        seen.append((table, shapes[0]))
        return [[recall] * len(seeds)]

    monkeypatch.setattr("factrank.planning.validation.trained_recalls", trained)
    return seen


@pytest.mark.parametrize("limits", [{}, {"d_model": 12}, {"heads": 16}, {"max_parameters": 1200}])
def test_the_layer_that_was_planned_is_the_one_that_is_validated(monkeypatch, limits):
    seen = trained_with(monkeypatch, 0.5)
    wanted = plan(**SIZES, **limits)
    checked = validate_plan(wanted)
    assert checked.plan is wanted
    assert checked.layer is wanted.best
    assert seen[0][1] == wanted.best.shape
    assert seen[0][0].shape == wanted.table.shape
    assert checked.held == (wanted.best.recall_low <= 0.5)


def test_a_large_plan_is_validated_within_its_limits(monkeypatch):
    seen = trained_with(monkeypatch, 1.0)
    sizes = {"n_facts": 20_000, "n_keys": 2000, "n_queries": 10, "n_values": 200}
    wanted = plan(**sizes, heads=4, max_parameters=50_000)
    checked = validate_plan(wanted)
    assert checked.scaled
    assert checked.plan.limits.heads == seen[0][1].n_heads == 4
    assert checked.layer.parameters <= checked.plan.limits.max_parameters <= 5000
    assert not checked.plan.table.is_real
    assert checked.plan.table.shape == (200, 10, 20)


def test_a_large_table_is_validated_on_a_part_of_itself(monkeypatch):
    seen = trained_with(monkeypatch, 1.0)
    facts = generate("uniform", n_keys=400, n_queries=8, n_values=30, seed=0)
    checked = validate_plan(plan(facts), facts)
    assert checked.scaled
    assert checked.plan.table.is_real
    part = seen[0][0]
    assert len(part) == 2000
    assert set(part) <= set(facts)


@pytest.mark.parametrize(
    "sizes", [(2_000_000, 200_000, 10, 5000), (50_000, 1000, 100, 300), (30_000, 6, 6000, 600), (3000, 3000, 1, 700)]
)
def test_smaller_tables_keep_the_proportions(sizes):
    table = TableSizes.given(dict(zip(("n_facts", "n_keys", "n_queries", "n_values"), sizes, strict=True)))
    small = smaller(table, 2000)
    filled = table.n_facts / (table.n_keys * table.n_queries)
    assert small.n_facts == pytest.approx(2000, rel=0.02)
    assert small.n_facts / (small.n_keys * small.n_queries) == pytest.approx(filled, rel=0.02)
    many, few = max(table.shape[:2]), max(small.shape[:2])
    assert small.n_values / few == pytest.approx(table.n_values / many, rel=0.1)


def test_a_plan_is_validated_by_training():
    facts = generate("uniform", n_keys=12, n_queries=4, n_values=8, seed=0)
    checked = validate_plan(plan(facts, recall=0.9), facts, seeds=(0,))
    assert not checked.scaled
    assert checked.held == (checked.plan.best.recall_low <= checked.recalls[0] <= checked.plan.best.recall_high)


def test_a_table_of_facts_is_excluded_only_for_certain():
    """Counting excludes nearly all tables of a size: this one, all of whose answers are alike, may be another."""
    facts = Database.from_facts([(f"k{k}", f"q{q}", f"v{k % 30}") for k in range(60) for q in range(30)])
    real = TableSizes.of(facts)
    drawn = TableSizes.given({"n_facts": 1800, "n_keys": 60, "n_queries": 30, "n_values": 30})
    small = LayerShape(d_model=2, n_heads=1, d_qk=1, d_vo=1)
    assert real.shape == drawn.shape
    assert exclusion(drawn, small, "float32").certain is False
    assert exclusion(real, small, "float32") is None
    assert exclusion(real, LayerShape(1, 1, 1, 1), "float32").certain is True


def test_the_floor_of_a_part_of_the_facts_is_no_more_than_counting_allows():
    """A layer and a list of the m facts that it misses tell the table: log2 of all such lists, counted one by one."""
    table = TableSizes.given({"n_facts": 200, "n_keys": 20, "n_queries": 10, "n_values": 16})
    for recall in (0.99, 0.9, 0.6):
        missing = round((1 - recall) * 200)
        lists = sum(comb(200, m) for m in range(missing + 1)) * 16**missing
        assert 0 < least_parameters(table, "bfloat16", recall) <= ceil((200 * 4 - 20 - log2(lists)) / 16)


def test_queries_with_few_values_in_common_have_values_of_their_own():
    shared = [("k0", f"q{q}", f"v{q}") for q in range(4)] + [("k1", f"q{q}", "same") for q in range(4)]
    assert TableSizes.of(Database.from_facts(shared)).kind == "uniform"  # ranges of 8 values in all, of 5
    assert TableSizes.of(Database.from_facts([*shared[:6], *(("k2", f"q{q}", f"w{q}") for q in range(4))])).kind == (
        "disjoint"
    )
