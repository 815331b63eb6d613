"""`examine`: one object with the numbers that the single functions report, in Python and on the command line."""

import json

import numpy as np
import pytest

import factrank
from factrank.bridges.examination import Examination, examine
from factrank.bridges.torch_modules import to_torch
from factrank.databases.database import Database
from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_files import save_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer


@pytest.fixture(scope="module")
def facts():
    return sample("astrid")


@pytest.fixture(scope="module")
def constructed(facts):
    return factrank.construct(facts, only="parabola")


@pytest.fixture(scope="module")
def found(constructed):
    return examine(constructed)


def test_it_has_what_the_single_functions_report(constructed, facts, found):
    layer = constructed.model
    assert found.recall == factrank.recall(layer, facts)
    assert found.diagnosis == factrank.diagnose(layer, facts)
    assert found.certificate == factrank.verify(layer, facts)
    assert found.rank_bounds.upper.value == factrank.layer_rank_bounds(layer.shape, *facts.shape).upper.value
    assert np.array_equal(found.attribution.heads, factrank.attribute_facts(layer, facts).heads)
    assert (found.certified, found.hallucinations) == (True, found.recall.hallucinations)


def test_plain_data_is_json_and_has_every_fact_by_head(constructed, facts, found):
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    by_fact = plain["attribution"]["by_fact"]
    assert list(zip(by_fact["key"], by_fact["query"], by_fact["value"], strict=True)) == list(facts)
    sums = np.array(by_fact["direct"]) + np.sum(by_fact["heads"], axis=1)
    np.testing.assert_allclose(sums, by_fact["margin"], atol=1e-4)
    assert plain["certificate"]["certified"]
    assert plain["parameters"] == constructed.parameters


def test_the_representation_says_the_main_things(found):
    lines = repr(found).splitlines()
    assert lines[0].startswith("Examination(AttentionLayer of ")
    assert lines[1].startswith("  recall 100%, ")
    assert lines[-1].startswith("  certified: every fact is recalled, by ")


def test_a_changed_fact_is_not_certified(constructed, facts):
    changed = facts.triples.copy()
    changed[0, 2] = (changed[0, 2] + 1) % facts.n_values
    found = examine(constructed.model, Database(changed, *facts.vocabularies))
    assert (found.certified, found.certificate.recalled) == (False, 7)
    assert "not certified: 1 of 8 facts" in repr(found)


def test_models_without_paths_or_of_other_families_have_less(facts):
    normed = init_transformer(TransformerShape(4, 1, 2, 2, layer_norm=True), *facts.shape, key=0)
    found = examine(normed, facts)
    assert (found.attribution, found.rank_bounds) == (None, None)
    assert "no proof is known" in found.certificate.reason
    plain = found.to_dict()
    assert (plain["attribution"], plain["shape"]["layer_norm"]) == (None, True)


def test_a_module_is_converted(constructed, facts, found):
    pytest.importorskip("torch")
    again = examine(to_torch(constructed), facts)
    assert isinstance(again, Examination)
    assert again.certificate == found.certificate


def test_facts_are_required(constructed):
    with pytest.raises(InputError, match="has no facts: pass the database too"):
        examine(constructed.model)
    with pytest.raises(InputError, match="expected a model that reads facts"):
        examine(3, sample("astrid"))


# ---------------------------------------------------------------- the command


def test_the_command_prints_the_report(call, constructed, found, tmp_path):
    path = tmp_path / "astrid.safetensors"
    factrank.save(path, constructed)
    code, out, err = call("examine", path, "--json")
    assert (code, err) == (0, "")
    plain = json.loads(out)
    assert (plain["table"], plain["trained_on"]) == (None, {"facts": 8, "shared": 8})
    assert plain["certificate"] == json.loads(json.dumps(found.to_dict()))["certificate"]
    code, out, _ = call("examine", path, "sample:astrid")
    assert code == 0
    assert out.splitlines()[0] == f"{path} on sample:astrid"
    assert "rank of the logits: at most " in out
    assert out.splitlines()[-1].startswith("certified: every fact is recalled")


def test_the_command_refuses_bad_input(call, facts, tmp_path):
    assert call("examine", tmp_path / "missing.safetensors")[0] == 2
    path = tmp_path / "raw.safetensors"
    save_layer(path, init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0), facts)
    code, out, _ = call("examine", path)
    assert code == 0
    assert "not certified: " in out
    code, _, err = call("examine", path, "--wide")
    assert (code, "give its file after the layer" in err) == (2, True)
    code, _, err = call("examine", path, "--tau", "2")
    assert (code, "tau" in err) == (2, True)
