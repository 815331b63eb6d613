"""Studies in files: what they say becomes trials; whatever is wrong is one clear error, and nothing is executed."""

import io
import re
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from factrank.databases.database import Database
from factrank.databases.files.formats import write
from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.experiments.specs import FrequencyGroups
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.fits import Fit
from factrank.experiments.statistics.summaries import Summary
from factrank.experiments.study.study import Chart, Source
from factrank.experiments.study.study_files import load_study
from factrank.experiments.study.yaml_text import read_yaml
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall import FactSequences, RelationAlone
from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape
from factrank.families.memoriser import Saturation
from factrank.families.memoriser.examples.examples import RandomExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory import WeightedFacts
from factrank.families.memory.memory_shape import MemoryShape

TEXT = """\
name: width
title: Does width help?
question: Does a wider value-output circuit hold more facts?
method: One attention layer is trained on random tables.
source: {paper: A paper, figure: Figure 4}
data: {generator: uniform, n_keys: 20, n_queries: 10, n_values: 20, seed: $seed}
model: {d_model: 8, n_heads: 1, d_qk: 2, d_vo: 2}
training: {epochs: 100, learning_rate: 1e-3}
measures: {tau_recall: {taus: [0.5, 0.9]}, curve: {epochs: [0, 10]}}
seeds: 3
grid:
  model.d_vo: [1, 2]
  training.optimiser.name: [adam, sgd]
list:
  - {model.d_qk: 1}
  - {model.d_qk: 4, data.n_facts: 50}
quick: {seeds: [7], training.epochs: 20, grid: {model.d_vo: [2]}}
charts:
  - {name: recall, title: Recall, kind: lines, x: model.d_vo, y: recall, where: {model.d_qk: 1}}
claims:
  - name: wide
    statement: wide beats narrow
    quantity:
      {kind: mean, column: recall, where: {model.d_vo: 2}, minus: {kind: mean, column: recall, where: {model.d_vo: 1}}}
    published: greater
    place: section 1
"""


@pytest.fixture
def loaded(tmp_path):
    """The study of a text."""

    def load(text):
        path = tmp_path / "study.yaml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return load_study(path)

    return load


def small(changes):
    """A short text with these lines beside it."""
    return "name: small\ndata: {generator: unit, n: 3}\nmodel: {d_model: 2, n_heads: 1, d_qk: 1, d_vo: 1}\n" + changes


# -------------------------------------------------------------------- what is said


def test_a_whole_study(loaded):
    study = loaded(TEXT)
    assert (study.name, study.title) == ("width", "Does width help?")
    assert study.source == Source("A paper", "Figure 4")
    assert study.charts == (Chart("recall", "Recall", "lines", "model.d_vo", "recall", where=(("model.d_qk", 1),)),)
    narrow = Quantity("mean", "recall", where=(("model.d_vo", 1),))
    wide = Quantity("mean", "recall", where=(("model.d_vo", 2),), minus=narrow)
    assert study.claims == (Claim("wide", "wide beats narrow", wide, "greater", place="section 1"),)


def test_trials_are_list_times_grid_times_seeds(loaded):
    study = loaded(TEXT)

    def expected(d_qk, d_vo, optimiser, seed, epochs, **more):
        facts = generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=seed, **more)
        plain = {
            "version": 2,
            "data": {"kind": "generated", "generator": "uniform", "arguments": dict(facts.arguments)},
            "model": {"kind": "attention", "d_model": 8, "n_heads": 1, "d_qk": d_qk, "d_vo": d_vo},
            "training": {"epochs": epochs, "learning_rate": 0.001, "optimiser": {"name": optimiser}},
            "measures": [{"kind": "tau_recall", "taus": [0.5, 0.9]}, {"kind": "curve", "epochs": [0, 10]}],
            "seed": seed,
        }
        return Trial.from_dict(plain)

    entries = [(1, {}), (4, {"n_facts": 50})]
    assert study.trials_of("full") == [
        expected(d_qk, d_vo, optimiser, seed, 100, **more)
        for d_qk, more in entries
        for d_vo in (1, 2)
        for optimiser in ("adam", "sgd")
        for seed in range(3)
    ]
    assert study.trials_of("quick") == [
        expected(d_qk, 2, optimiser, 7, 20, **more) for d_qk, more in entries for optimiser in ("adam", "sgd")
    ]


def test_the_example_of_the_documentation(loaded):
    page = (Path(__file__).parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")
    study = loaded(re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1])
    assert (len(study.trials_of("quick")), len(study.trials_of("full"))) == (12, 40)


