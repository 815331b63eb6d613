"""A study with other seeds and settings: the trials that a study file with these values would have."""

import pytest

from factrank.errors import InputError
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.trial import Trial
from factrank.experiments.study.study_changes import changed_study
from factrank.experiments.study.study_files import load_study
from factrank.families.attention.layer_shape import LayerShape
from factrank.studies import study as named
from small_studies import study_of

TEXT = """\
name: small
data: {{generator: uniform, n_keys: 6, n_queries: 4, n_values: 5, seed: $seed}}
model: {{d_model: 4, n_heads: 1, d_qk: 2, d_vo: 1}}
seeds: {seeds}
grid: {{model.d_vo: {widths}}}
"""


def written(tmp_path, seeds, widths):
    path = tmp_path / "small.yaml"
    path.write_text(TEXT.format(seeds=seeds, widths=widths), encoding="utf-8")
    return load_study(path)


def hashes(study, size="full"):
    return {trial.hash for trial in study.trials_of(size)}


@pytest.mark.parametrize("seeds", [1, 3, 6])
def test_more_and_fewer_seeds_are_those_of_the_file(tmp_path, seeds):
    """Each seed draws its own table, as `$seed` in the file does."""
    assert hashes(changed_study(written(tmp_path, 3, [1, 2]), seeds=seeds)) == hashes(written(tmp_path, seeds, [1, 2]))


def test_settings_replace_the_grid_and_are_crossed(tmp_path):
    changed = changed_study(written(tmp_path, 2, [1, 2]), settings={"model.d_vo": [2, 4, 3], "model.d_qk": [1, 2]})
    assert {(trial.model.d_vo, trial.model.d_qk, trial.seed) for trial in changed.trials_of("full")} == {
        (d_vo, d_qk, seed) for d_vo in (2, 3, 4) for d_qk in (1, 2) for seed in (0, 1)
    }
    assert hashes(changed_study(written(tmp_path, 2, [1, 2]), settings={"model.d_vo": [4]})) == hashes(
        written(tmp_path, 2, [4])
    )


def test_arguments_of_generators_and_training(tmp_path):
    changed = changed_study(written(tmp_path, 1, [1]), settings={"data.n_keys": [7, 8], "training.epochs": [10]})
    trials = changed.trials_of("full")
    assert [dict(trial.source.arguments)["n_keys"] for trial in trials] == [7, 8]
    assert {trial.training.epochs for trial in trials} == {10}
    assert changed.method.endswith("Changed: data.n_keys = 7, 8; training.epochs = 10.")


def test_a_table_that_all_seeds_share_stays():
    facts = generated("uniform", n_keys=4, n_queries=3, n_values=4, seed=7)
    study = study_of([Trial(facts, LayerShape(4, 1, 2, 2), seed=seed) for seed in (0, 1)])
    found = changed_study(study, seeds=4).trials_of("quick")
    assert [trial.seed for trial in found] == [0, 1, 2, 3]
    assert {trial.source for trial in found} == {facts}


def test_a_study_of_the_catalogue():
    own = named("vo-against-qk")
    assert hashes(changed_study(own, seeds=2), "quick") == {
        trial.hash for trial in own.trials_of("quick") if trial.seed < 2
    }
    assert changed_study(own) is own


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"seeds": 0}, "at least one seed"),
        ({"settings": {"model.nonsense": [1]}}, "with model.nonsense = 1: .*nonsense"),
        ({"settings": {"data.nonsense": [1]}}, "unknown 'nonsense'"),
        ({"settings": {"colour.d": [1]}}, "expected data.NAME, model.NAME, training.NAME"),
        ({"settings": {"model.d_vo": [0]}}, "d_vo"),
        ({"seeds": 10**6}, "at most 200,000"),
    ],
)
def test_changes_that_cannot_be(tmp_path, changes, problem):
    with pytest.raises(InputError, match=problem):
        changed_study(written(tmp_path, 1, [1]), **changes).trials_of("full")


def test_searches_are_not_changed():
    with pytest.raises(InputError, match="linear-memory: it has searches"):
        changed_study(named("linear-memory"), seeds=3)


def test_tables_with_seeds_of_their_own_cannot_be_continued():
    def facts(seed):
        return generated("uniform", n_keys=4, n_queries=3, n_values=4, seed=seed)

    study = study_of([Trial(facts(10 + seed), LayerShape(4, 1, 2, 2), seed=seed) for seed in (0, 1)])
    assert len(changed_study(study, seeds=1).trials_of("quick")) == 1
    with pytest.raises(InputError, match="not drawn with the trials' seeds"):
        changed_study(study, seeds=3).trials_of("quick")
