// Inside the layer: heat maps of the parts of its tensor (E, A, V, L), and of its weights, which can be edited.

import { contrast, diverging, gradient, sequential } from "./colours.js";
import { choice, fill, h } from "./dom.js";
import { judge } from "./evaluation.js";
import { addCircuit, attentionAt, logitsAt, softmax } from "./layer.js";
import { makeMatrix } from "./matrix.js";
import { editWeight, factsAt, select } from "./model.js";
import { number, probability, shown } from "./names.js";

const PARTS = [
  ["P", "P: probabilities, for one query"], ["L", "L: logits, for one query"], ["A", "A: attention of a head"], ["V", "V: what a head writes"], ["E", "E: direct path"],
];
const WEIGHTS = [
  ["embedding", "embedding x"], ["w_q", "W_Q"], ["w_k", "W_K"], ["w_v", "W_V"], ["w_o", "W_O"], ["unembedding", "unembedding U"],
];
const MEANINGS = {
  P: "Probabilities of every value, by key: the softmax of L[k, q, :] for the query chosen.",
  L: "Logits of every value, by key: L[k, q, :] for the query chosen. The largest in a row is the answer.",
  A: "How much a head looks at the key rather than at the query itself: A[k, q] from 0 to 1.",
  V: "The logits that a head writes for each token it looks at: V[t, :] = x_t W_V W_O U.",
  E: "The logits that the query token writes without any head: E[q, :] = x_q U.",
};

