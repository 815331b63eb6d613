"""`factrank study` with other seeds and settings, studies in Python, and what is published."""

import pytest
from test_study_command import document, study

__all__ = ["study"]


CHANGES = ("--seeds", "2", "--set", "model.d_vo=1,2")


def test_the_same_options_run_report_publish_and_restore(call, study, tmp_path):
    """A study with other seeds and settings is run, published, checked and restored by the same words."""
    name = study()
    _, shown = document(call, "show", name, *CHANGES)
    (about,) = shown["studies"]
    assert about["quick"] == about["full"] | {"varies": about["quick"]["varies"]}
    assert about["command"] == "factrank study run small.yaml --seeds 2 --set model.d_vo=1,2"
    code, ran = document(call, "run", name, "--full", "--no-report", *CHANGES)
    assert (code in (0, 1), ran["studies"][0]["run"]["ended"]) == (True, 4)
    assert document(call, "report", name, "--full", "-o", "page.html", *CHANGES)[1]["studies"][0]["trials"] == {
        "finished": 4
    }
    assert "Changed: 2 seeds; model.d_vo = 1, 2." in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert document(call, "publish", name, "made", *CHANGES)[0] == 0
    assert "Changed: 2 seeds" in (tmp_path / "made" / "README.md").read_text(encoding="utf-8")
    assert document(call, "publish", name, "made", "--check", *CHANGES)[0] == 0
    assert call("study", "publish", name, "made", "--check")[0] == 1
    restored = document(call, "restore", name, "made", "--store", "again", *CHANGES)[1]
    assert (restored["restored"], restored["skipped"]) == (4, 0)


def test_a_python_study_is_published(call, study, tmp_path):
    study()
    (tmp_path / "mine.py").write_text(
        "from factrank.experiments.study import load_study\nSTUDY = load_study('small.yaml')\n"
    )
    assert document(call, "run", "--python", "mine.py", "--no-report")[0] in (0, 1)
    assert document(call, "publish", "--python", "mine.py", "made", "--quick")[0] == 0
    assert (tmp_path / "made" / "README.md").read_text(encoding="utf-8").count("# mine") == 1
    assert document(call, "publish", "--python", "mine.py", "made", "--check")[0] == 0
    assert document(call, "restore", "--python", "mine.py", "made", "--store", "again")[1]["restored"] == 6
    code, _, err = call("study", "publish", "mine.py", "made")
    assert (code, "--python mine.py" in err) == (2, True)


def test_a_quick_run_is_not_published_as_a_full_one(call, study, tmp_path):
    name = study()
    call("study", "run", name, "--no-report")
    code, _, err = call("study", "publish", name, "made")
    assert code == 2
    assert "only its quick size was run (6 trials), so it cannot be published as the full one" in err
    assert not (tmp_path / "made").exists()
    assert call("study", "publish", name, "made", "--quick")[0] == 0
    call("study", "run", name, "--full", "--no-report")
    assert call("study", "publish", name, "made")[0] == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--set", "model.d_vo"], "--set model.d_vo: expected NAME=VALUES, such as model.d_vo=1,2,4"),
        (["--set", "model.d_vo="], "expected NAME=VALUES"),
        (["--set", "model.d_vo=1", "--set", "model.d_vo=2"], "model.d_vo is given twice"),
        (["--set", "model.wings=2"], "wings"),
        (["--seeds", "0"], "at least one seed; got 0"),
    ],
)
@pytest.mark.parametrize("command", [["run", "--dry-run"], ["publish"]])
def test_options_that_cannot_be(call, study, command, options, problem):
    folder = ["made"] if command == ["publish"] else []
    code, _, err = call("study", command[0], study(), *folder, *command[1:], *options)
    assert (code, problem in err) == (2, True), err
