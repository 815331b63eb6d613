"""Checkpoints: a run that was interrupted at any moment resumes to the bits of one that was not."""

import os
import threading
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments import run_checkpoints as checkpoints
from factrank.experiments.specs import Curve, EpochsTo, TauRecall
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.fused import fused_engine, fused_threads
from factrank.families.attention.fused.fused_checkpoints import FORMAT, VERSION
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.nn.sealed_file import Sealed, read_sealed, write_sealed

FACTS = generated("uniform", n_keys=8, n_queries=4, n_values=6, seed=1)
FEW = generated("uniform", n_keys=5, n_queries=3, n_values=4, n_facts=7, seed=1)
LAYER = LayerShape(d_model=6, n_heads=2, d_qk=2, d_vo=3)
WATCHED = TauRecall((0.5, 0.99)), EpochsTo(), Curve((0, 5, 90, 371, 400))
TRAINING = Training(epochs=400, learning_rate=0.02, check_every=7, engine="fused")


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)  # a long run leaves a thread for others
        patch.delenv("FACTRANK_THREADS", raising=False)
        patch.setattr(fused_threads, "CHUNK_SECONDS", 1e-4)
        patch.setattr(fused_threads, "HEARTBEAT_SECONDS", 1e-3)
        yield


@cache
def uninterrupted():
    trials = [
        *(Trial(FACTS, LAYER, TRAINING, WATCHED, seed=seed) for seed in range(3)),
        *(Trial(FEW, LAYER, replace(TRAINING, stop="recall_tau", weight_decay=0.1), WATCHED, seed=s) for s in range(2)),
        Trial(FEW, LAYER, replace(TRAINING, precision="float64", frozen=("w_k",)), seed=5),
    ]
    return trials, train_many(trials)


class Interrupting:
    """A meter that is interrupted when so many model-epochs are done."""

    def __init__(self, at: int) -> None:
        self.at = at

    def update(self, models_done, n_models, model_epochs, n_model_epochs):
        if model_epochs >= self.at:
            raise KeyboardInterrupt


def same_bits(first, second) -> bool:
    arrays = zip(jax.tree.leaves(first.weights), jax.tree.leaves(second.weights), strict=True)
    numbers = [(one.status, one.epochs, one.metrics, one.curves, one.epochs_to) for one in (first, second)]
    return numbers[0] == numbers[1] and all(a.tobytes() == b.tobytes() for a, b in arrays)


@settings(max_examples=7)
@given(st.lists(st.integers(1, 2300), min_size=1, max_size=3))
def test_interrupted_anywhere_and_taken_up_again(tmp_path_factory, moments):
    folder = tmp_path_factory.mktemp("checkpoints")
    trials, expected = uninterrupted()
    assert {result.status for result in expected} == {"finished", "stopped"}
    results = {}
    for moment in moments:  # what has ended is not asked for again, as a store would have it
        left = [trial for trial in trials if trial not in results]
        some = train_many(left, checkpoints=folder, meter=Interrupting(moment), interruptible=True)
        results |= {result.trial: result for result in some if result.status != "interrupted"}
        unfinished = {trial.hash for trial in trials if trial not in results}
        assert {path.stem for path in folder.iterdir()} <= unfinished
    left = [trial for trial in trials if trial not in results]
    results |= {result.trial: result for result in train_many(left, checkpoints=folder)}
    for trial, result in zip(trials, expected, strict=True):
        assert same_bits(results[trial], result)
    assert list(folder.iterdir()) == []


def interrupted(folder, seed=0, at=150):
    """A trial that has left a checkpoint, and the file; the worker waits there until it is told to end."""
    trial, told, later = Trial(FACTS, LAYER, TRAINING, seed=seed), threading.Event(), fused_threads.later_state

    class Patient(fused_threads.Threads):
        def close(self):
            self._closing = True
            told.set()
            super().close()

    def waiting(kernel, run, n_epochs):
        if run.state.epoch >= at:
            assert told.wait(60)
        return later(kernel, run, min(n_epochs, 50))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused_threads, "later_state", waiting)
        patch.setitem(fused_engine.BACKENDS, "cpu", Patient)
        (result,) = train_many([trial], checkpoints=folder, meter=Interrupting(at), interruptible=True)
    assert result.status == "interrupted"
    return trial, folder / f"{trial.hash}.safetensors"


def test_work_goes_on_from_where_it_was(tmp_path):
    trial, path = interrupted(tmp_path)
    at = int(read_sealed(path, FORMAT, VERSION).metadata["epoch"])
    assert at >= 150
    heard = []

    class Listening:
        def update(self, *numbers):
            heard.append(numbers[2])

    train_many([trial], checkpoints=tmp_path, meter=Listening())
    assert min(epochs for epochs in heard if epochs) >= at


