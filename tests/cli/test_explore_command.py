"""`factrank explore`: pages are written, mistakes are told in one line, and proofs are about what is shown."""

import json
import re

import pytest

import factrank
from factrank import LayerShape, TransformerShape, init_layer, save_layer
from factrank.app.page import build_explorer, explorer_payload, page
from factrank.errors import InputError
from factrank.families.attention import init_transformer


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    """Layer files: a plain layer, and one with layer norm."""
    facts, folder = factrank.sample("astrid"), tmp_path_factory.mktemp("layers")
    shape = TransformerShape(4, 1, 2, 2, layer_norm=True)
    save_layer(folder / "norm.safetensors", init_transformer(shape, *facts.shape, key=0), facts)
    save_layer(folder / "plain.safetensors", init_layer(LayerShape(4, 1, 2, 2), *facts.shape, key=0), facts)
    return folder


def config(path):
    """The data of a page."""
    return json.loads(path.read_text(encoding="utf-8").split('id="payload">')[1].split("</script>")[0])


def test_a_table_gets_a_layer_and_its_proof(call, tmp_path):
    code, out, _ = call("explore", "sample:astrid", "-o", "page.html", "--budget", "0", "--tau", "0.7")
    assert code == 0
    assert "certified: every fact is recalled\nsaved to page.html" in out
    payload = config(tmp_path / "page.html")["payload"]
    assert payload["title"] == "sample:astrid"
    assert payload["tau"] == 0.7
    assert payload["certificate"]["certified"] is True
    assert payload["measurement"]["ranks"]["rank"]["upper"]["value"] >= 5


def test_a_layer_is_judged_by_its_facts_or_by_a_table(call, tmp_path, layers):
    layer = layers / "plain.safetensors"
    code, out, _ = call("explore", layer, "--budget", "0", "--json")
    plain = json.loads(out)
    assert (code, plain["page"], plain["facts"], plain["certified"]) == (0, "explorer.html", 8, False)
    assert plain["bytes"] == (tmp_path / "explorer.html").stat().st_size
    (tmp_path / "two.csv").write_text("key,query,value\nAstrid,born_in,Singapore\nColin,born_in,Malaysia\n")
    code, out, _ = call("explore", layer, "two.csv", "--budget", "0", "--json")
    assert json.loads(out)["facts"] == 2
    assert len(config(tmp_path / "explorer.html")["payload"]["database"]["keys"]) == 5
    code, out, _ = call("explore", layer, "--no-layer", "--budget", "0", "--json")
    assert json.loads(out)["layer"] is None


def test_a_large_table_gets_no_layer(call, monkeypatch):
    monkeypatch.setattr("factrank.app.page.explorer_page.MOST_CONSTRUCTED", 7)
    code, out, err = call("explore", "sample:astrid", "--budget", "0")
    assert code == 0
    assert "layer" not in out
    assert "construct or train one, and explore its file" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample:astrid", "-o", "page.txt"], "page.txt: the name of a page ends in .html"),
        (["sample:astrid", "-o", "no/page.html"], "no/page.html: there is no folder no"),
        ([], "give a layer, a table or sample:NAME, or --gallery"),
        (["--wide", "--gallery"], "describe a table"),
        (["nothing.safetensors"], "nothing.safetensors"),
        (["nothing.csv"], "nothing.csv"),
        (["sample:astrid", "--tau", "2"], "tau must be between 0 and 1"),
        (["--gallery"], "reproductions: no reproductions here"),
        (["LAYERS/norm.safetensors"], "norm.safetensors: expected a layer whose logits are a sum over paths"),
        (["LAYERS/plain.safetensors", "--multi"], "give its file after the layer"),
    ],
)
def test_mistakes_are_told(call, tmp_path, layers, arguments, message):
    code, _, err = call("explore", *(word.replace("LAYERS", str(layers)) for word in arguments))
    assert code == 2
    assert message in err
    assert not list(tmp_path.glob("*.html"))


def test_a_page_that_is_too_large_says_what_to_do(call, monkeypatch):
    monkeypatch.setattr(page, "MOST_BYTES", 100)
    code, _, err = call("explore", "sample:astrid", "--budget", "0", "--no-layer")
    assert code == 2
    assert re.search(r"the limit is 0 MB: choose fewer facts .* or leave out the layer", err)


def test_a_certificate_of_other_weights_or_facts_is_refused():
    facts = factrank.sample("astrid")
    made = factrank.construct(facts)
    other = init_layer(LayerShape(4, 1, 2, 2), *facts.shape, key=0)
    with pytest.raises(InputError, match="certificate is for other weights"):
        explorer_payload(facts, other, certificate=made.certificate)
    fewer = factrank.Database(facts.triples[:-1], *facts.vocabularies)
    with pytest.raises(InputError, match="certificate is for other facts"):
        explorer_payload(fewer, made.model, certificate=made.certificate)
    with pytest.raises(InputError, match="needs the layer"):
        explorer_payload(facts, certificate=made.certificate)


def test_only_attention_layers_are_shown():
    with pytest.raises(InputError, match="expected an attention layer; got a dict"):
        explorer_payload(factrank.sample("astrid"), {})
    with pytest.raises(InputError, match="needs its database"):
        explorer_payload(None, {})


def test_a_page_is_the_same_each_time():
    payload = explorer_payload(factrank.sample("astrid"), title="same")
    assert build_explorer(payload) == build_explorer(payload)