def test_summaries_fits_and_claims_on_readings(loaded):
    study = loaded(
        small(
            """
summaries:
  - name: knee
    title: The least width
    quantities:
      half: {kind: least, column: recall, against: model.d_qk, slack: 0.02, where: {tau: 0.5}}
      "0.9": {kind: least, column: recall, against: model.d_qk, where: {tau: [0.9, 0.95]}}
    over: [model.d_model, data.n]
    data: readings
    x: quantity
    log_x: true
fits:
  - {name: rule, title: A rule, summary: knee, terms: ["1", model.d_model / data.n], quantity: half}
claims:
  - name: share
    statement: A share that nobody published.
    quantity: {kind: fraction, column: violates, against: memorised}
    published: null
    note: The paper gives none.
    data: readings
"""
        )
    )
    half = Quantity("least", "recall", "model.d_qk", where=(("tau", 0.5),), slack=0.02)
    more = Quantity("least", "recall", "model.d_qk", where=(("tau", (0.9, 0.95)),))
    assert study.summaries == (
        Summary(
            *("knee", "The least width", (("half", half), ("0.9", more)), ("model.d_model", "data.n"), "readings"),
            x="quantity",
            log_x=True,
        ),
    )
    assert study.fits == (Fit("rule", "A rule", "knee", ("1", "model.d_model / data.n"), "half"),)
    share = Quantity("fraction", "violates", "memorised")
    said = "A share that nobody published."
    assert study.claims == (Claim("share", said, share, None, note="The paper gives none.", data="readings"),)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("claims: [{name: a, statement: b, quantity: {kind: mean, column: recall}}]", "claims.0.published"),
        ("summaries: [{name: a, title: b, quantities: {}, over: []}]", "one or more quantities"),
        ("summaries: [{name: a, title: b, quantities: {c: {kind: least, column: d}}, over: []}]", "against"),
        ("fits: [{name: a, title: b, summary: c, terms: ['1']}]", "no summary 'c'"),
        ("charts: [{name: a, title: b, kind: lines, x: c, y: d, data: weights}]", "data"),
    ],
)
def test_mistakes_in_summaries_and_fits_are_named(loaded, lines, message):
    with pytest.raises(InputError, match=message):
        loaded(small(lines))


def test_little_need_be_said(loaded):
    study = loaded(small(""))
    shape = LayerShape(2, 1, 1, 1)
    assert study.trials_of("full") == study.trials_of("quick") == [Trial(generated("unit", n=3), shape)]
    assert study.source is None


def test_other_models_and_anchors(loaded):
    study = loaded(
        """
        name: anchors
        data: {generator: unit, n: 3}
        model: {kind: transformer, d_model: 4, n_heads: 1, d_qk: 2, d_vo: 2}
        training: {epochs: 5}
        list:
          - {model.mlp_width: &wide 8}
          - {model.mlp_width: *wide, model.positions: true}
        """
    )
    assert study.trials_of("full")[1].model == TransformerShape(4, 1, 2, 2, mlp_width=8, positions=True)
    assert study.trials_of("full")[0].model == TransformerShape(4, 1, 2, 2, mlp_width=8)
    assert study.trials_of("full")[0].training == Training(epochs=5)
    assert study.trials_of("full")[0].measures == ()


def test_memories_and_models_of_sequences(loaded):
    memories = loaded(
        """\
        name: memories
        data: {generator: associations, n_inputs: 8, n_outputs: 4, kind: random, seed: $seed, key_exponent: 1}
        model: {kind: memory, d_model: 4, width: 8}
        training: {stop: recall, stop_at: 0.99}
        measures: {frequency_groups: {groups: 2}}
        grid: {start: [drawn, outer product], data.key_exponent: [0, 1]}
        """
    )
    last = memories.trials_of("full")[-1]
    assert [trial.start for trial in memories.trials_of("full")] == ["drawn"] * 2 + ["outer product"] * 2
    facts = generated("associations", n_inputs=8, n_outputs=4, kind="random", seed=0)
    assert [trial.data for trial in memories.trials_of("full")[2:]] == [facts, WeightedFacts(facts, key_exponent=1.0)]
    assert (last.model, last.source) == (MemoryShape(4, 8), facts)
    assert last.training == Training(stop="recall", stop_at=0.99)
    assert last.measures == (FrequencyGroups(2),)
    sequences = loaded(
        """\
        name: sequences
        data:
          {generator: answer-sets, n_keys: 8, n_queries: 4, answers_per_query: 2, seed: 0, copy_fraction: 0.5}
        model: {kind: sequence, d_model: 4, n_heads: 2, d_qk: 1, d_vo: 2, copy_groups: 2, copy_size: 3}
        measures: {relation_alone: true, parts_alone: false}
        grid: {data.contexts: [2, 4], data.copy_fraction: [0.0]}
        """
    )
    one, other = sequences.trials_of("full")
    assert one.model == FactualRecallShape(4, 2, 1, 2, copy_groups=2, copy_size=3)
    assert one.measures == (RelationAlone(),)
    facts = generated("answer-sets", n_keys=8, n_queries=4, answers_per_query=2, seed=0)
    assert (one.data, other.data) == (FactSequences(facts, contexts=2), facts)  # 4 contexts are the default
    with pytest.raises(InputError, match="model: unknown 'widht'; it takes d_model, width"):
        loaded("name: x\ndata: {generator: unit, n: 3}\nmodel: {kind: memory, d_model: 4, widht: 3}\n")


