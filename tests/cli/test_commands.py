"""The command line as users see it: output, exit codes, and never a traceback for their own mistakes."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from factrank.databases.files.formats import read, write
from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.databases.generators.association_tables import associations
from factrank.databases.generators.named import matmul
from factrank.databases.sample_tables import SAMPLES, sample


def test_version(call):
    import factrank

    assert call("--version") == (0, f"factrank {factrank.__version__}\n", "")


def test_measure_prints_a_table(call):
    code, out, err = call("measure", "sample:astrid")
    assert (code, err) == (0, "")
    for words in ("8 facts: 5 keys x 3 queries -> 4 values", "functional, not full", "16.0 bits", "effective rank"):
        assert words in out


def test_measure_json_has_the_promised_fields(call):
    code, out, err = call("measure", "sample:astrid", "--json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    sizes = {"triples": 8, "keys": 5, "queries": 3, "values": 4, "functional": True, "full": False}
    assert {name: data[name] for name in sizes} == sizes
    assert (data["bits"], data["bits_by_query"]) == (16.0, 8.0)
    for name, bracket in (("rank", (5, 5)), ("completion_rank", (4, 5)), ("effective_rank", (2, 2))):
        assert (data[name]["lower"]["value"], data[name]["upper"]["value"]) == bracket
        assert data[name]["estimate"] is None
        for side in ("lower", "upper"):
            assert set(data[name][side]) == {"value", "method", "certified"}
            assert data[name][side]["certified"] is True


def test_measure_explains(call):
    _, out, _ = call("measure", "sample:astrid", "--explain")
    assert "5 terms that add up to the table" in out
    assert "(Astrid + Bernard + Colin) x (born_in + lives_in) x Singapore" in out
    assert "the bounds already meet" in out


def test_names_are_not_markup(call, tmp_path):
    """Square brackets in names are printed as they are, not taken for styles."""
    (tmp_path / "marked.csv").write_text("key,query,value\n[red]a,[/b],[link=x]c\n", encoding="utf-8")
    code, out, _ = call("measure", "marked.csv", "--explain")
    assert code == 0
    assert "[red]a x [/b] x [link=x]c" in out


def test_measure_draws(call, tmp_path):
    assert call("measure", "sample:astrid", "--chart", "sizes.svg")[0] == 0
    assert "astrid" in (tmp_path / "sizes.svg").read_text(encoding="utf-8")
    code, _, err = call("measure", "sample:astrid", "--chart", "sizes.pdf")
    assert code == 2
    assert "sizes.pdf" in err


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "jsonl", "nt.gz", "parquet"])
def test_convert_and_measure_every_format(call, tmp_path, suffix):
    code, out, _ = call("convert", "sample:elements", f"elements.{suffix}")
    assert (code, out) == (0, f"764 facts written to elements.{suffix}\n")
    assert read(tmp_path / f"elements.{suffix}") == sample("elements")
    assert json.loads(call("measure", f"elements.{suffix}", "--json", "--budget", "0")[1])["triples"] == 764


def test_wide_and_long_options(call, tmp_path):
    write(sample("astrid"), tmp_path / "wide.csv", wide=True)
    assert json.loads(call("measure", "wide.csv", "--wide", "--json")[1])["rank"]["upper"]["value"] == 5
    (tmp_path / "odd.csv").write_text("id,what,of,who\n1,x,born,Ann\n2,y,born,Bob\n", encoding="utf-8")
    assert json.loads(call("measure", "odd.csv", "--long", "who", "of", "what", "--json")[1])["triples"] == 2
    assert json.loads(call("measure", "odd.csv", "--long", "4", "3", "2", "--json")[1])["triples"] == 2
    (tmp_path / "bare.tsv").write_text("Ann\tborn\tx\nBob\tborn\ty\n", encoding="utf-8")
    code, _, err = call("measure", "bare.tsv")
    assert code == 2
    assert "--no-header" in err
    assert json.loads(call("measure", "bare.tsv", "--no-header", "--json")[1])["triples"] == 2


def test_several_values_need_multi(call, tmp_path):
    (tmp_path / "multi.csv").write_text("key,query,value\na,q,x\na,q,y\n", encoding="utf-8")
    code, _, err = call("measure", "multi.csv")
    assert code == 2
    for words in ("multi.csv", "(a, q)", "x", "y", "--multi"):
        assert words in err
    code, out, _ = call("measure", "multi.csv", "--multi", "--json")
    assert (code, json.loads(out)["functional"]) == (0, False)


def test_multi_valued_tables_say_which_view_is_functional(call, tmp_path):
    (tmp_path / "cities.csv").write_text("key,query,value\nPeru,city,Lima\nPeru,city,Cusco\n", encoding="utf-8")
    out = call("measure", "cities.csv", "--multi")[1]
    assert "multi-valued" in out
    assert "(query, value) determine the key" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["measure", "missing.csv"], ["missing.csv"]),
        (["measure", "."], ["directory"]),
        (["measure", "sample:nothing"], ["nothing", "astrid", "elements", "countries"]),
        (["measure", "sample:astrid", "--wide"], ["sample:astrid"]),
        (["measure", "x.csv", "--wide", "--long", "a", "b", "c"], ["--long", "--wide"]),
        (["measure", "sample:astrid", "--budget", "-1"], ["budget"]),
        (["convert", "sample:astrid", "out.xyz"], ["out.xyz", ".csv"]),
        (["convert", "sample:astrid", "no/such/folder/out.csv"], ["no/such/folder"]),
        (["generate", "nonsense", "-o", "x.csv"], ["nonsense", "uniform"]),
        (["generate", "uniform", "--keys", "3", "-o", "x.csv"], ["--queries", "--values"]),
        (["generate", "unit", "--size", "3", "--rank", "2", "-o", "x.csv"], ["--rank", "--size"]),
        (["generate", "boxes", "--box", "3by2", "-o", "x.csv"], ["--box", "3x2"]),
        (["generate", "unit", "--size", "3", "--seed", "4", "-o", "x.csv"], ["--seed"]),
        (["generate", "associations", "--inputs", "3", "-o", "x.csv"], ["--outputs"]),
        (["generate", "associations", "--inputs", "3", "--outputs", "2", "-o", "x.csv"], ["--outputs >= --inputs = 3"]),
        (
            ["generate", "associations", "--inputs", "3", "--outputs", "3", "--function", "odd", "-o", "x.csv"],
            ["--function must be one of injective, random"],
        ),
        (["nonsense"], ["nonsense"]),
        (["measure", "sample:astrid", "--nonsense"], ["--nonsense"]),
    ],
)
def test_mistakes_exit_with_2_and_say_what_was_expected(call, arguments, words):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    for word in words:
        assert word in err


def test_generate_writes_and_knows_planted_ranks(call, tmp_path):
    code, out, _ = call("generate", "boxes", "--box", "3x2", "--box", "2x2", "-o", "boxes.csv")
    assert code == 0
    assert "rank exactly 2" in out
    assert json.loads(call("measure", "boxes.csv", "--json")[1])["rank"]["upper"]["value"] == 2
    assert call("generate", "matmul", "--size", "2", "-o", "matmul.nt")[0] == 0
    assert read(tmp_path / "matmul.nt") == matmul(2)


def test_generate_functions_and_answer_sets(call, tmp_path):
    sizes = ["--inputs", "4", "--outputs", "9", "--function", "random"]
    assert call("generate", "associations", *sizes, "-o", "f.csv")[0] == 0
    assert set(read(tmp_path / "f.csv")) == set(associations(4, 9, kind="random", seed=0))
    sizes = ["--keys", "5", "--queries", "3", "--answers-per-query", "2", "--structure", "structured"]
    assert call("generate", "answer-sets", *sizes, "--seed", "3", "-o", "a.csv")[0] == 0
    assert set(read(tmp_path / "a.csv")) == set(answer_sets(5, 3, 2, structure="structured", seed=3))


def test_generated_files_depend_on_the_seed_alone(call, tmp_path):
    sizes = ["uniform", "--keys", "9", "--queries", "5", "--values", "7", "--facts", "30"]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert call("generate", *sizes, "--seed", seed, "-o", f"{name}.csv")[0] == 0
    first, again, other = (read(tmp_path / f"{name}.csv") for name in "abc")
    assert first == again != other


def test_samples_are_listed_with_their_sources(call):
    _, out, _ = call("samples")
    for name, entry in SAMPLES.items():
        assert f"sample:{name}" in out
        assert f"{entry.n_facts:,}" in out


def test_samples_generate_and_convert_as_json(call, tmp_path):
    listed = json.loads(call("samples", "--json")[1])["samples"]
    assert [one["name"] for one in listed] == [f"sample:{name}" for name in SAMPLES]
    assert [one["facts"] for one in listed] == [one.n_facts for one in SAMPLES.values()]
    code, out, err = call("generate", "boxes", "--box", "3x2", "--box", "2x2", "-o", "boxes.csv", "--json")
    found = json.loads(out)
    assert (code, err, found["output"], found["facts"], found["rank"]) == (0, "", "boxes.csv", 10, 2)
    assert json.loads(call("generate", "matmul", "--size", "2", "-o", "m.csv", "--json")[1])["rank"] is None
    assert json.loads(call("convert", "boxes.csv", "b.nt", "--json")[1]) == {"output": "b.nt", "facts": 10}
    assert len(read(tmp_path / "b.nt")) == 10


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(call, tmp_path):
    write(sample("astrid"), tmp_path / "secret.csv")
    (tmp_path / "secret.csv").chmod(0)
    code, _, err = call("measure", "secret.csv")
    assert code == 2
    assert "secret.csv" in err


FACTRANK = Path(sys.executable).with_name("factrank")


def test_names_that_the_terminal_cannot_show(tmp_path):
    (tmp_path / "facts.csv").write_text("key,query,value\nZürich,größe,hoch\n", encoding="utf-8")
    plain = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    call = [FACTRANK, "measure", "facts.csv", "--explain"]
    run = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env=plain, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert r"Z\xfcrich x gr\xf6\xdfe x hoch" in run.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_an_error_without_a_traceback():
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([FACTRANK, "samples"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    assert "No space left" in run.stderr


def test_a_reader_that_leaves_early_is_no_error():
    shell = f"{shlex.quote(str(FACTRANK))} measure sample:countries --explain --budget 0 | head -n 1"
    run = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("sample:countries\n", "")


def test_a_chart_that_cannot_be_written_is_said_before_measuring(call, monkeypatch):
    def never(*_args, **_kwargs):
        raise AssertionError("measured although the chart cannot be written")

    monkeypatch.setattr("factrank.tensors.measure", never)
    assert call("measure", "sample:astrid", "--chart", "nowhere/sizes.svg")[0] == 2
