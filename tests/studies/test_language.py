"""Language studies: equal parameters, rates chosen on other seeds, and verdicts on tables that were made up."""

import hashlib

import pyarrow as pa
import pytest

from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store.columns import trial_columns
from factrank.families.language import SAMPLE_TEXT
from factrank.families.language.language_data import text_bytes
from factrank.studies import study
from factrank.studies.language import text_study
from factrank.studies.language.settings import HARM, KJV, LARGE, SEEDS, SMALL, STORED, TUNING_SEEDS, VARIANTS
from small_studies import trials_listed

GRIDS = pytest.mark.parametrize("grid", [SMALL, LARGE], ids=["small", "large"])


@GRIDS
def test_all_splits_have_the_same_parameters(grid):
    for sizes in grid.sizes.values():
        for scale in (sizes.scale, sizes.confirming):
            assert len({scale.shape(d_qk).parameters(scale.n_tokens) for d_qk in sizes.splits}) == 1
            alone, total, deeper = (
                scale.shape(2, name).parameters(scale.n_tokens) for name in ("none", "equal total", "deeper")
            )
            assert total == pytest.approx(alone, rel=0.03)
            assert deeper == pytest.approx(alone, rel=0.03)
            heads = {name: scale.shape(2, name).n_heads for name in VARIANTS}
            half = scale.n_heads // 2
            assert heads == {"none": 2 * half, "equal total": half, "equal attention": 2 * half, "deeper": half}
            assert scale.shape(2, "deeper").n_layers == 2 * scale.n_layers


def test_sizes_are_the_ones_that_the_grids_promise():
    assert 300_000 < LARGE.full.scale.parameters < 500_000
    assert LARGE.full.confirming.parameters == pytest.approx(1.4e6, rel=0.1)
    assert (SMALL.full.scale.parameters, SMALL.full.confirming.parameters) == (28_544, 160_512)


@GRIDS
def test_phone_books_have_the_bits_that_are_asked_for(grid):
    scale = grid.full.scale
    for load in sorted({load for loads in grid.full.loads.values() for load in loads}):
        bits = scale.people(load) * scale.digits * 3.3219
        assert bits / scale.parameters == pytest.approx(load, rel=0.01)
        assert scale.people(load) <= scale.names**3
        assert scale.steps(scale.people(load)) * scale.batch_size == pytest.approx(100 * scale.people(load), rel=0.01)
    assert grid.full.confirming.people(2) <= grid.full.confirming.names**3


def test_the_rate_is_chosen_on_a_seed_that_does_not_count():
    search = study("language-split").searches_of("quick")[0]
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


def made_up(split, stored):
    """A table as training would give it: the trials that count, and the tuning trials with nonsense in them."""
    rows = []
    for search in split.searches_of("full"):
        trials = [trial for seed in SEEDS for trial in search.counted(0.003, seed)]
        for trial in (*trials, *search.rounds({})[0]):
            counts = trial.seed in SEEDS
            shape = trial.model
            bits = stored(shape.d_vo, shape.mlp_width, shape.n_layers) + 0.001 * trial.seed if counts else -50.0
            rows.append(trial_columns(trial) | {"stored_bits_per_parameter": bits, "status": "finished"})
    return pa.Table.from_pylist(rows)


@GRIDS
def test_claims_judge_planted_tables(grid):
    split = study(f"language-split{grid.suffix}")
    layers = grid.full.scale.n_layers

    def verdicts(stored):
        names = "more d_vo stores more", "an MLP shrinks the effect"
        table = made_up(split, stored)
        return [evaluate(claim, table).status for claim in split.claims if claim.name in names]

    def planted(alone, with_mlp):
        """Slopes without and with an MLP; the opposite in deeper models, which must not count."""
        return verdicts(
            lambda d_vo, width, depth: 0.5 + d_vo * (with_mlp if width else alone if depth == layers else -alone)
        )

    assert planted(0.02, 0.01) == ["reproduced", "reproduced"]
    assert planted(-0.02, -0.03) == ["not reproduced", "reproduced"]
    assert planted(0.02, 0.04) == ["reproduced", "not reproduced"]


