"""`factrank study` as users see it: what it says, its exit codes, and that a run that was ended goes on."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from factrank import studies as studies_of_papers
from factrank.experiments.execution import runner, trackers
from factrank.experiments.execution.runner import RunSummary
from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store.store import Store
from factrank.experiments.study import study_results
from factrank.experiments.study.study_files import load_study
from factrank.report.study import study_report
from factrank.studies import CATALOGUE, PAPERS

TEXT = """\
name: small
title: "A small study \\e[31m[bold]"
question: Does it run?
data: {generator: uniform, n_keys: 6, n_queries: 4, n_values: 5, seed: $seed}
model: {d_model: 4, n_heads: 1, d_qk: 2, d_vo: 1}
training: {epochs: 60}
seeds: 4
grid: {model.d_vo: [1, 4]}
quick: {seeds: 3}
charts: [{name: recall, title: Recall, kind: lines, x: model.d_vo, y: recall}]
claims:
  - name: wide
    statement: recall rises with d_vo
    quantity: {kind: slope, column: recall, against: model.d_vo}
    published: rises
"""


@pytest.fixture
def study(tmp_path):
    """Write a study with some words replaced; gives its path."""

    def written(*replaced, name="small.yaml"):
        text = TEXT
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return written


def test_run_report_and_export(call, study, tmp_path):
    name = study()
    code, out, err = call("study", "run", name)
    assert (code, err) == (0, "")
    assert out.startswith("6 trials in ")
    assert "recall rises with d_vo" in out
    assert " reproduced" in out
    page = tmp_path / "factrank-store" / "reports" / "small-quick.html"
    assert out.rstrip().endswith(f"report: {page.relative_to(tmp_path)}")
    assert "recall rises with d_vo" in page.read_text(encoding="utf-8")
    assert f"factrank study run {name}" in page.read_text(encoding="utf-8")
    assert {path.suffix for path in page.parent.iterdir()} == {".html", ".svg", ".png", ".csv"}

    code, again, _ = call("study", "run", name)
    assert (code, again.splitlines()[0]) == (0, "nothing to run: all 6 trials are stored")
    assert again.splitlines()[1:] == out.splitlines()[1:]
    assert call("study", "run", name, "--full")[1].startswith("2 trials in ")

    code, out, _ = call("study", "report", name, "--full", "-o", "page.html")
    assert (code, out.splitlines()[-1]) == (0, "report: page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert call("study", "export", "all.parquet")[:2] == (0, "8 trials in all.parquet\n")
    assert pq.read_table(tmp_path / "all.parquet").num_rows == 8
    assert call("study", "export", "all.csv")[0] == 0
    assert (tmp_path / "all.csv").read_text().count("\n") == 9


def document(call, *arguments):
    """The exit code of a study command, and the one JSON document that it prints."""
    code, out, err = call("study", *arguments, "--json")
    assert err == ""
    return code, json.loads(out)


def test_every_study_command_prints_one_json_document(call, study, tmp_path, monkeypatch):
    name = study(("published: rises", "published: falls"))
    code, planned = document(call, "run", name, "--dry-run")
    (plan,) = planned["studies"]
    assert (code, plan["name"], plan["trials"], plan["to_run"], plan["finished"]) == (0, "small", 6, 6, 0)
    code, ran = document(call, "run", name)
    (found,) = ran["studies"]
    assert (code, ran["interrupted"], found["run"]["ended"]) == (1, False, 6)
    assert (sum(found["trials"].values()), found["errors"]) == (6, {})
    (claim,) = found["claims"]
    assert (claim["name"], claim["published"], claim["status"]) == ("wide", "falls", "not reproduced")
    assert claim["interval"][0] <= claim["value"] <= claim["interval"][1]
    assert (tmp_path / found["report"]).is_file()
    code, reported = document(call, "report", name, "-o", "page.html")
    assert (code, reported["studies"]) == (1, [found | {"run": None, "report": "page.html"}])

    code, published = document(call, "publish", name, "made", "--quick")
    assert (code, published["studies"][0]["claims"]) == (0, found["claims"])
    assert document(call, "publish", name, "made", "--check") == (0, {"folder": "made", "differences": []})
    (tmp_path / "made" / "claims.csv").unlink()
    code, checked = document(call, "publish", name, "made", "--check")
    assert (code, any("claims.csv" in text for text in checked["differences"])) == (1, True)
    assert document(call, "restore", name, "made", "--store", "again") == (
        0,
        {"store": "again", "restored": 6, "skipped": 0, "unpublished": []},
    )
    assert document(call, "export", "all.csv", "--store", "again") == (0, {"output": "all.csv", "trials": 6})

    _, shown = document(call, "show", name)
    (about,) = shown["studies"]
    assert (about["full"]["trials"], about["full"]["varies"]["model.d_vo"]) == (8, [1, 4])
    assert about["command"] == "factrank study run small.yaml"
    monkeypatch.setattr(studies_of_papers, "PAPERS", {"a2025": (load_study(name),)})
    sizes = {"quick": {"trials": 6, "searches": 0}, "full": {"trials": 8, "searches": 0}}
    entry = {"name": "small", "title": "A small study \x1b[31m[bold]", **sizes}
    assert document(call, "list") == (0, {"papers": [{"name": "a2025", "studies": [entry]}]})


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        ("{curv: true}", "measures: unknown 'curv'; expected additive, "),
        ("{curve: true}", "measures.curve: missing 'epochs'; it takes epochs"),
        ("{ranks: {cp: true}}", "measures.ranks: unknown 'cp'; it takes nothing"),
        ("{curve: {kind: ranks, epochs: [0]}}", "measures.curve: unknown 'kind'; it takes epochs"),
        ("{curve: {epochs: [0, a]}}", "measures.curve.epochs[1] must be int; got 'a'"),
        ("{ranks: [0.5]}", "measures.ranks: expected true, false or a dictionary of options; got [0.5]"),
        ("{saturation: {threshold: 0.9}}", "a LayerShape has no measure Saturation; it has Additive, "),
    ],
)
def test_a_wrong_measure_is_called_by_its_name_in_the_file(call, study, measures, expected):
    code, _, err = call("study", "show", study(("seeds: 4", f"measures: {measures}\nseeds: 4")))
    assert (code, f"small.yaml: {expected}" in err) == (2, True)


def test_run_without_a_report(call, study, tmp_path):
    code, out, err = call("study", "run", study(), "--no-report")
    assert (code, err) == (0, "")
    assert " reproduced" in out
    assert "report:" not in out
    assert {path.name for path in (tmp_path / "factrank-store").iterdir()}.isdisjoint({"reports"})


def test_claims_are_judged_once_per_run(call, study, monkeypatch):
    judged = []

    def counted(claim, *tables):
        judged.append(claim.name)
        return evaluate(claim, *tables)

    monkeypatch.setattr(study_results, "evaluate", counted)
    name = study()
    for command in (
        ("run", name),
        ("report", name),
        ("publish", name, "made", "--quick"),
        ("publish", name, "made", "--check"),
    ):
        judged.clear()
        assert call("study", *command)[0] == 0
        assert judged == ["wide"], command


def test_list_and_show(call, study, monkeypatch):
    assert [one.name for studies in PAPERS.values() for one in studies] == list(CATALOGUE)
    assert not set(PAPERS) & set(CATALOGUE)
    small = load_study(study())
    monkeypatch.setattr(studies_of_papers, "PAPERS", {"a2025": (small, small), "b2026": (small,)})
    code, out, _ = call("study", "list")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "a2025: 2 studies; factrank study run a2025 runs all"
    assert lines[lines.index("") + 1] == "b2026: 1 study; factrank study run b2026 runs all"
    assert [line.split()[:3] for line in lines if line.startswith("small")] == [["small", "6", "8"]] * 2
    code, out, _ = call("study", "show", study())
    assert code == 0
    assert "\x1b" not in out
    assert "\\x1b[31m[bold]" in out
    for line in ("full: 8 trials", "  model.d_vo: 1, 4", "run it: factrank study run small.yaml [--full]"):
        assert line in out.splitlines()


def test_a_dry_run_stores_nothing(call, study, tmp_path):
    code, out, err = call("study", "run", study(), "--dry-run")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "6 trials: 0 finished, 6 to run"
    assert "at most about" in out
    assert not (tmp_path / "factrank-store").exists()
    call("study", "run", study())
    assert call("study", "run", study(), "--dry-run")[1] == "6 trials: 6 finished, 0 to run\n"


def test_a_claim_that_is_not_reproduced_is_a_no(call, study):
    name = study(("published: rises", "published: falls"))
    code, out, _ = call("study", "run", name)
    assert code == 1
    assert "not reproduced" in out
    assert "report: " in out
    assert call("study", "report", name)[0] == 1
    assert call("study", "report", study(("published: rises", "published: 1\n    tolerance: 9")))[0] == 0


def test_failed_trials_are_a_no(call, study):
    name = study(("n_values: 5,", "n_values: 5, n_facts: 99,"))
    code, out, err = call("study", "run", name)
    assert code == 1
    assert "6 trials failed:\n  6 x uniform: n_facts must be at most" in err
    assert "--rerun-failed" in err
    assert "not comparable" in out
    assert "nothing to run" in call("study", "run", name)[1]
    assert call("study", "run", name, "--rerun-failed")[1].startswith("0 trials in ")
    assert "6 failed, 0 to run" in call("study", "run", name, "--dry-run")[1]
    assert "6 failed, 6 to run" in call("study", "run", name, "--dry-run", "--rerun-failed")[1]


PYTHON = """
from pathlib import Path
from factrank import LayerShape
from factrank import Study
from factrank import Training, Trial, generated