def test_states_are_written_now_and_then(tmp_path, monkeypatch):
    """Without an interruption: a hook that fails in the middle finds them on the disk."""
    monkeypatch.setattr(checkpoints.Checkpoints, "due", lambda self: True)
    monkeypatch.setattr(fused_threads, "CHUNK_SECONDS", 1e-5)
    seen = set()

    class Looking:
        def update(self, *_):
            seen.update(path.name for path in tmp_path.iterdir())

    trial = Trial(FACTS, LAYER, replace(TRAINING, epochs=3000))
    train_many([trial], checkpoints=tmp_path, meter=Looking())
    assert f"{trial.hash}.safetensors" in seen
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_hook_keeps_the_states(tmp_path):
    def on_result(result):
        raise ZeroDivisionError

    slow = Trial(FACTS, LAYER, replace(TRAINING, epochs=10**9))
    with pytest.raises(ZeroDivisionError):
        train_many([slow, Trial(FACTS, LAYER, TRAINING)], checkpoints=tmp_path, on_result=on_result)
    assert slow.hash in {path.stem for path in tmp_path.iterdir()}


def rewrite(path, *, tensors=None, **metadata):
    sealed = read_sealed(path, FORMAT, VERSION)
    write_sealed(path, Sealed(sealed.tensors | (tensors or {}), sealed.metadata | metadata), FORMAT, VERSION)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), "truncated: it has"),
        (lambda path: path.write_bytes(b""), "safetensors"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"), "checksum"),
        (lambda path: rewrite(path, device="a toaster"), "device 'a toaster'"),
        (lambda path: rewrite(path, kernel="another"), "kernel 'another'"),
        (lambda path: rewrite(path, trial="abc"), "trial 'abc'"),
        (lambda path: rewrite(path, epoch="401"), "not the checkpoint of a trial of 400 epochs"),
        (lambda path: rewrite(path, epoch="-1"), "not the checkpoint"),
        (lambda path: rewrite(path, stopped="perhaps"), "not the checkpoint"),
        (lambda path: rewrite(path, tensors={"weights": np.zeros(3, np.float32)}), "not the checkpoint"),
        (lambda path: rewrite(path, tensors={"first": np.zeros(162, np.float64)}), "not the checkpoint"),
        (lambda path: rewrite(path, tensors={"records": np.zeros((1, 4))}), "not the checkpoint"),
        (lambda path: rewrite(path, tensors={"more": np.zeros(3, np.float32)}), "not the checkpoint"),
    ],
)
def test_what_is_no_checkpoint_of_ours_is_named_and_left_alone(tmp_path, damage, words):
    trial, path = interrupted(tmp_path)
    damage(path)
    before, trained = path.read_bytes(), []
    other = Trial(FACTS, TransformerShape(4, 1, 2, 2), Training(epochs=0))
    with pytest.raises(InputError, match=words) as error:
        train_many([Trial(FEW, LAYER, TRAINING), other, trial], checkpoints=tmp_path, on_result=trained.append)
    assert path.name in str(error.value)
    assert trained == []
    assert path.read_bytes() == before


def test_other_files_and_other_trials_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "layer.safetensors").write_text("mine too", encoding="utf-8")
    _, path = interrupted(tmp_path, seed=1)
    train_many([Trial(FACTS, LAYER, TRAINING, seed=2)], checkpoints=tmp_path)
    assert {found.name for found in tmp_path.iterdir()} == {"notes.txt", "layer.safetensors", path.name}


def test_the_same_trial_twice(tmp_path):
    trial, path = interrupted(tmp_path)
    first, second = train_many([trial, trial], checkpoints=tmp_path)
    assert same_bits(first, second)
    assert same_bits(first, train_many([trial])[0])
    assert not path.exists()


def test_a_folder_that_cannot_be_one(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="file: cannot create a folder for checkpoints"):
        train_many([Trial(FACTS, LAYER, TRAINING)], checkpoints=tmp_path / "file")
    train_many([Trial(FACTS, LAYER, TRAINING)], checkpoints=tmp_path / "made" / "anew")
    assert (tmp_path / "made" / "anew").is_dir()


def test_what_cannot_be_written_is_a_warning_and_loses_no_result(tmp_path):
    """The folder goes away while models are trained."""
    folder = tmp_path / "gone"
    quick, slow = Trial(FACTS, LAYER, TRAINING), Trial(FACTS, LAYER, replace(TRAINING, epochs=10**9))

    def on_result(result):
        os.rmdir(folder)
        raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="a checkpoint was not written"):
        results = train_many([quick, slow], checkpoints=folder, on_result=on_result, interruptible=True)
    assert [result.status for result in results] == ["finished", "interrupted"]
