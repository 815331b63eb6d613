"""The tasks of workers, on tables that are out of the ordinary."""

import json
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="extra 'app' is not installed")

from factrank.app.server import tasks
from factrank.app.server.limits import Limits

TABLE = "key,query,value\nOslo,country,Norway\nLima,country,Peru\n"


def read_and_measured(folder, text, name="facts.csv", **options):
    """Do the real tasks on an upload in a folder, as two workers would; returns the results and their payloads."""
    found = []
    for kind, of_job in (("read", {}), ("measure", {"budget": 0})):
        (folder / kind / "upload").mkdir(parents=True)
        (folder / kind / "upload" / name).write_text(text)
        table = {"file": name, "title": name, "options": options}
        with chdir(folder / kind):
            request = {"table": table, "options": of_job, "limits": asdict(Limits())}
            found.append(
                (tasks.TASKS[kind](request, lambda *_, **__: None), json.loads(Path("payload.json").read_text()))
            )
    return found


def test_results_do_not_overwrite_the_upload_and_say_what_they_are_about(tmp_path):
    (_, table), (_, size) = read_and_measured(tmp_path, "Oslo,country,Norway\nLima,country,Peru\n", header=False)
    assert size["about"] == table["about"] == table["database"]["fingerprint"]
    assert (tmp_path / "read/upload/facts.csv").read_text() == "Oslo,country,Norway\nLima,country,Peru\n"
    assert (tmp_path / "read/facts.csv").read_text().startswith("key,query,value\n")


def test_tables_without_a_plan_can_be_read(tmp_path):
    """There is no plan for several values of one (key, query), nor for a single value."""
    for name, text, options in (
        ("several", TABLE + "Oslo,country,Peru\n", {"multi": True}),
        ("one", "key,query,value\na,b,c\n", {}),
    ):
        ((result, _), _) = read_and_measured(tmp_path / name, text, **options)
        assert result["facts"] == {"several": 3, "one": 1}[name]
        assert result["suggested"] == tasks.DEFAULT_SIZES
