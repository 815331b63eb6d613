"""Language studies: equal parameters, rates chosen on other seeds, and verdicts on tables that were made up."""

from pathlib import Path

import pyarrow as pa
import pytest

from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store.columns import trial_columns
from factrank.studies import study
from factrank.studies.language import text_study
from factrank.studies.language.settings import LARGE, SCALES, SEEDS, SPLITS, TUNING_SEEDS
from small_studies import trials_listed

SPLIT = study("language-split")
EXCERPT = Path(__file__).parents[1] / "families" / "language" / "data" / "excerpt.txt"


def test_all_splits_have_the_same_parameters():
    for size, scale in (*SCALES.items(), *LARGE.items()):
        n_tokens = 1 + 3 * scale.names + 10
        assert len({scale.shape(d_qk).parameters(n_tokens) for d_qk in SPLITS[size]}) == 1
        alone, total = (scale.shape(2, mlp).parameters(n_tokens) for mlp in ("none", "equal total"))
        assert total == pytest.approx(alone, rel=0.03)
        heads = {mlp: scale.shape(2, mlp).n_heads for mlp in ("none", "equal total", "equal attention")}
        assert heads == {"none": scale.n_heads, "equal total": scale.n_heads // 2, "equal attention": scale.n_heads}
    assert 300_000 < SCALES["full"].parameters < 500_000
    assert LARGE["full"].parameters == pytest.approx(1.4e6, rel=0.1)


def test_phone_books_have_the_bits_that_are_asked_for():
    scale = SCALES["full"]
    for load in (1, 2, 4):
        bits = scale.people(load) * scale.digits * 3.3219
        assert bits / scale.parameters == pytest.approx(load, rel=0.01)
        assert scale.people(load) <= scale.names**3
        assert scale.steps(scale.people(load)) * scale.batch_size == pytest.approx(100 * scale.people(load), rel=0.01)
    assert LARGE["full"].people(2) <= LARGE["full"].names ** 3


def test_the_rate_is_chosen_on_a_seed_that_does_not_count():
    search = SPLIT.searches_of("quick")[0]
    (tuning,) = search.rounds({})
    assert {trial.seed for trial in tuning} == set(TUNING_SEEDS)
    assert search.chosen({}) is None
    best = search.rates[-1]
    rows = {
        trial.hash: {"status": "finished", "stored_bits_per_parameter": 1.0 + (trial.training.learning_rate == best)}
        for trial in tuning
    }
    first, second = search.rounds(rows)
    assert first == tuning
    assert {trial.training.learning_rate for trial in second} == {best}
    assert sorted({trial.seed for trial in second}) == list(SEEDS)
    assert search.row(rows)["status"] == "waiting"
    ended = rows | {trial.hash: {"status": "finished"} for trial in second}
    assert search.row(ended) | {"chosen_rate": None} == {"status": "finished", "why": "", "chosen_rate": None}
    diverged = {
        name: row | {"status": "diverged"} if row["stored_bits_per_parameter"] == 2 else row
        for name, row in rows.items()
    }
    assert search.chosen(diverged) == search.rates[0]


def made_up(stored):
    """A table as training would give it: the trials that count, and the tuning trials with nonsense in them."""
    rows = []
    for search in SPLIT.searches_of("full"):
        trials = [trial for seed in SEEDS for trial in search.counted(0.003, seed)]
        for trial in (*trials, *search.rounds({})[0]):
            counts = trial.seed in SEEDS
            shape = trial.model
            bits = stored(shape.d_vo, shape.mlp_width) + 0.001 * trial.seed if counts else -50.0
            rows.append(trial_columns(trial) | {"stored_bits_per_parameter": bits, "status": "finished"})
    return pa.Table.from_pylist(rows)


def verdicts(stored):
    names = "more d_vo stores more", "an MLP shrinks the effect"
    table = made_up(stored)
    return [evaluate(claim, table).status for claim in SPLIT.claims if claim.name in names]


def test_claims_judge_planted_tables():
    assert verdicts(lambda d_vo, width: 0.5 + 0.02 * d_vo * (0.5 if width else 1)) == ["reproduced", "reproduced"]
    assert verdicts(lambda d_vo, width: 1.5 - 0.02 * d_vo * (1.5 if width else 1)) == ["not reproduced", "reproduced"]
    assert verdicts(lambda d_vo, width: 0.5 + 0.02 * d_vo * (2 if width else 1)) == ["reproduced", "not reproduced"]


def test_mixtures_have_three_proportions_and_four_numbers_of_pairs():
    trials = trials_listed(study("language-trade-off"), "full")
    assert {trial.data.recall_fraction for trial in trials} == {0.25, 0.5, 0.75}
    assert {trial.data.recall.pairs for trial in trials} == {(4, 8, 16, 32)}
    assert {trial.model.d_qk for trial in trials} == set(SPLITS["full"])


def test_the_study_of_text_reads_the_corpus_that_is_named():
    made = text_study(EXCERPT, n_tokens=300, length=16)
    texts = {trial.data.text for trial in made.trials_of("full")}
    assert {(text.path, text.n_tokens, text.length) for text in texts} == {(str(EXCERPT), 300, 16)}