Path("executed").touch()
facts = generated("uniform", n_keys=6, n_queries=4, n_values=5, seed=0)
def trials(size):
    return [Trial(facts, LayerShape(4, 1, 2, 2), Training(epochs=5), seed=seed) for seed in range(2)]
STUDY = Study("mine", "Mine", None, "Does it run?", "It is run.", trials)
"""


def test_python_runs_only_when_asked(call, tmp_path):
    (tmp_path / "mine.py").write_text(PYTHON)
    code, _, err = call("study", "run", "mine.py")
    assert (code, (tmp_path / "executed").exists()) == (2, False)
    assert "--python mine.py" in err
    code, _, err = call("study", "run", "--python", "mine.py", "--keep-weights", "--store", "other")
    assert (code, err, (tmp_path / "executed").exists()) == (0, "", True)
    assert len(list((tmp_path / "other" / "weights").iterdir())) == 2
    assert "--python mine.py --store other" in (tmp_path / "other/reports/mine-quick.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run"], "give the name of a study"),
        (["run", "x.yaml", "--python", "x.py"], "give the name of a study"),
        (["run", "x.yaml"], "x.yaml: no such file"),
        (["run", "vo-agains-qk"], "did you mean vo-against-qk"),
        (["run", "wong205"], "did you mean wong2025"),
        (["run", "--python", "x.py"], "x.py: no such file"),
        (["run", "small.yaml", "--store", "small.yaml"], "small.yaml: not a folder"),
        (["run", "small.yaml", "--track", "wandb"], "pip install wandb"),
        (["run", "small.yaml", "--executor", "slurm"], "slurm"),
        (["report", "small.yaml", "-o", "x.pdf"], "ends in .html"),
        (["report", "small.yaml", "--store", "nowhere"], "there are no stored results"),
        (["export", "x.csv"], "there are no stored results"),
        (["publish", "small.yaml", "folder"], "there are no stored results"),
        (["publish", "nonsense", "folder"], "there is no study or paper 'nonsense'"),
        (["publish", "small.yaml"], "FOLDER"),
        (["show", "small.yaml", "--nonsense"], "nonsense"),
    ],
)
def test_bad_input(call, study, monkeypatch, arguments, expected):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(trackers, "import_module", missing)
    study()
    code, _, err = call("study", *arguments)
    assert code == 2
    assert expected in err


def test_foreign_files_in_the_store_are_named_and_left(call, study, tmp_path):
    call("study", "run", study())
    strange = tmp_path / "factrank-store" / "trials" / "strange.parquet"
    strange.write_bytes(b"PAR1 nonsense")
    code, _, err = call("study", "run", study())
    assert code == 0
    assert "strange.parquet" in err
    assert strange.read_bytes() == b"PAR1 nonsense"


def test_trackers_hear_of_every_trial_once(call, study, monkeypatch, tmp_path):
    heard, closed = [], []

    def start(config, **_):
        return SimpleNamespace(summary={}, finish=lambda exit_code: heard.append(config))

    class Writer:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, number, step):
            heard.append((name, step))

        def close(self):
            closed.append(self.folder)

    modules = {
        "wandb": SimpleNamespace(init=start),
        "tensorboardX": SimpleNamespace(SummaryWriter=Writer),
    }
    monkeypatch.setattr(trackers, "import_module", modules.__getitem__)
    assert call("study", "run", study(), "--track", "wandb")[0] == 0
    assert len(heard) == len({row["hash"] for row in heard}) == 6
    heard.clear()
    assert call("study", "run", study(), "--store", "other", "--track", "tensorboard")[0] == 0
    assert sorted(step for name, step in heard if name == "loss") == [1, 2, 3, 4, 5, 6]
    assert closed == ["other/tensorboard/small"]


# -------------------------------------------------------------------- papers


@pytest.fixture
def paper(study, monkeypatch):
    """A paper of three small studies; the claim of the first is not reproduced."""
    texts = (
        ("one", [("published: rises", "published: falls")]),
        ("two", []),
        ("three", [("published: rises", "published: null"), ("d_vo: [1, 4]", "d_vo: [1, 2]")]),
    )
    studies = tuple(
        load_study(study(("name: small", f"name: {name}"), *changes, name=f"{name}.yaml")) for name, changes in texts
    )
    monkeypatch.setitem(PAPERS, "paper2025", studies)
    return studies


def test_a_paper_runs_all_its_studies(call, paper, tmp_path):
    """A claim that is not reproduced stops nothing, and decides the exit code; three tables leave the sentence open."""
    code, out, err = call("study", "run", "paper2025")
    assert (code, err) == (1, "")
    headings = [line for line in out.splitlines() if " of 3): A small study" in line]
    assert [line.split()[0] for line in headings] == ["one", "two", "three"]
    assert "\x1b" not in out
    assert out.index("6 trials in ") < out.index("nothing to run: all 6 trials are stored") < out.index("3 trials in ")
    assert out.count("report: factrank-store/reports/") == 3
    assert out.endswith("\nin all: 3 studies, 1 published statement: 1 undecided; 1 claim not counted\n")
    page = (tmp_path / "factrank-store" / "reports" / "two-quick.html").read_text(encoding="utf-8")
    assert "factrank study run two<" in page

    code, again, _ = call("study", "report", "paper2025")
    assert (code, again.splitlines()[-1]) == (1, out.splitlines()[-1])
    assert call("study", "run", "paper2025")[1].count("nothing to run: all 6 trials are stored") == 3
    dry = call("study", "run", "paper2025", "--dry-run")[1]
    assert dry.count("6 trials: 6 finished, 0 to run") == 3
    code, _, err = call("study", "report", "paper2025", "-o", "x.html")
    assert (code, "paper2025 has 3 studies" in err) == (2, True)
    assert call("study", "show", "paper2025")[1].count("run it: factrank study run ") == 3


def test_ctrl_c_stops_a_paper_at_once(call, paper, monkeypatch):
    begun = []

    def interrupted(study, *_, **__):
        begun.append(study.name)
        return RunSummary(6, 0, 6, 0, 1.0) if study.name == "one" else RunSummary(6, 0, 2, 0, 1.0, interrupted=True)

    monkeypatch.setattr(runner, "run_study", interrupted)
    code, out, err = call("study", "run", "paper2025")
    assert (code, begun) == (130, ["one", "two"])
    assert "interrupted; 2 of 6 trials are stored in factrank-store; the same command continues with the others" in err
    assert "in all" not in out
    begun.clear()
    code, out, err = call("study", "run", "paper2025", "--json")
    found = json.loads(out)
    assert (code, begun, found["interrupted"]) == (130, ["one", "two"], True)
    assert [one["name"] for one in found["studies"]] == ["one"]
    assert "the same command continues with the others" in err


def test_lost_curves_are_named_and_run_again(call, study, tmp_path):
    name = study(("seeds: 4", "measures: {curve: {epochs: [0, 30]}}\nseeds: 4"))
    call("study", "run", name)
    for path in (tmp_path / "factrank-store" / "curves").iterdir():
        path.unlink()
    lost = "factrank: factrank-store/curves: 6 trials have lost their curves ("
    for command in (("report", name), ("publish", name, "made", "--quick"), ("export", "all.csv")):
        code, _, err = call("study", *command)
        assert (code, err.startswith(lost), err.endswith("they are to be run again\n")) == (
            command[0] == "publish",
            True,
            True,
        )
    assert "6 to run" in call("study", "run", name, "--dry-run")[1]
    code, out, err = call("study", "run", name)
    assert (code, err, out.startswith("6 trials in ")) == (0, "", True)
    assert call("study", "run", name)[1].startswith("nothing to run")
    assert call("study", "publish", name, "made", "--quick")[0] == 0


def test_ctrl_c_while_a_report_is_written(call, paper, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(study_report, "write_report", interrupted)
    code, out, err = call("study", "run", "paper2025")
    assert (code, err) == (130, "factrank: interrupted; the same command resumes\n")
    assert "two (2 of 3)" not in out
    monkeypatch.undo()


def test_publish_and_check(call, paper, tmp_path):
    call("study", "run", "paper2025")
    code, out, err = call("study", "publish", "paper2025", "made/up", "--quick")
    assert (code, err) == (0, "")
    assert out == "made/up: 3 studies, 1 published statement: 1 undecided; 1 claim not counted\n"
    checked = call("study", "publish", "paper2025", "made/up", "--check")
    assert checked == (0, "made/up: no difference from its checksums, its tables and its text\n", "")
    code, out, err = call("study", "publish", "paper2025", "made/nowhere", "--check")
    assert (code, out, "made/nowhere: no such folder" in err) == (2, "", True)
    (tmp_path / "made" / "up" / "text.md").write_text("{{trials one}} trials, {{claim one | wide}}.\n")
    code, out, _ = call("study", "publish", "paper2025", "made/up", "--check")
    assert (code, "made/up/README.md, line 3: " in out) == (1, True)
    assert call("study", "publish", "paper2025", "made/up", "--quick")[0] == 0
    assert "6 trials, 0." in (tmp_path / "made" / "up" / "README.md").read_text(encoding="utf-8")

    code, out, err = call("study", "publish", "paper2025", "made/full")
    assert (code, "only its quick size was run (6 trials)" in err) == (2, True)
    assert not (tmp_path / "made" / "full").exists()
    (tmp_path / "made" / "up" / "tables" / "old.parquet").touch()
    _, _, err = call("study", "publish", "paper2025", "made/up", "--quick")
    assert err == "factrank: made/up/tables/old.parquet: no study of paper2025 has this file; it is left in place\n"
    assert call("study", "publish", "two.yaml", "made/one", "--quick")[1] == (
        "made/one: 1 study, 1 published statement: 1 undecided\n"
    )
    said = call("study", "restore", "two.yaml", "made/one", "--store", "again")
    assert said == (0, "6 trials restored to again\n", "")
    code, out, err = call("study", "restore", "two.yaml", "made/nowhere", "--store", "again")
    assert (code, out, "made/nowhere/tables/two.parquet: no such file" in err) == (2, "", True)


# -------------------------------------------------------------------- processes


ENDED_AFTER_THE_FIRST_RESULT = """
import os, signal, sys
from factrank.__main__ import main
from factrank.experiments.execution import runner
from factrank.experiments.store.store import Store

