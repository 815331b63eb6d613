"""Tables of layers: rows that are left out are counted, the worst queries come first, narrow terminals lose nothing."""

import numpy as np
from rich.console import Console

from factrank.databases.database import Database
from factrank.databases.sample_tables import sample
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import TrialResult
from factrank.families.attention import Hallucinations
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.circuits.answers import Answer
from factrank.families.attention.circuits.attribution import attribute_facts
from factrank.families.attention.circuits.diagnosis import diagnose
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.report.answers import answer_tables, verdict_in_words
from factrank.report.display import MOST_ROWS
from factrank.report.layer_words import layer_lines, shape_in_words
from factrank.report.recalls import recall_tables
from factrank.report.trained_tables import trained_table

SHAPE = LayerShape(2, 1, 1, 1)


def text(table, width=120):
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def results(database, recalls):
    for seed, recall in enumerate(recalls):
        trial = Trial(Given(database.fingerprint), SHAPE, measures=(Hallucinations(),), seed=seed)
        metrics = {"recall": recall, "recall_0.95": recall / 2, "margin": recall - 1, "hallucinations_0.95": 3.0}
        if np.isnan(recall):
            yield TrialResult(trial, "interrupted")
        else:
            yield TrialResult(trial, "finished", epochs=1000, metrics=metrics, weights=object())


def test_one_row_per_seed_and_a_summary():
    found = list(results(sample("astrid"), [0.5, 1.0, float("nan")]))
    lines = text(trained_table("here", sample("astrid"), found, found[1])).splitlines()
    rows = [line.split() for line in lines[6:9]]
    assert rows[0] == ["0", "50.0%", "25.0%", "-0.50", "3", "1,000", "finished"]
    assert rows[2] == ["2", "-", "-", "-", "-", "-", "interrupted"]
    assert "1 of 3 seeds recall every fact; the best is seed 1" in lines


def test_seeds_that_are_left_out_are_counted():
    found = list(results(sample("astrid"), [1.0] * (MOST_ROWS + 7)))
    out = text(trained_table("here", sample("astrid"), found, found[0]))
    assert "... and 7 more seeds" in out
    assert f"{MOST_ROWS + 7} of {MOST_ROWS + 7} seeds" in out


def test_the_worst_queries_are_those_that_are_shown():
    facts = Database.from_facts([("k", f"q{at:02}", f"v{at % 5}") for at in range(40)])
    layer = init_layer(SHAPE, *facts.shape, key=0)
    diagnosis = diagnose(layer, facts)
    lines = text(recall_tables(diagnosis, attribute_facts(layer, facts))).splitlines()
    shown = {line.split()[0] for line in lines if line.startswith("q") and line[1:3].isdigit()}
    assert len(shown) == MOST_ROWS
    margins = {query.query: query.margin for query in diagnosis.recall.by_query}
    assert max(margins[name] for name in shown) <= min(margins[name] for name in margins.keys() - shown)


def answer(**changes):
    plain = {
        "key": "k",
        "query": "q",
        "answer": "a",
        "probability": 0.97,
        "margin": 2.0,
        "competitor": "b",
        "tau": 0.95,
        "verdict": "fact",
        "facts": ("a",),
        "top": (("a", 0.97), ("b", 0.03)),
        "direct": 0.5,
        "heads": (1.5,),
    }
    return Answer(**(plain | changes))


def test_verdicts_in_words():
    assert verdict_in_words(answer()) == "a fact"
    assert verdict_in_words(answer(facts=("a", "c"))) == "a fact; so is c"
    assert verdict_in_words(answer(verdict="error", facts=("c",))) == "an error: the fact is c"
    assert verdict_in_words(answer(verdict="error", facts=("c", "d"))) == "an error: the facts are c, d"
    assert verdict_in_words(answer(verdict="hallucination", facts=())).startswith("a hallucination")
    assert "not confident" in verdict_in_words(answer(verdict="hallucination", facts=(), probability=0.5))


def test_a_narrow_terminal_loses_no_name():
    out = text(answer_tables(answer(answer="a" * 130, top=(("a" * 130, 0.97),))), width=30)
    assert out.replace("\n", "").count("a" * 130) == 1


def words_of(text):
    return set(text.split())


def test_a_narrow_terminal_breaks_no_word():
    """At 66 columns titles go over several lines and long names end in an ellipsis; numbers and words are whole."""
    found = list(results(sample("astrid"), [0.5, 1.0, float("nan")]))
    table = trained_table("here", sample("astrid"), found, found[1])
    assert words_of(text(table, 120)) - words_of(text(table, 66)) <= {"interrupted"}
    assert all(len(line) <= 66 for line in text(table, 66).splitlines())
    facts = Database.from_facts([("k", name, "v") for name in ("internet_domain", "x")] + [("j", "x", "w")])
    layer = init_layer(SHAPE, *facts.shape, key=0)
    table = recall_tables(diagnose(layer, facts), attribute_facts(layer, facts))
    assert words_of(text(table, 120)) == words_of(text(table, 60))
    facts = Database.from_facts([("k", "q" * 39, "v"), ("j", "x", "w")])
    out = text(recall_tables(diagnose(layer, facts), None), 60)
    assert "q…" in out
    assert "q" * 39 not in out


def test_wide_letters_count_twice():
    out = text(answer_tables(answer(top=(("东京" * 9, 0.97), ("b", 0.03)))), width=40)
    assert "东京" * 4 in out
    assert "0.970" in out


def test_contributions_of_nothing_have_no_sign():
    out = text(answer_tables(answer(direct=-0.0, heads=(-0.001, 2.0), margin=-0.0)))
    assert "-0.00" not in out
    assert "+0.00" not in out
    assert "margin 0 over b" in out


def test_a_transformer_shows_its_options():
    shape = TransformerShape(4, 2, 2, 3, n_layers=2, mlp_width=7, positions=True, layer_norm=True, share_tokens=True)
    assert shape_in_words(shape) == (
        "transformer: d_model 4, 2 heads, d_qk 2, d_vo 3, 2 layers, MLP 7, softmax attention, positions, layer norm, "
        "shared tokens"
    )
    plain = TransformerShape(4, 1, 2, 3, attention="affine")
    facts = sample("astrid")
    model = init_transformer(plain, *facts.shape, key=0)
    line = str(layer_lines("here", facts, plain, model.parameters).parts[-1])
    assert line == "transformer: d_model 4, 1 head, d_qk 2, d_vo 3, 1 layer, no MLP, affine attention; 88 parameters"
    assert shape_in_words(LayerShape(4, 1, 2, 3)) == "layer: d_model 4, 1 head, d_qk 2, d_vo 3"
