"""Checkpoints of lanes: a bundle that was cut off at any chunk resumes to the bits of one that was not."""

import warnings
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.execution.executors import LocalExecutor
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.lanes import lane_bundle as bundle
from factrank.experiments.lanes.lane_checkpoints import FORMAT, VERSION, BundleFile
from factrank.experiments.run_checkpoints import Checkpoints
from factrank.experiments.specs import Curve, EpochsTo, TauRecall
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn.sealed_file import Sealed, read_sealed, write_sealed

FACTS = generated("uniform", n_keys=8, n_queries=4, n_values=6, n_facts=12, seed=1)
LAYER = LayerShape(d_model=6, n_heads=1, d_qk=2, d_vo=3)
TRAINING = Training(
    epochs=120, learning_rate=0.03, schedule="cosine", stop="recall", check_every=20, engine="lanes", weight_decay=1e-4
)
MEASURES = (TauRecall((0.5, 0.99)), EpochsTo(), Curve((0, 5, 70)))


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "CHUNK_SECONDS", 3e-3)  # some epochs each
        patch.setattr(Checkpoints, "due", lambda self: True)
        yield


@cache
def uninterrupted():
    """Some stop, some are too slow to, and two are shorter: lanes are dropped twice, from 8 to 4 and to 2 or 1."""
    trials = [Trial(FACTS, LAYER, TRAINING, MEASURES, seed=seed) for seed in range(4)]
    slow = replace(TRAINING, learning_rate=1e-5)
    trials += [Trial(FACTS, LAYER, replace(slow, epochs=80), MEASURES, seed=4)]
    trials += [Trial(FACTS, LAYER, slow, MEASURES, seed=seed) for seed in (5, 6)]
    return trials, train_many(trials)


class Failing:
    """A meter that fails when so many model-epochs are done: what is on the disk then is all that is left."""

    def __init__(self, at, error=ZeroDivisionError):
        self.at, self.error = at, error

    def update(self, models_done, n_models, model_epochs, n_model_epochs):
        if model_epochs >= self.at:
            raise self.error


def same_bits(first, second):
    arrays = zip(jax.tree.leaves(first.weights), jax.tree.leaves(second.weights), strict=True)
    numbers = [(one.status, one.epochs, one.width, one.metrics, one.curves, one.epochs_to) for one in (first, second)]
    return numbers[0] == numbers[1] and all(a.tobytes() == b.tobytes() for a, b in arrays)


def cut_off(folder, at=300, error=ZeroDivisionError):
    """The trials, of which so many epochs were trained, and the file that they left."""
    trials, _ = uninterrupted()
    with pytest.raises(error):
        train_many(trials, checkpoints=folder, meter=Failing(at, error))
    (path,) = folder.iterdir()
    return trials, path


@settings(max_examples=4)
@given(st.lists(st.integers(20, 750), min_size=1, max_size=3), st.sampled_from([ZeroDivisionError, KeyboardInterrupt]))
def test_cut_off_anywhere_and_taken_up_again(tmp_path_factory, moments, error):
    folder = tmp_path_factory.mktemp("checkpoints")
    trials, expected = uninterrupted()
    assert {result.status for result in expected} == {"finished", "stopped"}
    assert len({result.width for result in expected}) > 1
    for moment in moments:
        with pytest.raises(error):
            train_many(trials, checkpoints=folder, meter=Failing(moment, error))
    results = train_many(trials, checkpoints=folder)
    assert all(map(same_bits, results, expected))
    assert list(folder.iterdir()) == []


def test_work_goes_on_from_where_it_was(tmp_path):
    trials, _ = cut_off(tmp_path)
    heard = []

    class Listening:
        def update(self, *numbers):
            heard.append(numbers[2])

    train_many(trials, checkpoints=tmp_path, meter=Listening())
    assert min(epochs for epochs in heard if epochs) > 250


def rewrite(path, *, tensors=None, **metadata):
    sealed = read_sealed(path, FORMAT, VERSION)
    write_sealed(path, Sealed(sealed.tensors | (tensors or {}), sealed.metadata | metadata), FORMAT, VERSION)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), "truncated"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"), "checksum"),
        (lambda path: rewrite(path, device="a toaster"), "device 'a toaster'"),
        (lambda path: rewrite(path, jax="0.0"), "jax '0.0'"),
        (lambda path: rewrite(path, bundle="abc"), "bundle 'abc'"),
        (lambda path: rewrite(path, tensors={"lanes.0": np.zeros(3, np.uint8)}), "not the state of a bundle"),
        (lambda path: rewrite(path, tensors={"lanes.1": np.zeros(3, np.uint8)}), "not the state of a bundle"),
        (lambda path: rewrite(path, tensors={"notes": np.zeros(3, np.uint8)}), "not the state of a bundle"),
    ],
)
def test_what_is_no_checkpoint_of_ours_is_named_and_left_alone(tmp_path, damage, words):
    trials, path = cut_off(tmp_path)
    damage(path)
    before, trained = path.read_bytes(), []
    with pytest.raises(InputError, match=words) as error:
        train_many(trials, checkpoints=tmp_path, on_result=trained.append)
    assert path.name in str(error.value)
    assert (trained, path.read_bytes()) == ([], before)


def test_other_bundles_have_other_files(tmp_path):
    trials, path = cut_off(tmp_path)
    names = {
        BundleFile.of(tmp_path, some, width).path for some in (trials, trials[::-1], trials[1:]) for width in (4, 8)
    }
    assert len(names) == 6
    train_many(trials[:2], checkpoints=tmp_path)
    assert list(tmp_path.iterdir()) == [path]


class Taking:
    def __init__(self):
        self.outcomes = []

    def take(self, outcome, *, at_once=False):
        self.outcomes.append((outcome, at_once))

    def tick(self, epochs=0):
        pass


def test_a_study_goes_on_and_begins_again_where_the_file_is_damaged(tmp_path):
    trials, path = cut_off(tmp_path)
    damaged = path.read_bytes()[:-3]
    for is_damaged in (False, True):
        wanted = {trial.hash for trial in trials}
        bundles, _ = study_bundles(trials, wanted)
        assert len(bundles) == 1
        recorder = Taking()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            LocalExecutor(checkpoints=tmp_path).run(bundles, wanted, {}, recorder)
        assert any(path.name in str(warning.message) for warning in heard) == is_damaged
        found = {outcome.trial: outcome for outcome, _ in recorder.outcomes}
        for trial, result in zip(*uninterrupted(), strict=True):
            assert found[trial].metrics == result.metrics
        if not is_damaged:
            assert [at_once for _, at_once in recorder.outcomes] == [False] * 6 + [True]  # then the file goes
            assert not path.exists()
            path.write_bytes(damaged)
