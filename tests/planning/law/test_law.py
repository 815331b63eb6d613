"""The law: its formula, its fit, and the intervals around it."""

import numpy as np
import pytest

from factrank.planning.law import CapacityLaw, atlas_law, calibrate, fit_law
from factrank.planning.law.calibration import Bins, Calibration, shortest
from factrank.planning.law.fitted import AtlasLaw
from factrank.planning.law.known_sizes import KnownSizes
from factrank.planning.law.law import LAW_KINDS, zipf_entropy
from factrank.planning.law.needed import Searched, coverage, expected_size, fit_needed


def made_up_layers(n, seed=0):
    rng = np.random.default_rng(seed)
    names = ("bits", "parameters", "n_heads", "d_vo", "n_keys", "n_queries", "n_values")
    layers = {name: np.exp(rng.uniform(0.5, 6, n)) for name in names}
    return {**layers, "kind": rng.integers(len(LAW_KINDS), size=n), "epochs": np.exp(rng.uniform(6, 10, n))}


def test_a_law_is_found_again_from_what_it_predicts():
    law, layers = atlas_law().law, made_up_layers(1500)
    found = fit_law(layers, law.recall(layers))
    assert np.abs(found.recall(layers) - law.recall(layers)).max() < 1e-3


def test_recall_is_one_below_the_capacities_and_a_share_beyond():
    plain = dict.fromkeys(("size", "growth", "heads", "d_vo", "keys", "queries", "values", "head_growth"), 0.0)
    rest = {"per_parameter": 100.0, "per_head": 1e9, "sharpness": 8.0, "head_sharpness": 8.0}
    law = CapacityLaw({**plain, **rest}, dict.fromkeys(LAW_KINDS, (0.0, 0.0)))
    layers = made_up_layers(2) | {"bits": np.array([10.0, 1000.0])}
    assert law.recall(layers) == pytest.approx([1, 0.1], abs=1e-6)


def test_the_law_of_the_package_survives_its_file():
    known = atlas_law()
    again = AtlasLaw.from_plain(known.to_plain())
    layers = made_up_layers(50)
    assert np.array_equal(again.law.recall(layers), known.law.recall(layers))
    assert again == known


def test_intervals_hold_as_often_as_they_say():
    rng = np.random.default_rng(3)

    def drawn(n):
        predicted = rng.uniform(0.2, 1, n)
        return predicted, np.clip(predicted + rng.normal(0, 0.1 * predicted), 0, 1)

    bins = calibrate(*drawn(8000))
    predicted, recall = drawn(8000)
    place = bins.of(predicted)
    held = (recall >= np.array(bins.lower)[place]) & (recall <= np.array(bins.upper)[place])
    assert 0.88 < held.mean() < 0.92


def test_the_shortest_interval_has_its_share():
    ordered = np.sort(np.random.default_rng(0).normal(size=99))
    low, high = shortest(ordered, 0.9)
    assert ((ordered >= low) & (ordered <= high)).sum() == 90


def searches(n, seed=5):
    rng = np.random.default_rng(seed)
    ends = {"bits": (5, 8), "n_keys": (2, 4), "n_queries": (1, 3), "n_values": (1, 4)}
    layers = {name: np.exp(rng.uniform(*pair, n)) for name, pair in ends.items()}
    layers |= {
        "n_heads": rng.choice([2.0, 4.0, 8.0, 16.0], n),
        "kind": rng.integers(2, size=n),
        "epochs": np.full(n, 2000),
    }
    needed = np.exp(expected_size(atlas_law().law, layers, 0.9) + 0.3 - 0.1 * np.log(layers["n_heads"]))
    return layers, needed, rng


def test_needed_sizes_are_found_again():
    layers, needed, _ = searches(300)
    formula = fit_needed(atlas_law().law, Searched(layers, needed, needed), 0.9)
    low, middle, high = formula.parameters(atlas_law().law, layers)
    assert np.allclose(middle, needed, rtol=1e-6)
    assert ((low <= middle) & (middle <= high)).all()


def test_searches_without_an_answer_count_if_the_interval_denies_them():
    layers, needed, rng = searches(600)
    noisy, law = needed * np.exp(rng.normal(0, 0.2, 600)), atlas_law().law
    tenth, half = noisy < np.quantile(noisy, 0.1), noisy > np.quantile(noisy, 0.5)
    found = Searched(layers, np.where(tenth, 0, np.where(half, 0.5 * noisy, noisy)), np.where(half, np.inf, noisy))
    seen = coverage(law, fit_needed(law, found, 0.9), found)
    assert (seen.searches, seen.answered) == (600, int((~tenth & ~half).sum()))
    assert 0.85 < seen.allowed / seen.searches <= 1
    denied = Searched(layers, 100 * noisy, np.full(600, np.inf))
    assert coverage(law, fit_needed(law, found, 0.9), denied).allowed == 0


def test_an_interval_contains_its_prediction():
    calibration = Calibration({"all": Bins(edges=(0.5,), lower=(0.2, 1.0), upper=(0.4, 1.0), full=(0.0, 0.95))})
    low, high = calibration.interval("all", np.array([0.1, 0.45, 0.99]))
    assert low.tolist() == [0.1, 0.2, 0.99]
    assert high.tolist() == [0.4, 0.45, 1.0]
    inside = np.array([1.0, 1.0, 1.0])
    smoothed = calibration.smoothed("all", np.array([0.1, 0.45, 0.99]), inside)
    assert smoothed == pytest.approx([1, 1, 0.9 / 0.95])


def test_known_sizes_name_the_quantity_that_is_beyond():
    rng = np.random.default_rng(0)
    keys = rng.integers(4, 100, 4000)
    known = KnownSizes.of({"keys": keys, "queries": rng.integers(1, 1 + 400 // keys)})
    assert KnownSizes.from_plain(known.to_plain()) == known
    assert known.beyond({"keys": 8, "queries": 20}) == ""
    assert known.beyond({"keys": 200, "queries": 1}).startswith("keys 200 (the atlas has 4 to 99)")
    assert "queries 50 (with keys 64 to 127" in known.beyond({"keys": 90, "queries": 50})


def test_entropy_of_even_shares():
    assert zipf_entropy(8, 0.0) == pytest.approx(3)
    assert zipf_entropy(8, 1.0) < 3