export function makeHeatmaps(model) {
  const matrix = makeMatrix("Heat map");
  const state = { what: "P", head: 0, cell: [0, 0] };
  const pick = (value) => { what.select.value = state.what = value; state.cell = null; show(); };
  const what = choice("Show", [], "P", pick);
  fill(what.select, h("optgroup", { label: "Parts of the tensor" }, PARTS.map(([v, t]) => h("option", { value: v }, t))),
    h("optgroup", { label: "Weights (can be edited)" }, WEIGHTS.map(([v, t]) => h("option", { value: v }, t))));
  what.select.value = "P";
  const head = choice("Head", [], "0", (value) => { state.head = Number(value); state.cell = null; show(); });
  const query = choice("Query", [], "0", (value) => select(model, model.selection.k, Number(value)));
  const legend = h("div", { class: "legend", "aria-hidden": "true" });
  const inspector = h("div", { class: "inspector" });
  const element = h("section", { class: "card layer", "aria-labelledby": "layer-title" },
    h("h2", { id: "layer-title" }, "Inside the layer"), h("p", { class: "soft words" }), formula(pick),
    h("div", { class: "row" }, what.element, head.element, query.element, legend), matrix.element, inspector);
  let rows = new Map(); // logits by key, or circuits by token, of the map on screen
  let most = { name: "", value: 1 };

  function options() {
    element.hidden = !model.layer;
    if (!model.layer) return;
    element.querySelector(".words").textContent = `${model.payload.layer.words}; ${model.payload.layer.parameters.toLocaleString("en")} parameters in ${model.payload.layer.precision}, computed here in float64`;
    for (const kind of ["softmax", "linear"]) element.querySelector(`.formula .${kind}`).hidden = model.layer.attention !== kind;
    state.head = Math.min(state.head, model.layer.nHeads - 1);
    fill(head.select, Array.from({ length: model.layer.nHeads }, (_, i) => h("option", { value: String(i) }, `head ${i}`)));
    head.select.value = String(state.head);
    fill(query.select, model.data.queries.slice(0, 5000).map((name, q) => h("option", { value: String(q) }, shown(name, 50))));
  }

  const tokenName = (t) => (t < model.layer.nKeys ? model.data.keys[t] : model.data.queries[t - model.layer.nKeys]);
  const dimension = (i) => `${i}`;

  function rowOf(i) {
    if (!rows.has(i)) {
      if (rows.size > 600) rows = new Map();
      const out = new Float64Array(model.layer.nValues);
      if (state.what === "V") addCircuit(model.layer, state.head, i, 1, out);
      else logitsAt(model.layer, i, model.selection.q, out);
      rows.set(i, state.what === "P" ? softmax(out) : out);
    }
    return rows.get(i);
  }

  /** Rows, columns, names and number(i, j) of the map that is chosen. */
  function map() {
    const { layer, data } = model, { nValues, nKeys, nQueries } = layer;
    const toValues = { columns: nValues, columnName: (j) => data.values[j] };
    switch (state.what) {
      case "P":
      case "L": return { isShare: state.what === "P", rows: nKeys, rowName: (i) => data.keys[i], ...toValues, number: (i, j) => rowOf(i)[j], selected: [model.selection.k, null] };
      case "A": return { rows: nKeys, rowName: (i) => data.keys[i], columns: nQueries, columnName: (j) => data.queries[j],
        number: (i, j) => attentionAt(layer, state.head, i, j)[0], selected: [model.selection.k, model.selection.q], isShare: layer.attention !== "linear" };
      case "V": return { rows: layer.nTokens, rowName: tokenName, ...toValues, number: (i, j) => rowOf(i)[j] };
      case "E": return { rows: nQueries, rowName: (i) => data.queries[i], ...toValues, number: (i, j) => layer.direct[i * nValues + j], selected: [model.selection.q, null] };
      default: return weights();
    }
  }

  function weights() {
    const { numbers, shape } = model.layer.parts[state.what];
    const [n, m] = shape.slice(-2), start = shape.length === 3 ? state.head * n * m : 0;
    const rowName = state.what === "embedding" ? tokenName : dimension;
    const columnName = state.what === "unembedding" ? (j) => model.data.values[j] : dimension;
    return { rows: n, columns: m, rowName, columnName, number: (i, j) => numbers[start + i * m + j], index: (i, j) => start + i * m + j, selected: state.cell };
  }

  /** The largest size of a number, over at most 300 rows; fixed while a map is on screen. */
  function scaleOf(shownMap) {
    const name = `${state.what} ${state.head} ${state.what === "L" ? model.selection.q : ""}`;
    if (most.name !== name || most.layer !== model.layer) {
      let value = 0;
      const step = Math.max(1, Math.floor((shownMap.rows * shownMap.columns) / 200000));
      for (let i = 0; i < shownMap.rows; i += step) for (let j = 0; j < shownMap.columns; j++) {
        const size = Math.abs(shownMap.number(i, j));
        if (size > value && size < Infinity) value = size;
      }
      most = { name, value: value || 1, layer: model.layer };
    }
    return most.value;
  }

  function show() {
    if (!model.layer) return;
    rows = new Map();
    element.querySelectorAll(".formula button").forEach((term) => term.setAttribute("aria-pressed", String(term.dataset.map === state.what)));
    const shownMap = map(), scale = shownMap.isShare ? 1 : scaleOf(shownMap);
    const perHead = ["A", "V", "w_q", "w_k", "w_v", "w_o"].includes(state.what);
    head.element.hidden = !perHead || model.layer.nHeads === 1;
    query.element.hidden = !["L", "P"].includes(state.what);
    query.select.value = String(model.selection.q);
    fill(legend, h("span", {}, shownMap.isShare ? "0" : number(-scale)), bar(shownMap.isShare ? "sequential" : "diverging"), h("span", {}, number(shownMap.isShare ? 1 : scale)));
    const text = (i, j) => `${shown(shownMap.rowName(i))}, ${shown(shownMap.columnName(j))}: ${number(shownMap.number(i, j))}`;
    const short = shownMap.columns <= 24 ? (i, j) => (state.what === "P" ? probability : number)(shownMap.number(i, j)) : undefined;
    const ink = (i, j) => contrast(shownMap.isShare ? 2 * shownMap.number(i, j) - 1 : Math.abs(shownMap.number(i, j)) / scale);
    matrix.show({ ...shownMap, text, short, ink, least: 24, note: meaning(), label: (PARTS.concat(WEIGHTS).find(([v]) => v === state.what) || [])[1],
      colour: (i, j) => { const x = shownMap.number(i, j); return shownMap.isShare ? sequential(x) : diverging(x, scale); },
      onSelect: (i, j) => { state.cell = [i, j]; follow(i, j); inspect(); show(); } });
    inspect();
  }

  /** Scroll to the selected key, and to its fact or answer. */
  function reveal() {
    const { k, q } = model.selection;
    if (["L", "P"].includes(state.what)) matrix.reveal(k, factsAt(model, k, q)[0] ?? judge(logitsAt(model.layer, k, q)).best);
    if (state.what === "A") matrix.reveal(k, q);
    if (state.what === "E") matrix.reveal(q, 0);
  }

  const meaning = () => (state.what === "A" && model.layer.attention === "linear" ? "The score of the key at the query, by which linear attention weights it: A[k, q]." : MEANINGS[state.what]) || "Choose a weight to change it, and watch recall, margins and answers follow.";

  function follow(i, j) {
    const { k, q } = model.selection;
    if (["L", "P"].includes(state.what)) select(model, i, q);
    if (state.what === "A") select(model, i, j);
    if (state.what === "E") select(model, k, i);
  }

  function inspect() {
    const shownMap = map();
    if (!state.cell || state.cell[0] >= shownMap.rows || state.cell[1] >= shownMap.columns) { fill(inspector, shownMap.index ? h("p", { class: "soft" }, "No weight is chosen.") : null); return; }
    const [i, j] = state.cell, x = shownMap.number(i, j);
    const title = h("p", {}, h("strong", {}, shown(shownMap.rowName(i))), " × ", h("strong", {}, shown(shownMap.columnName(j))), " = ", h("output", {}, number(x)));
    if (!shownMap.index) { fill(inspector, title); return; }
    if (inspector.dataset.cell === `${state.what} ${state.head} ${i} ${j}` && inspector.contains(document.activeElement)) {
      inspector.querySelector("output").textContent = number(x);
      return;
    }
    inspector.dataset.cell = `${state.what} ${state.head} ${i} ${j}`;
    const reach = Math.max(1, 2 * most.value, 2 * Math.abs(x) || 0), index = shownMap.index(i, j);
    const slide = h("input", { type: "range", id: "weight-slide", min: String(-reach), max: String(reach), step: "any", value: String(x) });
    const type = h("input", { type: "number", id: "weight-number", step: "any", value: String(Number(x.toPrecision(6))) });
    slide.addEventListener("input", () => { type.value = Number(slide.value).toPrecision(4); editWeight(model, state.what, index, Number(slide.value)); });
    type.addEventListener("change", () => { if (type.value !== "" && Number.isFinite(Number(type.value))) { slide.max = String(Math.max(Number(slide.max), Math.abs(type.value))); slide.min = String(-slide.max); slide.value = type.value; editWeight(model, state.what, index, Number(type.value)); } });
    fill(inspector, title, h("div", { class: "row" },
      h("div", { class: "field wide" }, h("label", { for: "weight-slide" }, "Weight"), slide),
      h("div", { class: "field" }, h("label", { for: "weight-number" }, "Value"), type)));
  }

  model.on("data", () => { state.cell = null; options(); show(); });
  model.on("edits", show);
  model.on("select", () => { show(); reveal(); });
  document.addEventListener("themechange", show);
  options();
  show();
  return element;
}

