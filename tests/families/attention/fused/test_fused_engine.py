"""The fused engine: what lanes compute, the same bits whatever runs beside it, nothing lost and no thread left."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.checks import Checks
from factrank.experiments.progress import TerminalMeter
from factrank.experiments.specs import Curve, EpochsTo, TauRecall
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.specification import Options
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train, train_many
from factrank.families.attention import Hallucinations
from factrank.families.attention.attention_layer import PARTS, draw_layer
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused import fused_engine, fused_gpu, fused_run, fused_threads
from factrank.families.attention.fused.fused_engine import platform_of, refusal, run_fused
from factrank.families.attention.fused.fused_run import Fibers, prepare
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from measured_readouts import require_measures_of_readout

FACTS = generated("uniform", n_keys=8, n_queries=4, n_values=6, seed=1)
SPARSE = generated("uniform", n_keys=8, n_queries=6, n_values=6, n_facts=15, seed=1)
LAYER = LayerShape(d_model=5, n_heads=2, d_qk=2, d_vo=3)
EASY = LayerShape(d_model=8, n_heads=2, d_qk=2, d_vo=3)
SEVERAL = Database.from_facts(
    [(f"k{k}", f"q{q}", f"v{v}") for k in range(5) for q in range(3) for v in range(5) if (k * q + v * v) % 4 == 0],
    multi=True,
)


def by(engine, trials, **options):
    return train_many([replace(trial, training=replace(trial.training, engine=engine)) for trial in trials], **options)


def fused(n, training=None, database=FACTS, model=LAYER, **options):
    training = replace(training or Training(epochs=60), engine="fused")
    return [Trial(database, model, training, seed=seed, **options) for seed in range(n)]


def same_bits(first, second) -> bool:
    arrays = zip(jax.tree.leaves(first.weights), jax.tree.leaves(second.weights), strict=True)
    numbers = ((one.status, one.epochs, str(one.metrics), str(one.curves), one.epochs_to) for one in (first, second))
    return all(np.array_equal(a, b, equal_nan=True) for a, b in arrays) and len(set(map(str, numbers))) == 1


def fused_threads_alive():
    """All but those that compile for a GPU, which stay for the next run, and may have come with another test."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("fused") and not name.startswith("fused-compiler")]