@GRIDS
def test_every_claim_and_summary_of_the_split_has_a_number(grid):
    split = study(f"language-split{grid.suffix}")
    table = made_up(split, lambda d_vo, width, depth: 0.1 * depth + 0.01 * width - 0.01 * (d_vo - 9) ** 2)
    for name in ("bits_per_parameter", "stored_bits_per_inner_parameter"):
        table = table.append_column(name, table["stored_bits_per_parameter"])
    for claim in split.claims:
        assert evaluate(claim, table).interval is not None, claim.name


@GRIDS
def test_mixtures_have_three_proportions_and_four_numbers_of_pairs(grid):
    trials = trials_listed(study(f"language-trade-off{grid.suffix}"), "full")
    assert {trial.data.recall_fraction for trial in trials} == {0.25, 0.5, 0.75}
    (pairs,) = {trial.data.recall.pairs for trial in trials}
    assert len(pairs) == 4
    assert {trial.model.d_qk for trial in trials} == set(grid.full.mixture.splits)


@GRIDS
@pytest.mark.parametrize("name", ["trade-off", "text"])
def test_mixtures_narrow_d_qk_at_equal_parameters_and_alone(grid, name):
    """What a narrow d_qk costs is compared at the same d_vo; splits are compared at the same parameters."""
    for size in ("quick", "full"):
        scale, mixture = grid.sizes[size].scale, grid.sizes[size].mixture
        shapes = [trial.model for trial in trials_listed(study(f"language-{name}{grid.suffix}"), size)]
        splits = {(shape.d_qk, shape.d_vo) for shape in shapes if shape.d_qk + shape.d_vo == scale.head}
        assert splits == {(d_qk, scale.head - d_qk) for d_qk in mixture.splits}
        half = scale.head // 2
        alone = {shape.d_qk for shape in shapes if shape.d_vo == half}
        assert alone == {*mixture.narrowed, half}
        assert 2 in alone


def mixed(of_study, column, planted):
    """A table of a study of mixtures, as training would give it."""
    rows = [
        trial_columns(trial)
        | {name: planted(trial.model.d_qk, trial.model.d_vo) + 0.001 * trial.seed for name in (column, STORED)}
        | {"status": "finished"}
        for trial in trials_listed(of_study, "full")
    ]
    return pa.Table.from_pylist(rows)


@GRIDS
@pytest.mark.parametrize(
    ("name", "column", "sign"), [("trade-off", "in_context", 1), ("text", "bits_per_byte", -1)], ids=str
)
def test_claims_about_narrow_heads_judge_planted_tables(grid, name, column, sign):
    of_study = study(f"language-{name}{grid.suffix}")
    harm, at_equal_size = of_study.claims[:2]
    assert harm.quote == HARM
    by_keys = mixed(of_study, column, lambda d_qk, d_vo: sign * 0.1 * d_qk)
    by_values = mixed(of_study, column, lambda d_qk, d_vo: sign * 0.1 * d_vo)
    assert [evaluate(claim, by_keys).status for claim in (harm, at_equal_size)] == ["reproduced", "reproduced"]
    assert evaluate(harm, by_values).status == "undecided", "d_vo is the same on both sides"
    assert evaluate(at_equal_size, by_values).status == "not reproduced"
    assert evaluate(harm, mixed(of_study, column, lambda d_qk, d_vo: -sign * 0.1 * d_qk)).status == "not reproduced"


def test_the_least_d_qk_is_measured_from_the_best_split_not_the_widest():
    trade_off = study("language-trade-off-small")
    claim = next(claim for claim in trade_off.claims if claim.name == "least d_qk with 2 pairs")
    table = mixed(trade_off, "in_context_2", lambda d_qk, d_vo: {2: 0.5, 6: 0.99, 12: 1.0, 22: 0.4}[d_qk])
    assert evaluate(claim, table).value == 6


def test_the_study_of_text_reads_the_corpus_that_is_named(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(text_bytes(SAMPLE_TEXT.path))
    made = text_study(corpus, n_tokens=300, length=16)
    texts = {trial.data.text for trial in made.trials_of("full")}
    assert {(text.path, text.n_tokens, text.length) for text in texts} == {(str(corpus), 300, 16)}
    assert {trial.data.text for trial in study("language-text-small").trials_of("full")} == {KJV}
    assert {trial.data.text for trial in study("language-text-small").trials_of("quick")} == {SAMPLE_TEXT}
    assert hashlib.sha256(corpus.read_bytes()).hexdigest() == SAMPLE_TEXT.sha256
