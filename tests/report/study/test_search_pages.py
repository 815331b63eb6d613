"""Searches where people read them: pages, published folders, the terminal."""

import pytest
from rich.console import Console

from factrank.experiments.execution.estimate import DryRun
from factrank.experiments.store.store import Store
from factrank.experiments.study.study_results import results_of
from factrank.report.publishing.publishing import differences, publish
from factrank.report.study.study_page import build_page
from factrank.report.study.study_terminal import catalogue_table, dry_run_lines, study_lines
from made_up_searches import PARTS, FakeExecutor, family, run, searches, study_with


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that was run to its end: the store, and what ran."""
    store, executor = Store(tmp_path_factory.mktemp("whole")), FakeExecutor()
    run(study_with(searches()), store, executor)
    return store, executor


def test_a_published_folder_has_the_searches_in_its_trials(whole, tmp_path):
    store, executor = whole
    study = study_with(searches(), **PARTS)
    published = publish("paper", [study], "quick", store.tables(), tmp_path)
    assert differences(tmp_path, [study]) == []
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == ["search.parquet"]
    assert (published.results["search"].n_searches, published.results["search"].n_missing) == (6, 0)
    readme = (tmp_path / "README.md").read_text()
    assert f"{len(executor.hashes)} trials of 6 searches" in readme
    assert "| 2 | 21 [18.5, 23.5] | 3 |" in readme
    others = study_with(searches(resolution=1.5), **PARTS)  # asks for fewer trials
    assert any("of no trial of the study" in text for text in differences(tmp_path, [others]))
    more = study_with(searches(seeds=4), **PARTS)
    assert any("of its trials are not in its table" in text for text in differences(tmp_path, [more]))


def test_a_page_says_how_the_searches_ended(whole):
    store, _ = whole
    page = build_page(results_of(study_with(searches(), **PARTS), "quick", store.tables()))
    assert "<h2 id=searches>Searches</h2><p>6 searches over sizes." in page
    assert "largest size that holds" in page
    assert "Searches without an answer" not in page


def test_a_page_says_what_has_no_answer(tmp_path):
    store, study = Store(tmp_path), study_with(searches(most=30), **PARTS)  # the wide ones hold everything
    run(study, store)
    page = build_page(results_of(study, "quick", store.tables()))
    assert "3 searches no upper end" in page
    assert "still holds at 30, the greatest size" in page
    assert "3 searches that did not finish are not shown." in page
    published = publish("paper", [study], "quick", store.tables(), tmp_path / "folder")
    assert published.results["search"].n_unfinished == 3
    assert "trials of 6 (3 without both ends) searches" in (tmp_path / "folder" / "README.md").read_text()


def test_the_terminal_counts_searches():
    listed = study_with(searches(), trials=lambda size: family(7))
    console = Console(width=120)
    with console.capture() as shown:
        console.print(catalogue_table({"one": listed, "two": study_with(searches())}))
        console.print(study_lines(study_with(searches()), "run it"))
    assert "2 + 6 searches" in shown.get()
    assert "quick: 48 trials, including the first round of 6 searches" in shown.get()
    assert "data.n_keys: 8, 13, 20, 32" in shown.get()
    with console.capture() as shown:
        console.print(dry_run_lines(DryRun(48, 0, 0, 48, n_open=6)))
    assert "6 unfinished searches will request" in shown.get()