def test_memorisers(loaded):
    study = loaded(
        """\
        name: memorisers
        data: {examples: random, n_examples: 40, context_size: 4, d_input: 8, n_classes: 5, seed: $seed}
        model: {kind: memoriser, d_model: 8, d_qk: 2, scaled_by: d_qk}
        training: {schedule: cosine, warm_up: 0.05, stop: recall}
        measures: {saturation: {threshold: 0.99}}
        grid: {model.n_heads: [1, 2], data.n_contexts: [null, 1]}
        seeds: 2
        """
    )
    trials = study.trials_of("full")
    assert len(trials) == 8
    assert trials[-1].data == RandomExamples(40, 4, 8, 5, 1, seed=1)
    assert trials[0].data == RandomExamples(40, 4, 8, 5)
    assert trials[-1].model == MemoriserShape(2, 8, 2, scaled_by="d_qk")
    assert trials[-1].training == Training(schedule="cosine", warm_up=0.05, stop="recall")
    assert trials[-1].measures == (Saturation(0.99),)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("grid: {model.d_vo: [1, 2]}\nlist: [{model.d_vo: 3}]\n", "occurs both in list and in grid"),
        ("grid: {model.d_vo: [1, 2]}\nquick: {model.d_vo: 4}\n", "change it under grid or list of quick"),
    ],
)
def test_settings_that_contradict_each_other(loaded, lines, message):
    with pytest.raises(InputError, match=message):
        loaded(small(lines)).trials_of("quick")


def test_facts_from_a_file_beside_the_study(loaded, tmp_path):
    facts = Database.from_facts([("Ann", "city", "Oslo"), ("Bob", "city", "Lima"), ("Bob", "speaks", "Thai")])
    write(facts, tmp_path / "people.csv", wide=True)
    study = loaded(
        """
        name: people
        data: {file: people.csv, wide: true}
        model: {d_model: 2, n_heads: 1, d_qk: 1, d_vo: 1}
        """
    )
    assert study.databases == (facts,)
    assert study.trials_of("quick")[0].data == Given(facts.fingerprint)
    study = loaded(small("").replace("{generator: unit, n: 3}", "{sample: astrid}"))
    assert study.databases == (sample("astrid"),)


# -------------------------------------------------------------------- what is wrong

