"""Specifications as users may give them: what is accepted, and what is refused by name."""

import pytest

from factrank.errors import InputError
from factrank.experiments.specs import Curve
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.trial import Trial
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.factual_recall import FactSequences
from factrank.families.memory import WeightedFacts

FACTS = generated("uniform", n_keys=8, n_queries=4, n_values=6, seed=1)
LAYER = LayerShape(d_model=6, n_heads=2, d_qk=2, d_vo=3)


def test_a_presentation_at_its_defaults_is_for_every_model():
    for presentation in (WeightedFacts, FactSequences):
        assert Trial(presentation(FACTS), LAYER) == Trial(FACTS, LAYER)
        with pytest.raises(InputError, match=f"{presentation.__name__} takes facts, such as generated"):
            presentation(None)
    with pytest.raises(InputError, match="WeightedFacts"):
        Trial(WeightedFacts(FACTS, key_exponent=1.0), LAYER)


def test_a_curve_takes_any_integers():
    assert Curve(range(3)) == Curve({2, 0, 1}) == Curve(iter([1, 2, 0])) == Curve((0, 1, 2))
    for wrong in ("012", 3, None):
        with pytest.raises(InputError, match="the epochs of a curve must be a list of integers"):
            Curve(wrong)


@pytest.mark.parametrize("version", [None, 2.0, "2", 3])
def test_only_an_integer_is_a_version(version):
    plain = Trial(FACTS, LAYER).to_dict()
    assert plain["version"] == 2
    with pytest.raises(InputError, match="a dictionary with version 2"):
        Trial.from_dict(plain | {"version": version})