@pytest.fixture(autouse=True)
def two_processors(monkeypatch):
    """A long run must leave a thread for the others, also on a machine with one processor."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.delenv("FACTRANK_THREADS", raising=False)


@pytest.fixture
def short_chunks(monkeypatch):
    """Cut runs into many chunks, and hear of them often."""
    monkeypatch.setattr(fused_threads, "CHUNK_SECONDS", 1e-4)
    monkeypatch.setattr(fused_threads, "HEARTBEAT_SECONDS", 1e-3)


# -------------------------------------------------------------------- what lanes compute


@pytest.mark.parametrize(
    ("database", "training", "options"),
    [
        (
            FACTS,
            Training(Optimiser("adam", Options.of({"b1": 0.8, "b2": 0.99, "eps": 1e-6})), 0.02, check_every=4),
            {"measures": (TauRecall((0.3, 0.9)), EpochsTo(), Curve((0, 1, 7, 50)))},
        ),
        (SPARSE, Training(frozen=("embedding", "w_q"), score_scale=2.5, weight_decay=0.1, learning_rate=0.03), {}),
        (
            SEVERAL,
            Training(learning_rate=0.05, stop="recall", check_every=7),
            {"measures": (Curve(tuple(range(0, 51, 5))),)},
        ),
        (
            SPARSE,
            Training(learning_rate=0.08, stop="recall_tau", check_every=3),
            {"measures": (TauRecall((0.4,)), EpochsTo(), Curve((1, 3, 50))), "model": EASY},
        ),
        (SPARSE, Training(frozen=PARTS, stop="recall", weight_decay=0.1), {}),
    ],
    ids=["full", "frozen, scaled, decayed", "several values", "stopping", "nothing trained"],
)
def test_the_same_as_lanes_in_float64(database, training, options):
    """Weights, metrics and curves to 1e-9 after at most 50 epochs; epochs and statuses exactly."""
    given = [database] if isinstance(database, Database) else []
    spec = Given(database.fingerprint) if given else database
    trials = fused(6, replace(training, epochs=50, precision="float64"), spec, **options)
    statuses = set()
    for mine, theirs in zip(by("fused", trials, databases=given), by("lanes", trials, databases=given), strict=True):
        assert (mine.engine, theirs.engine, mine.width) == ("fused", "lanes", 1)
        assert (mine.status, mine.epochs, mine.epochs_to) == (theirs.status, theirs.epochs, theirs.epochs_to)
        assert mine.metrics == pytest.approx(theirs.metrics, abs=1e-9)
        assert list(mine.curves) == list(theirs.curves)
        for name, curve in theirs.curves.items():
            assert mine.curves[name] == pytest.approx(curve, abs=1e-9)
        for part in PARTS:
            np.testing.assert_allclose(getattr(mine.weights, part), getattr(theirs.weights, part), rtol=0, atol=1e-9)
        statuses.add(mine.status)
    assert statuses <= {"finished", "stopped"}
    if training.stop != "never" and training.frozen == ():
        assert "stopped" in statuses


N_SHAPES, N_TRIALS = 8, 64


@pytest.mark.parametrize("at", range(N_SHAPES))
def test_random_trials_have_the_losses_of_lanes(at):
    """512 trials in float32: the loss after 1 epoch to 1e-5 of its size, after 10 to 1e-3 (Adam magnifies rounding)."""
    rng = np.random.default_rng(at)
    n_keys, n_queries, n_values = (int(n) for n in rng.integers(1, [20, 9, 25]))
    n_facts = n_keys * n_queries if at % 2 else max(1, n_keys * n_queries // 3)
    model = LayerShape(*(int(n) for n in rng.integers(1, [9, 5, 5, 6])))
    trials = []
    for seed in range(N_TRIALS):
        facts = generated(
            "uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, n_facts=n_facts, seed=seed % 4
        )
        training = Training(
            learning_rate=float(10 ** rng.uniform(-4, -1)), weight_decay=float(rng.uniform(0.01, 0.2)), epochs=10
        )
        trials.append(Trial(facts, model, training, (Curve((0, 1, 10)),), seed=int(rng.integers(2**32))))
    for mine, theirs in zip(by("fused", trials), by("lanes", trials), strict=True):
        assert mine.curves["loss"][:2] == pytest.approx(theirs.curves["loss"][:2], rel=1e-5, abs=1e-6)
        assert mine.curves["loss"][2] == pytest.approx(theirs.curves["loss"][2], rel=1e-3, abs=1e-5)
        assert mine.curves["recall"][0] == theirs.curves["recall"][0]


def test_long_runs_recall_as_lanes_do_in_distribution():
    """Two-sample Kolmogorov-Smirnov over the recalls of 64 seeds after 2,000 epochs, at the level of 1 in 1,000."""
    trials = fused(64, Training(epochs=2000), model=LayerShape(d_model=2, n_heads=1, d_qk=1, d_vo=1))
    mine, theirs = ([result.recall for result in by(engine, trials)] for engine in ("fused", "lanes"))
    assert 0.35 < np.mean(theirs) < 0.75
    assert np.std(theirs) > 0.03
    assert ks_2samp(mine, theirs).pvalue > 1e-3
    assert abs(np.mean(mine) - np.mean(theirs)) < 0.02


def test_measures_agree_with_the_readout():
    taus = 0.9, 0.6
    measures = TauRecall(taus), Hallucinations()
    (result,) = train_many(fused(1, Training(epochs=150, score_scale=1.5), SPARSE, measures=measures))
    require_measures_of_readout(result, SPARSE.build(), taus)


SIZES = st.tuples(*(st.integers(1, most) for most in (6, 4, 6, 7, 3, 4, 4)))


@given(SIZES, st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]))
def test_first_weights_are_those_of_lanes_bit_for_bit(sizes, seed, precision):
    n_keys, n_queries, n_values, *widths = sizes
    database = uniform(n_keys, n_queries, n_values, seed=0)
    trial = Trial(Given(""), LayerShape(*widths), Training(precision=precision), seed=seed)
    run = prepare(0, trial, FactsTask(trial, database), Fibers.of(database))
    drawn = draw_layer(trial.model, *sizes[:3], rng=np.random.default_rng(seed), dtype=precision)
    layer = run.layout.layer(run.state.weights)
    assert jax.tree.structure(layer) == jax.tree.structure(drawn)
    for mine, theirs in zip(jax.tree.leaves(layer), jax.tree.leaves(drawn), strict=True):
        assert (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes())
    assert [getattr(layer, part).size for part in PARTS] == [stop - start for start, stop in run.trained]


@given(st.none() | st.integers(1, 7), st.sets(st.integers(0, 30), max_size=5), st.integers(0, 30), st.integers(0, 30))
def test_checks_between_two_epochs(every, at, start, stop):
    checks = Checks(every, tuple(sorted(at)), last=31, stop=None)
    assert checks.between(start, stop).tolist() == [epoch for epoch in range(start, stop) if epoch in checks]


# -------------------------------------------------------------------- the same bits


MIXED = Training(epochs=300, learning_rate=0.03, stop="recall", check_every=7)


@cache
def mixed():
    """Trials that differ in everything, and their results one by one."""
    options = {"measures": (TauRecall((0.5,)), EpochsTo(), Curve((0, 3, 100, 299)))}
    trials = [
        *fused(4, MIXED, **options),
        *fused(3, replace(MIXED, precision="float64", score_scale=2.0), SPARSE, EASY, **options),
        *fused(3, replace(MIXED, stop="never", weight_decay=0.1), SPARSE, LayerShape(3, 1, 4, 2)),
        *fused(2, replace(MIXED, frozen=("unembedding",)), EASY_FACTS, EASY, **options),
    ]
    return trials, [train_many([trial])[0] for trial in trials]


EASY_FACTS = generated("uniform", n_keys=5, n_queries=2, n_values=3, seed=0)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_alone_among_others_and_in_another_order(threads, monkeypatch, short_chunks):
    monkeypatch.setenv("FACTRANK_THREADS", threads)
    trials, alone = mixed()
    assert {result.status for result in alone} == {"finished", "stopped"}
    order = np.random.default_rng(0).permutation(len(trials))
    together, shuffled = train_many(trials), train_many([trials[at] for at in order])
    for at, result in enumerate(alone):
        assert same_bits(result, together[at])
        assert same_bits(result, shuffled[int(np.flatnonzero(order == at)[0])])


def test_a_neighbour_that_diverges_changes_nothing():
    trials, alone = mixed()
    wild = Trial(FACTS, LAYER, Training(epochs=200, learning_rate=1e30, engine="fused"))
    ending = replace(wild, training=replace(wild.training, stop="recall", check_every=10))
    results = train_many([wild, *trials, ending])
    assert (results[0].status, results[-1].status) == ("diverged", "diverged")
    assert results[0].epochs == 200 > results[-1].epochs
    assert not np.isfinite(results[0].metrics["loss"])
    assert all(same_bits(one, other) for one, other in zip(alone, results[1:-1], strict=True))


def test_a_curve_only_looks():
    plain, watched = (
        train_many(fused(1, replace(MIXED, check_every=100), EASY_FACTS, EASY, measures=looks))[0]
        for looks in ((), (Curve(tuple(range(0, 101, 7))),))
    )
    assert plain.epochs == watched.epochs == 100
    assert same_bits(plain, replace(watched, curves={}))
    assert max(watched.curves["epoch"]) == 98


def test_no_epochs_and_an_empty_list():
    assert list(run_fused([], [])) in ([], [([], 0)])
    (result,) = train_many(fused(1, Training(epochs=0, stop="recall"), measures=(Curve((0,)),)))
    assert (result.epochs, result.status, result.curves["epoch"]) == (0, "finished", [0])


# -------------------------------------------------------------------- who is taken


def trial_with(model=LAYER, **training):
    return Trial(FACTS, model, Training(**training))


@pytest.mark.parametrize(
    ("trial", "word"),
    [
        (trial_with(TransformerShape(4, 1, 2, 2)), "LayerShape"),
        (trial_with(batch_size=4), "batch_size"),
        (trial_with(precision="tf32"), "float32 or float64"),
        (trial_with(optimiser=Optimiser("sgd")), "sgd"),
        (trial_with(optimiser=Optimiser("adam", Options.of({"nesterov": True}))), "nesterov"),
        (trial_with(optimiser=Optimiser("adam", Options.of({"b1": 1.5}))), "b1"),
    ],
)
def test_what_it_does_not_train_goes_to_lanes_or_is_an_error(trial, word):
    assert word in refusal(trial, "cpu")
    with pytest.raises(InputError, match=f"trial 1: the fused engine does not apply.*{word}"):
        by("fused", [trial_with(epochs=0), trial])
    if word not in ("b1", "float32 or float64"):
        (result,) = by("auto", [replace(trial, training=replace(trial.training, epochs=0))])
        assert result.engine == "lanes"


def test_what_it_trains():
    options = Options.of({"b1": 0.5, "b2": 0.9, "eps": 1, "eps_root": 0.0, "nesterov": False})
    assert refusal(trial_with(optimiser=Optimiser("adam", options), precision="float64"), "cpu") is None
    assert "platform" in refusal(trial_with(), "tpu")
    assert platform_of(trial_with(), (8, 4, 6), "cpu") == "cpu"
    assert platform_of(trial_with(LayerShape(2000, 20, 100, 100)), (10**5, 10, 10**5), "cpu") is None
    assert train(FACTS.build(), LAYER, Training(epochs=0)).engine == "fused"


def test_where_trials_go_on_a_machine_with_a_gpu(monkeypatch):
    """In float64 the engine is there for the CPU alone: `auto` leaves such trials to lanes on the GPU."""
    monkeypatch.setattr(fused_gpu.Blocks, "missing", staticmethod(lambda: None))
    double = trial_with(precision="float64")
    assert platform_of(trial_with(), (8, 4, 6), "gpu") == "gpu"
    assert platform_of(double, (8, 4, 6), "gpu") is None
    assert platform_of(replace(double, training=replace(double.training, engine="fused")), (8, 4, 6), "gpu") == "cpu"
    monkeypatch.setattr(fused_gpu.Blocks, "missing", staticmethod(lambda: "it needs CuPy"))
    assert platform_of(trial_with(), (8, 4, 6), "gpu") is None
    with pytest.raises(InputError, match="needs CuPy"):
        platform_of(trial_with(engine="fused"), (8, 4, 6), "gpu")


def test_too_large_models_go_to_lanes_unless_told(monkeypatch):
    monkeypatch.setattr(fused_engine, "MOST_PRODUCTS", {"cpu": 10})
    engines = [by(engine, [trial_with(epochs=0)])[0].engine for engine in ("auto", "fused", "lanes")]
    assert engines == ["lanes", "fused", "lanes"]


def test_both_engines_in_one_call_keep_the_order():
    both = [trial_with(TransformerShape(4, 1, 2, 2), epochs=3), *fused(2), trial_with(batch_size=5, epochs=2)]
    seen = []
    results = train_many(both, on_result=seen.append)
    assert [result.trial for result in results] == both
    assert [result.engine for result in results] == ["lanes", "fused", "fused", "lanes"]
    assert len(seen) == 4
    assert same_bits(results[1], train_many([both[1]])[0])


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (Training(frozen=("w_x",)), "trial 1: cannot freeze 'w_x'; the parts of the model are embedding, unembedding"),
        (Training(frozen=("w_x",), engine="lanes"), "trial 1: cannot freeze 'w_x'; the parts of the model are"),
        (Training(Optimiser("sgd", Options.of({"speed": 1}))), "trial 1: sgd: unknown speed"),
        (Training(Optimiser("adam", Options.of({"b3": 1}))), "trial 1: adam: unknown b3"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(training, message):
    trained = []
    with pytest.raises(InputError, match=message):
        train_many([*fused(1), Trial(FACTS, LAYER, training)], on_result=trained.append)
    assert trained == []


@pytest.mark.parametrize("threads", ["0", "-1", "many", "²"])
def test_a_wrong_number_of_threads_is_named(threads, monkeypatch):
    monkeypatch.setenv("FACTRANK_THREADS", threads)
    with pytest.raises(InputError, match=f"FACTRANK_THREADS.*{threads}"):
        train_many(fused(1))


# -------------------------------------------------------------------- interruption, errors, progress


def test_an_interruption_in_a_hook_loses_nothing_that_had_ended(short_chunks):
    """Quick runs end while slow ones go on; Ctrl-C strikes inside the hook of the third result."""
    slow = fused(2, Training(epochs=10**9))
    arrived = []

    def on_result(result):
        arrived.append(result)
        if len(arrived) == 3:
            raise KeyboardInterrupt

    quick = fused(8, Training(epochs=20))
    results = train_many([*quick, slow[0]], on_result=on_result, interruptible=True)
    ended = [result for result in results if result.status != "interrupted"]
    assert results[-1].status == "interrupted"
    assert 3 <= len(ended) == len(arrived)
    assert {result.trial.seed for result in ended} == {result.trial.seed for result in arrived}
    assert all(same_bits(result, train_many([result.trial])[0]) for result in ended)
    assert fused_threads_alive() == []
    with pytest.raises(KeyboardInterrupt):
        train_many([*quick, slow[0]], on_result=lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    assert fused_threads_alive() == []


@pytest.mark.parametrize("function", ["later_state", "evaluate", "prepare"])
def test_an_error_in_a_worker_reaches_the_caller(function, monkeypatch):
    module = fused_engine if function == "prepare" else fused_threads
    original = getattr(module, function)

    def broken(*arguments):
        trial = arguments[1].trial if function != "prepare" else arguments[1]
        if trial.seed == 2:
            raise ZeroDivisionError("a defect")
        return original(*arguments)

    monkeypatch.setattr(module, function, broken)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        train_many([*fused(4), *fused(1, Training(epochs=10**9))])
    assert fused_threads_alive() == []


def test_closing_ends_the_threads():
    trials = fused(3, Training(epochs=10**9))
    source = run_fused(trials, [FactsTask(trial, FACTS.build()) for trial in trials])
    assert next(source)[0] == []
    assert fused_threads_alive()
    source.close()
    assert fused_threads_alive() == []


def test_an_error_in_a_hook_ends_the_threads():
    def on_result(result):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        train_many([*fused(2), *fused(1, Training(epochs=10**9))], on_result=on_result)
    assert fused_threads_alive() == []
    assert caught.traceback


def test_the_meter_hears_of_everything(short_chunks):
    heard = []

    class Listening:
        def update(self, *numbers):
            heard.append(numbers)

    trials = [*fused(5, MIXED, EASY_FACTS, EASY), *fused(2, Training(epochs=400))]
    train_many(trials, meter=Listening())
    done, models, epochs, all_epochs = zip(*heard, strict=True)
    assert (set(models), set(all_epochs)) == ({7}, {5 * 300 + 2 * 400})
    assert (done[0], epochs[0], done[-1], epochs[-1]) == (0, 0, 7, 2300)
    assert list(epochs) == sorted(epochs)
    assert len(set(epochs)) > 7


def test_numba_is_imported_only_to_train():
    code = """