/** The layer as a formula, whose terms are the maps. */
function formula(pick) {
  const term = (what, name, ...rest) => h("button", { type: "button", "data-map": what, "aria-label": `Show ${MEANINGS[what].split(":")[0]}`, onclick: () => pick(what) }, h("i", {}, name), ...rest);
  const raised = () => h("sup", {}, "h"), at = (text) => h("span", { class: "at" }, text);
  return h("div", { class: "formula", role: "group", "aria-label": "The layer as a formula: choose a term to see it" },
    term("P", "P"), " = softmax ", term("L", "L"), ", ", h("span", { class: "whole" }, h("i", {}, "L"), at("[k,q]"), " = "), term("E", "E", at("[q]")), " + Σ", h("sub", {}, "h"), " ",
    term("A", "A", raised(), at("[k,q]")), " ", term("V", "V", raised(), at("[k]")), " + ", h("span", { class: "softmax" }, "(1 − ", h("i", {}, "A"), raised(), at("[k,q]"), ")"), h("span", { class: "linear" }, h("i", {}, "B"), raised(), at("[k,q]")), " ", h("i", {}, "V"), raised(), at("[q]"));
}

function bar(kind) {
  const element = h("span", { class: "ramp" });
  element.style.setProperty("background", gradient(kind));
  return element;
}
