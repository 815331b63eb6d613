"""Train, recall and ask as users see them: output, exit codes, and never a traceback for their own mistakes.

Every shape is compiled once; the tests share the layers of a few small trainings.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from factrank.cli import run as run_command_line
from factrank.databases.database import Database
from factrank.databases.files.formats import read, write
from factrank.databases.sample_tables import sample
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.circuits.attribution import attribute
from factrank.families.attention.layer_files import load_layer, save_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.readouts.readout import softmax_at
from factrank.readouts.recall_report import recall

SMALL = ["--d-model", "4", "--heads", "1", "--d-qk", "2", "--d-vo", "2"]
FIELDS = {"shape", "parameters", "facts", "recall", "recall_tau", "margin", "seeds"}


@pytest.fixture(scope="module")
def astrid_layer(tmp_path_factory):
    """A layer trained on sample:astrid by the command itself, and what the command printed as JSON."""
    path = tmp_path_factory.mktemp("layers") / "astrid.safetensors"
    arguments = ["train", "sample:astrid", *SMALL, "--seeds", "2", "--epochs", "300", "-o", str(path), "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["factrank", *arguments])
        printed = []
        patch.setattr("typer.echo", lambda text, **_: printed.append(text))
        with pytest.raises(SystemExit) as ended:
            run_command_line()
    assert not ended.value.code
    return path, json.loads(printed[0])


def test_train_recall_ask(call, astrid_layer):
    """The three commands agree with each other and with the library."""
    path, trained = astrid_layer
    saved = load_layer(path)
    assert saved.database == sample("astrid")
    assert trained["recall"] == trained["recall_tau"] == 1
    assert (saved.notes["seed"], saved.notes["recall"]) == (str(trained["best_seed"]), "1.0")

    code, out, err = call("recall", path, "sample:astrid", "--json")
    recalled = json.loads(out)
    assert (code, err) == (0, "")
    for name in FIELDS - {"seeds", "margin"}:
        assert recalled[name] == trained[name]
    assert recalled["hallucinations"] == trained["hallucinations"]
    assert recalled["margin"] == pytest.approx(trained["margin"], rel=1e-4)
    assert recalled["margin"] == pytest.approx(recall(saved.layer, saved.database).margin)

    for key in saved.database.keys:
        for query in saved.database.queries:
            answer = json.loads(call("ask", path, key, query, "--json")[1])
            facts = list(saved.database.fiber(key, query))
            assert (answer["facts"], answer["verdict"]) == (facts, "fact" if facts else "hallucination")
            if facts:
                assert [answer["answer"]] == facts
                assert answer["confident"]
                assert answer["margin"] >= recalled["margin"] * 0.999


def test_hallucinations_asked_one_by_one_are_those_that_recall_counts(call, astrid_layer):
    path, trained = astrid_layer
    database = sample("astrid")
    silent = [(k, q) for k in database.keys for q in database.queries if not database.fiber(k, q)]
    answers = [json.loads(call("ask", path, *pair, "--json")[1]) for pair in silent]
    assert sum(answer["confident"] for answer in answers) == trained["hallucinations"]


def test_train_json_has_the_promised_fields(astrid_layer):
    _, trained = astrid_layer
    assert set(trained) >= FIELDS | {"hallucinations"}
    assert trained["shape"] == {"d_model": 4, "n_heads": 1, "d_qk": 2, "d_vo": 2}
    assert (trained["facts"], trained["parameters"], trained["bits_per_parameter"]) == (8, 80, 0.2)
    assert [seed["seed"] for seed in trained["seeds"]] == [0, 1]
    best = trained["seeds"][trained["best_seed"]]
    order = ("recall", "recall_tau", "margin")
    assert [trained[name] for name in order] == [best[name] for name in order]
    assert all([best[name] for name in order] >= [seed[name] for name in order] for seed in trained["seeds"])


def test_recall_json_has_the_promised_fields(call, astrid_layer):
    path, _ = astrid_layer
    recalled = json.loads(call("recall", path, "sample:astrid", "--json")[1])
    assert set(recalled) >= FIELDS | {"hallucinations"}
    assert [query["query"] for query in recalled["by_query"]] == list(sample("astrid").queries)
    assert sum(query["facts"] for query in recalled["by_query"]) == 8
    assert recalled["trained_on"] == {"facts": 8, "shared": 8}
    assert recalled["diagnosis"]["findings"] == []
    assert len(recalled["attention"]) == len(recalled["attribution"]["heads_alone"]) == 1


def test_what_people_read(call, astrid_layer):
    path, _ = astrid_layer
    code, out, err = call("train", "sample:astrid", *SMALL, "--seeds", "2", "--epochs", "300")
    assert (code, err) == (0, "")
    for words in ("8 facts: 5 keys x 3 queries -> 4 values", "80 parameters", "0.2 per parameter", "2 of 2 seeds"):
        assert words in out
    code, out, _ = call("recall", path, "sample:astrid")
    assert code == 0
    for words in ("hallucinations", "born_in", "weight on key", "Nothing is wrong"):
        assert words in out
    code, out, _ = call("ask", path, "Astrid", "born_in")
    assert code == 0
    assert out.splitlines()[:2] == ["(Astrid, born_in) -> Singapore", "a fact"]
    assert "adds to the margin" in out
    assert "has no fact here" in call("ask", path, "Astrid", "currency")[1]


def test_contributions_add_up_to_the_margin(call, astrid_layer):
    path, _ = astrid_layer
    answer = json.loads(call("ask", path, "Colin", "born_in", "--json")[1])
    parts = answer["contributions"]
    assert parts["direct"] + sum(parts["heads"]) == pytest.approx(answer["margin"], rel=1e-5)
    saved = load_layer(path)
    at = saved.database.keys.index("Colin"), saved.database.queries.index("born_in")
    assert parts["heads"] == pytest.approx(attribute(saved.layer, *at).heads)
    probabilities = softmax_at(saved.layer, *(np.array([code], dtype=np.int32) for code in at))[0]
    assert answer["probability"] == pytest.approx(probabilities.max())
    assert [each["probability"] for each in answer["top"]] == pytest.approx(sorted(probabilities, reverse=True)[:5])


def test_an_untrained_layer_errs_and_is_diagnosed(call, tmp_path):
    facts = sample("astrid")
    save_layer(tmp_path / "raw.safetensors", init_layer(LayerShape(4, 1, 2, 2), *facts.shape, key=1), facts)
    code, out, _ = call("recall", "raw.safetensors", "sample:astrid")
    assert code == 0
    assert "unstored:" in out
    answers = [json.loads(call("ask", "raw.safetensors", key, query, "--json")[1]) for key, query, _ in facts]
    wrong = next(answer for answer in answers if answer["verdict"] == "error")
    out = call("ask", "raw.safetensors", wrong["key"], wrong["query"])[1]
    assert f"an error: the fact is {wrong['facts'][0]}" in out


def test_a_tie_with_a_fact_is_an_error(call, tmp_path):
    facts = Database.from_facts([("a", "q", "x"), ("b", "q", "y")])
    zero = jax.tree.map(np.zeros_like, init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0))
    save_layer(tmp_path / "zero.safetensors", zero, facts)
    out = call("ask", "zero.safetensors", "a", "q")[1]
    assert "an error: a tie with y; the fact is x" in out
    assert "0.00" not in out  # of a contribution of nothing
    assert json.loads(call("recall", "zero.safetensors", save(facts, tmp_path), "--json")[1])["recall"] == 0


def test_a_tie_of_three_is_an_error_unless_all_are_facts(call, tmp_path):
    facts = Database.from_facts([("a", "q", "x"), ("a", "q", "y"), ("b", "q", "z")], multi=True)
    zero = jax.tree.map(np.zeros_like, init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0))
    save_layer(tmp_path / "zero.safetensors", zero, facts)
    assert "an error: a tie with z; the facts are x, y" in call("ask", "zero.safetensors", "a", "q")[1]
    assert json.loads(call("ask", "zero.safetensors", "a", "q", "--json")[1])["verdict"] == "error"


def save(facts, folder):
    write(facts, folder / "facts.csv")
    return "facts.csv"


def test_layers_without_parts_answer_all_the_same(call, tmp_path):
    facts = sample("astrid")
    model = init_transformer(TransformerShape(4, 1, 2, 2, layer_norm=True, mlp_width=3), *facts.shape, key=0)
    save_layer(tmp_path / "deep.safetensors", model, facts)
    answer = json.loads(call("ask", "deep.safetensors", "Astrid", "born_in", "--json")[1])
    assert answer["contributions"] is None
    assert call("ask", "deep.safetensors", "Astrid", "born_in")[0] == 0
    recalled = json.loads(call("recall", "deep.safetensors", "sample:astrid", "--json")[1])
    assert (recalled["attribution"], recalled["attention"]) == (None, None)
    assert call("recall", "deep.safetensors", "sample:astrid")[0] == 0


def test_one_value_and_numbers_that_json_lacks(call, tmp_path):
    facts = Database.from_facts([("a", "q", "x"), ("b", "q", "x")])
    save_layer(tmp_path / "one.safetensors", init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0), facts)
    answer = json.loads(call("ask", "one.safetensors", "a", "q", "--json")[1])
    assert (answer["verdict"], answer["probability"], answer["margin"], answer["competitor"]) == ("fact", 1, None, None)
    assert call("ask", "one.safetensors", "a", "q")[0] == 0
    assert json.loads(call("recall", "one.safetensors", save(facts, tmp_path), "--json")[1])["margin"] is None
    broken = jax.tree.map(lambda part: np.full_like(part, np.nan), load_layer(tmp_path / "one.safetensors").layer)
    save_layer(tmp_path / "nan.safetensors", broken, facts)
    code, _, err = call("ask", "nan.safetensors", "a", "q")
    assert code == 2
    assert "NaN or infinite" in err
    assert json.loads(call("recall", "nan.safetensors", "facts.csv", "--json")[1])["recall"] == 0


def test_names_with_markup_unicode_and_control_characters(call, tmp_path):
    """They are shown as they are, never taken for styles, and cannot write to the terminal behind our back."""
    odd = [("[red]Zürich[/red]", "größe", "[link=x]hoch"), ("<b>东京</b>\x1b[31m", "größe", "k" * 5000)]
    facts = Database.from_facts(odd)
    save_layer(tmp_path / "odd.safetensors", init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0), facts)
    out = call("ask", "odd.safetensors", "[red]Zürich[/red]", "größe")[1]
    for words in ("([red]Zürich[/red], größe) -> ", "[link=x]hoch", "kkk..."):
        assert words in out
    out = call("ask", "odd.safetensors", odd[1][0], "größe")[1]
    assert r"<b>东京</b>\x1b[31m" in out
    assert "\x1b" not in out
    assert json.loads(call("ask", "odd.safetensors", odd[1][0], "größe", "--json")[1])["key"] == odd[1][0]
    write(facts, tmp_path / "[bold]odd.csv")
    out = call("recall", "odd.safetensors", "[bold]odd.csv")[1]
    assert "odd.safetensors on [bold]odd.csv" in out
    assert "größe" in out


def test_several_values_for_one_question(call, tmp_path):
    (tmp_path / "multi.csv").write_text("key,query,value\na,q,x\na,q,y\nb,q,z\n", encoding="utf-8")
    code, _, err = call("train", "multi.csv", *SMALL)
    assert code == 2
    assert "--multi" in err
    arguments = ["multi.csv", "--multi", "--tau", "0.4", "--json"]
    code, out, _ = call("train", *arguments, *SMALL, "--seeds", "2", "--epochs", "400", "-o", "multi.safetensors")
    assert (code, json.loads(out)["recall_tau"]) == (0, 1)
    assert json.loads(call("recall", "multi.safetensors", *arguments)[1])["recall"] == 1
    answer = json.loads(call("ask", "multi.safetensors", "a", "q", "--json")[1])
    assert (answer["verdict"], answer["facts"]) == ("fact", ["x", "y"])
    assert "a fact; so is " in call("ask", "multi.safetensors", "a", "q")[1]


def test_other_tables_with_the_same_names(call, astrid_layer, tmp_path):
    path, _ = astrid_layer
    lines = "key,query,value\nColin,born_in,Malaysia\nAstrid,born_in,Dollar\n"
    (tmp_path / "rumours.csv").write_text(lines, encoding="utf-8")
    recalled = json.loads(call("recall", path, "rumours.csv", "--json")[1])
    assert (recalled["facts"], recalled["recall"]) == (2, 0.5)
    assert recalled["trained_on"] == {"facts": 8, "shared": 1}
    assert "trained on 8 facts, including 1 of these 2" in call("recall", path, "rumours.csv")[1]


def test_many_queries_are_cut_in_the_terminal_only(call, tmp_path):
    facts = Database.from_facts([("k", f"q{at}", f"v{at % 3}") for at in range(50)])
    save_layer(tmp_path / "many.safetensors", init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0), facts)
    assert "the worst 20 of 50 queries" in call("recall", "many.safetensors", save(facts, tmp_path))[1]
    assert len(json.loads(call("recall", "many.safetensors", "facts.csv", "--json")[1])["by_query"]) == 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "missing.csv"], ["missing.csv"]),
        (["train", "sample:astrid", "--d-model", "0"], ["--d-model"]),
        (["train", "sample:astrid", "--heads", "-1"], ["--heads"]),
        (["train", "sample:astrid", "--d-vo", "0"], ["--d-vo"]),
        (["train", "sample:astrid", "--seeds", "0"], ["--seeds"]),
        (["train", "sample:astrid", "--epochs", "-5"], ["--epochs"]),
        (["train", "sample:astrid", "--lr", "nan"], ["0"]),  # typer refuses it from 0.29 on, in other words than ours
        (["train", "sample:astrid", "--lr", "inf"], ["learning_rate must be a finite number, 0 or more; got inf"]),
        (["train", "sample:astrid", "--tau", "1.5"], ["tau", "between 0 and 1"]),
        (["train", "sample:astrid", "--d-model", "1000000000", "--heads", "1", "--epochs", "1"], ["GiB", "memory"]),
        (["train", "sample:astrid", "--d-qk", "3000000000"], ["GiB", "fewer heads"]),
        (["train", "sample:astrid", "--seeds", "1000000000000"], ["GiB", "fewer seeds"]),
        (["train", "sample:astrid", "--stop", "soon"], ["never", "recall_tau"]),
        (["train", "sample:astrid", "-o", "layer.pt"], ["layer.pt", ".safetensors"]),
        (["train", "sample:astrid", "-o", "no/such/layer.safetensors"], ["no/such"]),
        (["recall", "missing.safetensors", "sample:astrid"], ["missing.safetensors"]),
        (["recall", "text.safetensors", "sample:astrid"], ["text.safetensors", "safetensors"]),
        (["recall", "LAYER", "sample:elements"], ["sample:elements", "names", "keys"]),
        (["recall", "LAYER", "missing.csv"], ["missing.csv"]),
        (["recall", "LAYER", "sample:astrid", "--tau", "0"], ["tau"]),
        (["ask", "text.safetensors", "a", "b"], ["text.safetensors"]),
        (["ask", "LAYER", "Astird", "born_in"], ["'Astird'", "'Astrid'"]),
        (["ask", "LAYER", "Astrid", "BORN_IN"], ["'BORN_IN'", "'born_in'"]),
        (["ask", "LAYER", "xyzzy", "born_in"], ["'xyzzy'", "such as"]),
        (["ask", "LAYER", "born_in", "Astrid"], ["a query of this layer", "key, query"]),
        (["ask", "LAYER", "Astrid"], ["QUERY"]),
    ],
)
def test_mistakes_exit_with_2_and_say_what_was_expected(call, astrid_layer, tmp_path, arguments, words):
    (tmp_path / "text.safetensors").write_text("no layer", encoding="utf-8")
    layer, _ = astrid_layer
    code, out, err = call(*(layer if argument == "LAYER" else argument for argument in arguments))
    assert (code, out) == (2, "")
    for word in words:
        assert word in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(call, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    code, _, err = call("train", "sample:astrid", "-o", "closed/layer.safetensors")
    assert code == 2
    assert "permission" in err


def test_an_output_that_cannot_be_written_is_said_before_training(call, monkeypatch, tmp_path):
    def never(*_args, **_kwargs):
        raise AssertionError("trained although the layer cannot be saved")

    monkeypatch.setattr("factrank.experiments.training.train_many", never)
    (tmp_path / "folder.safetensors").mkdir()
    for target in ("nowhere/layer.safetensors", "layer.txt", "folder.safetensors"):
        assert call("train", "sample:astrid", "-o", target)[0] == 2


def test_links_are_followed_before_training(call, monkeypatch, tmp_path):
    def never(*_args, **_kwargs):
        raise AssertionError("trained although the layer cannot be saved")

    monkeypatch.setattr("factrank.experiments.training.train_many", never)
    (tmp_path / "dangling.safetensors").symlink_to(tmp_path / "gone" / "layer.safetensors")
    (tmp_path / "device.safetensors").symlink_to("/dev/null")
    for link, words in (("dangling.safetensors", "gone"), ("device.safetensors", "regular file")):
        code, out, err = call("train", "sample:astrid", "-o", link)
        assert (code, out) == (2, "")
        assert words in err


def test_a_failed_save_loses_no_report(call, monkeypatch, tmp_path):
    """The folder goes away while the layer is trained."""
    from factrank.experiments.training import train_many

    def train_and_lose_the_folder(*arguments, **options):
        results = train_many(*arguments, **options)
        (tmp_path / "folder").rmdir()
        return results

    monkeypatch.setattr("factrank.experiments.training.train_many", train_and_lose_the_folder)
    arguments = ["sample:astrid", *SMALL, "--seeds", "2", "--epochs", "300", "-o", "folder/layer.safetensors"]
    for json_option in (["--json"], []):
        (tmp_path / "folder").mkdir()
        code, out, err = call("train", *arguments, *json_option)
        assert code == 2
        assert "folder/layer.safetensors: cannot be written" in err
        if json_option:
            assert json.loads(out)["recall"] == 1
            assert json.loads(out)["layer"] is None
        else:
            assert "2 of 2 seeds recall every fact" in out
            assert "saved" not in out


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")]
)
def test_too_little_memory_is_one_line(call, monkeypatch, error):
    def exhausted(*_args, **_kwargs):
        raise error

    monkeypatch.setattr("factrank.experiments.training.train_many", exhausted)
    code, out, err = call("train", "sample:astrid", *SMALL)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "out of memory" in err


def test_other_defects_are_not_hidden(call, monkeypatch):
    def broken(*_args, **_kwargs):
        raise RuntimeError("a defect")

    monkeypatch.setattr("factrank.experiments.training.train_many", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        call("train", "sample:astrid", *SMALL)


def test_several_values_end_early_too(call, tmp_path):
    """Two values cannot both have probability 0.95: seeds then end when each is above all others."""
    (tmp_path / "multi.csv").write_text("key,query,value\na,q,x\na,q,y\nb,q,z\n", encoding="utf-8")
    arguments = ["train", "multi.csv", "--multi", *SMALL, "--seeds", "2", "--epochs", "400", "--json"]
    code, out, err = call(*arguments)
    assert (code, err) == (0, "")
    assert [seed["status"] for seed in json.loads(out)["seeds"]] == ["stopped", "stopped"]
    assert json.loads(out)["recall_tau"] < json.loads(out)["recall"] == 1
    code, out, err = call(*arguments, "--stop", "recall_tau")
    assert code == 0
    assert [seed["status"] for seed in json.loads(out)["seeds"]] == ["finished", "finished"]
    assert len(err.splitlines()) == 1
    assert "2 values" in err
    assert "--stop recall" in err


@pytest.fixture
def interrupted_after(monkeypatch):
    """Make training stop by Ctrl-C after so many results."""
    module = sys.modules["factrank.experiments.training"]
    run_lanes = module.run_lanes

    def set_up(most):
        def interrupted(*arguments):
            for finished, epochs in run_lanes(*arguments):
                yield finished[:most], epochs
                if finished:
                    raise KeyboardInterrupt
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "run_lanes", interrupted)

    return set_up


TWO_LANES = ["sample:astrid", *SMALL, "--engine", "lanes", "--seeds", "2", "--epochs", "300"]


def test_interrupting_keeps_the_seeds_that_ended(call, interrupted_after, tmp_path):
    interrupted_after(1)
    arguments = [*TWO_LANES, "-o", "kept.safetensors"]
    code, out, err = call("train", *arguments, "--json")
    data = json.loads(out)
    assert (code, data["interrupted"], data["best_seed"]) == (130, True, 0)
    assert [seed["status"] for seed in data["seeds"]] == ["stopped", "interrupted"]
    assert data["seeds"][1]["recall"] is None
    assert "1 of 2 seeds" in err
    assert load_layer(tmp_path / "kept.safetensors").notes["seed"] == "0"
    code, out, _ = call("train", *arguments)
    assert code == 130
    assert "saved to kept.safetensors" in out


def test_interrupting_before_any_seed_ended(call, interrupted_after, tmp_path):
    interrupted_after(0)
    arguments = [*TWO_LANES, "-o", "none.safetensors"]
    code, out, err = call("train", *arguments)
    assert code == 130
    assert "no layer to save" in out
    assert "0 of 2 seeds" in err
    assert not (tmp_path / "none.safetensors").exists()
    assert json.loads(call("train", *arguments, "--json")[1])["recall"] is None


def test_the_same_command_goes_on_from_checkpoints(call, monkeypatch, tmp_path):
    """Ctrl-C when the first epochs are done; then the same command, which ends as if nothing had happened."""
    from factrank.experiments.progress import TerminalMeter
    from factrank.families.attention.fused import fused_threads

    monkeypatch.setattr(fused_threads, "CHUNK_SECONDS", 1e-3)
    monkeypatch.setattr(fused_threads, "HEARTBEAT_SECONDS", 1e-3)
    arguments = ["train", "sample:astrid", *SMALL, "--stop", "never", "--seeds", "2", "--epochs", "100000", "--json"]
    undisturbed = call(*arguments)

    def interrupted(self, models_done, n_models, model_epochs, n_model_epochs):
        if model_epochs:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TerminalMeter, "update", interrupted)
        code, out, err = call(*arguments, "--checkpoints", "states")
    assert (code, json.loads(out)["interrupted"]) == (130, True)
    assert err.endswith("; the same command resumes from the checkpoints in states\n")
    assert len(list((tmp_path / "states").iterdir())) in (1, 2)
    assert call(*arguments, "--checkpoints", "states") == undisturbed
    assert list((tmp_path / "states").iterdir()) == []


def test_the_engine_can_be_chosen(call):
    arguments = ["train", "sample:astrid", *SMALL, "--stop", "never", "--seeds", "1", "--epochs", "3", "--json"]
    losses = [json.loads(call(*arguments, "--engine", engine)[1])["seeds"][0]["loss"] for engine in ("fused", "lanes")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    code, _, err = call(*arguments, "--engine", "steam")
    assert code == 2
    assert "fused" in err


def test_when_every_seed_diverges_there_is_no_layer(call, tmp_path):
    arguments = ["sample:astrid", *SMALL, "--seeds", "2", "--epochs", "300", "--lr", "1e30", "-o", "no.safetensors"]
    code, out, err = call("train", *arguments)
    assert code == 1
    assert "diverged" in out
    assert "--lr" in err
    assert not (tmp_path / "no.safetensors").exists()


def test_the_other_commands_do_not_wait_for_jax():
    """JAX takes a second to load."""
    command = "import sys; from factrank.cli import app; app(sys.argv[1:], standalone_mode=False); {}"
    check = command.format("sys.exit(any(name in sys.modules for name in ('jax', 'equinox', 'optax', 'altair')))")
    for arguments in (["--help"], ["train", "--help"], ["measure", "sample:astrid", "--budget", "0"]):
        run = subprocess.run([sys.executable, "-c", check, *arguments], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, "")


def test_training_a_file_by_its_columns(call, tmp_path):
    """The options of tables are those of `measure`."""
    (tmp_path / "odd.csv").write_text("id,what,of,who\n1,x,born,Ann\n2,y,born,Bob\n3,x,lives,Bob\n", encoding="utf-8")
    options = ["--long", "who", "of", "what"]
    arguments = ["train", "odd.csv", *options, *SMALL, "--seeds", "1", "--epochs", "0", "--stop", "never"]
    code, out, _ = call(*arguments, "-o", "odd.safetensors", "--json")
    assert (code, json.loads(out)["facts"], json.loads(out)["seeds"][0]["epochs"]) == (0, 3, 0)
    facts = read(tmp_path / "odd.csv", long=("who", "of", "what"))
    assert load_layer(Path(tmp_path, "odd.safetensors")).database == facts
    assert call("recall", "odd.safetensors", "odd.csv", *options)[0] == 0