append, runner.PART_SECONDS = Store.append, 0.0

def append_and_end(*arguments, **options):
    Store.append = append
    append(*arguments, **options)
    os.kill(os.getpid(), signal.{kind})

Store.append = append_and_end
main()
"""


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_ended_resumes(call, study, tmp_path, kind):
    """Ctrl-C explains how to resume and has its exit code; after kill -9 what was stored is there."""
    name = study(("grid: {", "grid: {training.epochs: [60, 20000], "))
    command = ["study", "run", name]
    ended = subprocess.run(
        [sys.executable, "-c", ENDED_AFTER_THE_FIRST_RESULT.format(kind=kind.name), *command],
        cwd=tmp_path,
        env=os.environ | {"FACTRANK_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    store = Store(tmp_path / "factrank-store")
    before = store.finished()
    assert 0 < len(before) < 12
    if kind == signal.SIGINT:
        assert ended.returncode == 130
        stored = f"{len(before)} of 12 trials are stored in factrank-store"
        assert f"interrupted; {stored}; the same command continues with the others" in ended.stderr
    else:
        assert ended.returncode == -signal.SIGKILL
    code, out, err = call(*command)
    assert (code, err) == (0, "")
    assert f", {len(before)} were stored before" in out
    assert len(store.finished()) == store.trials().num_rows == 12
