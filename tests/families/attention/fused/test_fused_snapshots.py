"""A run seen at several epochs is the run that `train` makes, bit for bit."""

from math import isfinite

import numpy as np
import pytest

from factrank import Given, LayerShape, Training, Trial, sample, train
from factrank.errors import InputError
from factrank.families.attention.fused import snapshots
from factrank.nn import to_arrays

FACTS = sample("astrid")
SHAPE = LayerShape(4, 1, 2, 2)


def trial(**training):
    return Trial(Given(FACTS.fingerprint), SHAPE, Training(**training), seed=3)


def same_bits(layer, other):
    pairs = zip(to_arrays(layer).values(), to_arrays(other).values(), strict=True)
    return all(np.array_equal(one, two) for one, two in pairs)


def test_a_snapshot_is_the_layer_trained_for_that_many_epochs():
    found = list(snapshots(trial(epochs=60, score_scale=2.0), FACTS, (60, 0, 7, 23)))
    assert [snapshot.epoch for snapshot in found] == [0, 7, 23, 60]
    for snapshot in found:
        alone = train(FACTS, SHAPE, Training(epochs=snapshot.epoch, score_scale=2.0, engine="fused"), seed=3)
        assert same_bits(snapshot.layer, alone.weights)
        assert snapshot.loss == alone.metrics["loss"]
    assert not same_bits(found[0].layer, found[1].layer)  # an earlier layer is not overwritten by a later one


def test_a_diverged_run_ends():
    found = list(snapshots(trial(epochs=50, learning_rate=1e30), FACTS, range(0, 51, 10)))
    assert isfinite(found[0].loss)
    assert not isfinite(found[-1].loss)
    assert len(found) < 6


@pytest.mark.parametrize("training", [{"stop": "recall"}, {"epochs": 5}, {"batch_size": 2}])
def test_what_it_does_not_train_is_refused(training):
    with pytest.raises(InputError, match=r"never stop early|does not apply"):
        list(snapshots(trial(**training), FACTS, (0, 10)))
