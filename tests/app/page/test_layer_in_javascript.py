"""The forward pass in JavaScript against the layer itself, on random, constructed and transformed layers."""

import json
import shutil
import subprocess

import jax
import numpy as np
import pytest

import factrank
from factrank import LayerShape, TransformerShape, init_layer
from factrank.app.page import explorer_payload
from factrank.app.page.modules import asset
from factrank.families.attention import init_transformer, shared_rows

NODE = shutil.which("node")
PROGRAM = """
import { readFileSync } from "node:fs";
import { decode, decodeParts, makeLayer, logitsAt, pathsAt } from "./layer.js";
import { evaluate, makeFibers, summarise } from "./evaluation.js";
const found = [];
for (const { layer, database, tau } of JSON.parse(readFileSync(0, "utf8"))) {
  const made = makeLayer(decodeParts(layer.parts), database.keys.length, layer.attention);
  const logits = [], sums = [];
  for (let k = 0; k < made.nKeys; k++) for (let q = 0; q < made.nQueries; q++) {
    logits.push([...logitsAt(made, k, q)]);
    const total = new Float64Array(made.nValues);
    for (const path of pathsAt(made, k, q)) path.logits.forEach((z, v) => { total[v] += z; });
    sums.push([...total]);
  }
  const fibers = makeFibers(decode(database.facts).numbers, made.nQueries);
  const summary = summarise(await evaluate(made, fibers), fibers, tau);
  found.push({ logits, sums, ...summary });
}
console.log(JSON.stringify(found));
"""


def _cases():
    facts = factrank.sample("astrid")
    random = init_layer(LayerShape(d_model=6, n_heads=3, d_qk=2, d_vo=2), *facts.shape, key=0)
    yield "random", facts, random, 0.5
    wide = init_layer(LayerShape(5, 2, 3, 1), *facts.shape, key=1, dtype="float64")
    yield "float64", facts, jax.tree.map(np.asarray, wide), 0.3
    yield "bfloat16", facts, init_layer(LayerShape(4, 1, 2, 3), *facts.shape, key=2, dtype="bfloat16"), 0.3
    made = factrank.construct(facts)
    yield "constructed", facts, made.model, 0.6
    several = factrank.Database.from_facts(
        [("a", "p", "x"), ("a", "p", "y"), ("b", "p", "x"), ("b", "q", "z")], multi=True
    )
    yield "several values", several, factrank.construct(several).model, 0.3
    options = TransformerShape(4, 2, 2, 2, positions=True, attention="linear", share_tokens=True)
    rows = shared_rows(("a", "b"), ("p", "a"))
    shared = factrank.Database.from_facts([("a", "p", "x"), ("b", "a", "y")])
    yield "transformer", shared, init_transformer(options, 2, 2, 2, key=3, query_rows=rows), 0.6


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The logits and counts of all cases, by Python and by Node."""
    if NODE is None:
        pytest.skip("there is no Node on this machine")
    folder = tmp_path_factory.mktemp("modules")
    for name in ("layer.js", "evaluation.js"):
        (folder / name).write_text(asset(name), encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.js").write_text(PROGRAM)
    cases = list(_cases())
    payloads = [explorer_payload(facts, layer, tau=tau) for _, facts, layer, tau in cases]
    run = subprocess.run(
        [NODE, folder / "main.js"], input=json.dumps(payloads), capture_output=True, text=True, check=True
    )
    return {name: (*case, found) for (name, *case), found in zip(cases, json.loads(run.stdout), strict=True)}


@pytest.mark.parametrize("name", ["random", "float64", "bfloat16", "constructed", "several values", "transformer"])
def test_logits_and_counts_are_those_of_python(compared, name):
    facts, layer, tau, found = compared[name]
    with jax.enable_x64(True):
        exact = np.asarray(jax.tree.map(_as_float64, layer).tensor())
    logits = np.array(found["logits"]).reshape(exact.shape)
    assert np.abs(logits - exact).max() <= 1e-6 * max(1.0, np.abs(exact).max())
    assert np.allclose(found["sums"], found["logits"], atol=1e-9)
    report = factrank.recall(layer, facts, tau)
    assert found["facts"] == facts.n_facts
    assert found["right"] == round(report.recall * facts.n_facts)
    assert found["confident"] == round(report.recall_tau * facts.n_facts)
    assert found["hallucinations"] == report.hallucinations
    assert found["missing"] == report.silent_fibers
    assert found["least"] == pytest.approx(report.margin, abs=5e-2 if name == "bfloat16" else 1e-4)


def _as_float64(leaf):
    array = np.asarray(leaf)
    return array if array.dtype.kind == "i" else array.astype(np.float64)