import sys, factrank, factrank.experiments.training
from factrank import LayerShape
from factrank import Training, Trial, generated, train_many
facts = generated("uniform", n_keys=3, n_queries=2, n_values=2, seed=0)
train_many([Trial(facts, LayerShape(2, 1, 1, 1), Training(epochs=0, engine="lanes"))])
sys.exit("numba" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("chosen", [{}, {"NUMBA_CACHE_DIR": "own"}, {"FACTRANK_CACHE": "off"}], ids=str)
def test_compiled_kernels_are_kept_beside_compiled_programs(chosen, tmp_path):
    """Unless the user has chosen another folder, or none; functions of the user's own are never moved."""
    code = """
from factrank.families.attention.fused.fused_threads import kernel
import numba
before = numba.config.CACHE_DIR
print(kernel().run_epochs._cache.cache_path)
assert numba.config.CACHE_DIR == before
"""
    settings = {**os.environ, "FACTRANK_CACHE": str(tmp_path / "kept")}
    settings.pop("NUMBA_CACHE_DIR")
    settings |= {name: str(tmp_path / value) if value == "own" else value for name, value in chosen.items()}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=settings)
    place = Path(run.stdout.strip())
    expected = {"": tmp_path / "kept", "NUMBA_CACHE_DIR": tmp_path / "own", "FACTRANK_CACHE": Path(fused_run.__file__)}
    root = expected[next(iter(chosen), "")]
    assert (root.parent if root.is_file() else root) in place.parents


def test_the_terminal_says_that_it_compiles_until_the_speed_is_known(monkeypatch):
    said = []

    class Watching(TerminalMeter):
        def update(self, *numbers):
            super().update(*numbers)
            said.append(self._progress.tasks[0].fields["speed"])

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Watching() as meter:
        for epochs in (0, 0, 0, 300, 600, 900):
            meter.update(0, 1, epochs, 1000)
    assert said[:4] == ["compiling"] * 4
    assert said[-1].endswith("model-epochs/s")