WRONG = {
    "nam: 3": "nam: unknown key; expected name, title",
    "seeds: many": "seeds: Input should be a valid integer; or Input should be a valid list",
    "seeds: true": "seeds",
    "seeds: 0": "no trial",
    "seeds: -3": "no trial",
    "seeds: [-3]": "seed must be an integer of at least 0",
    "seeds: 99999999999": "99,999,999,999 trials; a study has at most 200,000",
    "seeds: 300\ngrid: {training.epochs: [1,2,3,4,5,6,7,8,9], training.check_every: "
    + str(list(range(1, 100)))
    + "}": "trials; a study has at most",
    "grid: {model.d_vo: 3}": r"grid.model.d_vo: Input should be a valid list",
    "grid: {model.width: [3]}": r"model: unknown 'width'; it takes d_model.*model.width = 3, seed 0",
    "grid: {d_vo: [3]}": "trials cannot differ in 'd_vo'; expected data.NAME",
    "grid: {model.d_vo: [0]}": "d_vo must be an integer of at least 1",
    "grid: {model.d_vo: [1.5]}": "model.d_vo must be int; got 1.5",
    "grid: {model.d_vo.x: [1]}": "d_vo is not a dictionary",
    "list: [3]": "list.0: Input should be a valid dictionary",
    "quick: {epochs: 3}": "quick: trials cannot differ in 'epochs'; .*; also seeds, grid or list",
    "quick: {seeds: x}": "quick.seeds",
    "training: {epochs: 5, lr: 1}": "training: unknown 'lr'",
    "training: {epochs: .nan}": "epochs",
    "training: {learning_rate: .inf}": "learning_rate",
    "training: {optimiser: {name: adam, options: {b1: .nan}}}": "finite",
    "training: {optimiser: sgd, optimizer: sgd}": "optimizer is an alias of optimiser",
    "measures: {tau_recall: {taus: [2]}}": "taus",
    "measures: {curve: {epochs: [99999]}}": "beyond the last epoch",
    "measures: {curve: true}": "missing 'epochs'",
    "measures: {ranks: 3}": "measures.ranks: expected true, false or a dictionary of options; got 3",
    "measures: {rank: true}": "measures: unknown 'rank'; expected .*curve",
    "measures: {saturation: {threshold: 0.5}}": "a LayerShape has no measure Saturation; it has Additive, Curve",
    "measures: [ranks]": "measures: Input should be a valid dictionary",
    "start: solved": "start of a LayerShape must be one of drawn; got 'solved'",
    "start: 3": "start",
    "grid: {start: [3]}": "start must be str; got 3",
    "charts: [{name: a, title: b, kind: pie, x: c, y: d}]": "charts.0.kind: Input should be 'lines'",
    "charts: [{name: a/b, title: b, kind: bars, x: c, y: d}]": "the name of a chart",
    "charts: [{name: a, title: b, kin: bars, x: c, y: d}]": "charts.0.kin: unknown key",
    "claims: [{name: a, statement: b, published: up, quantity: {kind: mean, column: c}}]": "claims.0.published: .*less",
    "claims: [{name: a, statement: b, published: 1, quantity: {kind: mean, colum: c}}]": "claims.0.quantity.colum: unk",
    "source: {figure: 3}": "source",
    "name: again": "line 4, column 1: found duplicate key .name. with value .again.",
    "3: x": "line 4, column 1: a key must be text",
    "? [a]\n: x": "line 4, column 3: a key must be text",
    "title: 2020-01-01": "line 4, column 8: expected numbers, text, lists or dict.*; got timestamp '2020-01-01'",
    "title: !!binary aGVsbG8=": "got binary",
    "title: [": "line 4, column 9: expected the node content, but found '<stream end>'",
    "title: \t": "line 4, column 8: ",
    "a: &a [*a]": "line 4, column 4: an alias that contains itself",
    "title: *nobody": "line 4, column 8: found undefined alias",
    "title: !!python/object/apply:os.system [true]": "line 4, column 8: expected .*; got python/object/apply:os.system",
    "title: !!python/name:os.system": "line 4, column 8: expected numbers.*; got python/name:os.system",
    "title: !anything x": "line 4, column 8: expected numbers.*; got !anything 'x'",
    "title: !!set {x}": "got set",
    "title: {<<: 3}": "expected a mapping or list of mappings for merging",
}


@pytest.mark.parametrize("line", WRONG, ids=[line[:40] for line in WRONG])
def test_mistakes_are_named(loaded, tmp_path, line):
    with pytest.raises(InputError, match=WRONG[line]) as error:
        loaded(small(line))
    assert str(error.value).startswith(str(tmp_path / "study.yaml"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("{}", "expected one of generator, file, sample, examples, in_context or text; got nothing"),
        ("{generator: unit, sample: astrid}", "expected one of"),
        ("{generator: nobody}", "unknown 'nobody'; expected uniform"),
        ("{generator: unit, size: 3}", "unknown 'size', missing 'n'"),
        ("{file: nowhere.csv}", "nowhere.csv: no such file"),
        ("{file: nowhere.csv, header: 3}", "expected true or false"),
        ("{file: nowhere.csv, long: 3}", "expected a list of three columns"),
        ("{file: nowhere.csv, colour: 3}", "unknown 'colour'; it takes file, long"),
        ("{file: 3}", "file must be text"),
        ("{sample: nobody}", "nobody"),
        ("{examples: real}", "data.examples: expected random; got 'real'"),
        ("{examples: random, n_examples: 4}", "data: missing 'context_size'; it takes n_examples, context_size"),
        ("{examples: random, n_examples: 4, context_size: 0}", "context_size must be an integer from 1"),
        ("{examples: random, n_examples: 4, context_size: 2, n_labels: 3}", "data: unknown 'n_labels'"),
        ("{examples: random, n_examples: 4, context_size: 2}", "reads facts; got RandomExamples"),
        ("[1]", "data: Input should be a valid dictionary"),
    ],
)
def test_mistakes_about_facts_are_named(loaded, data, expected):
    with pytest.raises(InputError, match=expected):
        loaded(small("").replace("{generator: unit, n: 3}", data))


def test_files_that_are_none(tmp_path):
    for content, expected in {
        b"": "the file is empty",
        b"\xff\xfe": "not UTF-8",
        b"a\0b": "YAML",
        b"[1, 2]": "the file: Input should be a valid dictionary",
        b"x: 1\n---\ny: 2": "line 2",
        b"[" * 50_000: "nested too deeply",
        b" " * 300_000: "300,000 bytes; a study has at most",
        b"a: " + b"9" * 5000: "YAML",
    }.items():
        path = tmp_path / "bad.yaml"
        path.write_bytes(content)
        with pytest.raises(InputError, match=expected):
            load_study(path)
    for path, expected in ((tmp_path, "is a directory"), (tmp_path / "none.yaml", "no such file")):
        with pytest.raises(InputError, match=expected):
            load_study(path)


def test_a_bomb_of_aliases_does_not_go_off(loaded):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    with pytest.raises(InputError, match="more than 100,000 entries"):
        loaded("\n".join(lines))
    merges = ["a0: &a0 {k: v}"]
    merges += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 40)]
    with pytest.raises(InputError, match="more than 100,000 entries"):
        loaded("\n".join(merges))


def test_scalars_are_those_of_yaml_1_2(tmp_path):
    """Also where the first YAML has surprises: octal 010, base 60, and the words yes, no, on and off."""
    path = tmp_path / "plain.yaml"
    path.write_text("[1e-3, 12e03, 1_000, 010, 0x10, 1:30, yes, no, on, off, y, null, ~, true, .5, -.inf, '3', 3]")
    infinity = float("inf")
    numbers, words = [1e-3, 12e3, 1000, 10, 16], ["1:30", "yes", "no", "on", "off", "y"]
    assert read_yaml(path) == [*numbers, *words, None, None, True, 0.5, -infinity, "3", 3]
    path.write_text("%YAML 1.1\n---\n{a: &x {b: 1e3, c: 2}, d: &y {<<: *x, c: 3}, e: &x {<<: *y, f: 010}, g: *x}")
    merged = {"b": 1000, "c": 3, "f": 8}
    assert read_yaml(path) == {"a": {"b": 1000, "c": 2}, "d": {"b": 1000, "c": 3}, "e": merged, "g": merged}


def test_nothing_is_executed(loaded, tmp_path):
    mark = tmp_path / "executed"
    for tag in (
        f"!!python/object/apply:os.system ['touch {mark}']",
        f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{mark}']]",
        f"!!python/object/new:os.system ['touch {mark}']",
        f"!!python/object/apply:subprocess.check_output [['touch', '{mark}']]",
    ):
        with pytest.raises(InputError):
            loaded(TEXT.replace("$seed", tag))
    assert not mark.exists()


# -------------------------------------------------------------------- random edits

MARKS = [*"\n:{}[]'\"\t|>%@?#~", " ", "- ", "&a ", "*a", "!!", "<<: ", "\x00", "\x85", "é"]
VALUES = ["", "0", "-1", "1e400", "9" * 30, ".nan", "null", "true", "$seed", "!!python/object/apply:os.abort []"]
PIECES = [*MARKS, *VALUES]
edits = st.lists(
    st.tuples(st.integers(0, len(TEXT)), st.integers(0, 12), st.sampled_from(PIECES) | st.text(max_size=4)), max_size=4
)


@given(edits)
def test_random_edits_give_a_study_or_one_clear_error(tmp_path_factory, changes):
    text = TEXT
    for place, length, piece in changes:
        text = text[:place] + piece + text[place + length :]
    path = tmp_path_factory.mktemp("edited") / "study.yaml"
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    try:
        study = load_study(path)
    except InputError as error:
        study, said = None, str(error)
    if study is None:
        assert said.startswith(str(path))
    else:
        assert study.trials_of("quick")


def written(value):
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, stream)
    return stream.getvalue()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists))
def test_no_value_anywhere_makes_it_stumble(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("edited") / "study.yaml"
    shown = written(value).removesuffix("...\n").strip().replace("\n", " ")
    for name in (
        "name",
        "title",
        "seeds",
        "quick",
        "grid",
        "source",
        "charts",
        "training",
        "measures",
        "start",
        "list",
    ):
        path.write_text(small("").replace("name: small\n", "") + f"{name}: {shown}\n", encoding="utf-8")
        with suppress(InputError):
            load_study(path)
