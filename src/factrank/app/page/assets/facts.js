// The facts: as a tensor, whose values are colours, and as a list that can be searched.

import { ofValue } from "./colours.js";
import { choice, fill, h, perFrame, segments } from "./dom.js";
import { makeMatrix } from "./matrix.js";
import { factsAt, pairOf, select } from "./model.js";
import { count, number, probability, shown } from "./names.js";

const ROW = 38;

export function makeFacts(model) {
  const views = { tensor: makeTensor(model), list: makeList(model) };
  const tabs = segments("View of the facts", [["tensor", "Tensor"], ["list", "List"]], "tensor", show);
  const element = h("section", { class: "card facts", "aria-labelledby": "facts-title" },
    h("header", {}, h("h2", { id: "facts-title" }, "Facts"), tabs.element), views.tensor.element, views.list.element);
  function show(name) {
    for (const [own, view] of Object.entries(views)) view.element.hidden = own !== name;
    views[name].show();
  }
  show("tensor");
  return { element, openList(filter) { tabs.set("list"); show("list"); views.list.filter(filter); element.scrollIntoView({ block: "start" }); } };
}

// ---------------------------------------------------------------- the tensor

function makeTensor(model) {
  const matrix = makeMatrix("Facts");
  let query = "all", shows = "facts";
  const pick = choice("Slice", [], "all", (value) => { query = value; show(); });
  const what = segments("Show", [["facts", "Facts"], ["answers", "Answers"]], "facts", (value) => { shows = value; show(); });
  const element = h("div", {}, h("div", { class: "row" }, pick.element, what.element), matrix.element);

  function options() {
    if (!model.data) return;
    const { queries } = model.data;
    fill(pick.select, h("option", { value: "all" }, "all queries: keys × queries"),
      queries.slice(0, 2000).map((name, q) => h("option", { value: String(q) }, `${shown(name, 50)}: keys × values`)));
    if (query !== "all" && Number(query) >= queries.length) query = "all";
    pick.select.value = query;
    what.element.hidden = !model.layer;
    if (!model.layer) { shows = "facts"; what.set("facts"); }
  }

  const valueAt = (k, q) => {
    if (shows === "facts") return factsAt(model, k, q)[0] ?? -1;
    return model.evaluation ? model.evaluation.best[pairOf(model, k, q)] : -1;
  };

  function show() {
    if (!model.data || element.hidden) return;
    const { keys, queries, values } = model.data, { k, q } = model.selection;
    const base = { rows: keys.length, rowName: (i) => keys[i], note: noted() };
    if (query === "all") {
      const isFaint = (i, j) => shows === "answers" && model.evaluation && !(model.evaluation.confidences[pairOf(model, i, j)] >= model.tau);
      matrix.show({ ...base, columns: queries.length, columnName: (j) => queries[j], selected: [k, q],
        label: `${shows === "facts" ? "Facts" : "Answers"}: keys by queries`,
        colour: (i, j) => { const v = valueAt(i, j); return v < 0 || isFaint(i, j) ? null : ofValue(v); },
        short: values.length > 1 && queries.length <= 40 ? (i, j) => { const v = valueAt(i, j); return v < 0 || isFaint(i, j) ? "" : shown(values[v], 24); } : undefined,
        text: (i, j) => `${shown(keys[i])}, ${shown(queries[j])}: ${words(i, j)}`,
        onSelect: (i, j) => select(model, i, j) });
    } else {
      const at = Number(query);
      matrix.show({ ...base, columns: values.length, columnName: (j) => values[j], selected: [k, null],
        label: `${shows === "facts" ? "Facts" : "Answers"} of ${shown(queries[at])}: keys by values`,
        colour: (i, j) => (shows === "facts" ? factsAt(model, i, at).includes(j) : valueAt(i, at) === j) ? ofValue(j) : EMPTY(),
        text: (i, j) => `${shown(keys[i])}, ${shown(queries[at])}, ${shown(values[j])}: ${factsAt(model, i, at).includes(j) ? "a fact" : "no fact"}${valueAtAnswers(i, at) === j ? ", the layer’s answer" : ""}`,
        onSelect: (i) => select(model, i, at) });
    }
  }

  function noted() {
    return query === "all"
      ? (shows === "facts" ? "One cell per (key, query); equal colours are equal values, empty cells have no fact." : "What the layer answers; empty where no value reaches τ.")
      : "The slice of one query: a 0/1 matrix of keys and values.";
  }

  const valueAtAnswers = (i, q) => (model.evaluation ? model.evaluation.best[pairOf(model, i, q)] : -1);
  function words(i, j) {
    const own = factsAt(model, i, j), best = valueAtAnswers(i, j);
    const fact = own.length ? own.slice(0, 3).map((v) => shown(model.data.values[v])).join(", ") : "no fact";
    if (best < 0) return fact;
    return `${fact}; the layer answers ${shown(model.data.values[best])} (${probability(model.evaluation.confidences[pairOf(model, i, j)])})`;
  }

  model.on("data", () => { options(); show(); });
  model.on("evaluation facts tau", show);
  model.on("select", () => { show(); matrix.reveal(model.selection.k, query === "all" ? model.selection.q : (factsAt(model, model.selection.k, Number(query))[0] ?? 0)); });
  options();
  return { element, show };
}

const EMPTY = () => (document.documentElement.dataset.theme === "dark" ? "#1d262e" : "#f1f4f6");

// ---------------------------------------------------------------- the list

const FILTERS = [["all", "All facts"], ["wrong", "Wrong"], ["unsure", "Below τ"], ["hallucinations", "Hallucinations"]];

function makeList(model) {
  const search = h("input", { type: "search", id: "facts-search", placeholder: "Search keys, queries, values", oninput: () => refresh() });
  const pick = choice("Which", FILTERS, "all", () => refresh());
  const sort = choice("Order", [["table", "as in the table"], ["margin", "weakest first"]], "table", () => refresh());
  const window = h("div", { class: "window" });
  const list = h("div", { class: "list", role: "listbox", "aria-label": "Facts", tabindex: "0" }, window);
  const found = h("p", { class: "soft", role: "status" });
  const element = h("div", { hidden: true },
    h("div", { class: "row" }, h("div", { class: "field wide" }, h("label", { for: "facts-search" }, "Search"), search), pick.element, sort.element), found, list);
  let rows = [], active = 0;

  function refresh() {
    if (!model.data || element.hidden) return;
    pick.element.hidden = sort.element.hidden = !model.layer;
    rows = chosen(model, search.value, pick.select.value, sort.select.value);
    active = Math.max(0, rows.indexOf(pairOf(model, model.selection.k, model.selection.q)));
    found.textContent = `${count(rows.length)} ${pick.select.value === "hallucinations" ? "pairs without a fact" : "pairs with facts"}`;
    window.style.setProperty("height", `${Math.min(rows.length * ROW, 15e6)}px`);
    draw();
  }

  const draw = perFrame(() => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(rows.length, first + Math.ceil(list.clientHeight / ROW) + 8);
    const shownRows = [];
    for (let i = first; i < last; i++) shownRows.push(line(i));
    fill(window, shownRows);
    if (rows.length) list.setAttribute("aria-activedescendant", `fact-${active}`); else list.removeAttribute("aria-activedescendant");
  });

  function line(i) {
    const nQueries = model.data.queries.length, pair = rows[i], k = Math.floor(pair / nQueries), q = pair % nQueries;
    const own = model.data.fibers.get(pair), found = model.evaluation;
    const values = own ? own.slice(0, 3).map((v) => shown(model.data.values[v], 40)).join(", ") + (own.length > 3 ? ", …" : "")
      : found ? shown(model.data.values[found.best[pair]], 40) : "";
    const margin = own && found ? found.margins[pair] : NaN;
    const state = !found || !model.layer ? "" : !own ? "warn" : !(margin > 0) ? "no" : found.probabilities[pair] >= model.tau ? "yes" : "quiet";
    const words = { yes: "recalled", no: "wrong", quiet: "below τ", warn: "hallucination" }[state] || "";
    const element = h("div", { class: "fact-row", role: "option", id: `fact-${i}`, "aria-selected": String(i === active),
      "aria-setsize": String(rows.length), "aria-posinset": String(i + 1), onclick: () => { active = i; choose(); } },
      h("span", { class: `dot ${state}`, "aria-hidden": "true" }),
      h("span", { class: "who" }, h("b", {}, shown(model.data.keys[k], 40)), " ", h("span", { class: "soft" }, shown(model.data.queries[q], 40))),
      h("span", { class: own ? "what" : "what made-up" }, values),
      h("span", { class: "figure" }, own && found && model.layer ? number(margin) : words ? probability(found.confidences[pair]) : ""),
      h("span", { class: "hidden" }, words));
    element.style.setProperty("transform", `translateY(${i * ROW}px)`);
    return element;
  }

  function choose() {
    const nQueries = model.data.queries.length, pair = rows[active];
    if (pair !== undefined) select(model, Math.floor(pair / nQueries), pair % nQueries);
    draw();
  }

  list.addEventListener("scroll", draw, { passive: true });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
    if (step === undefined || !rows.length) return;
    event.preventDefault();
    active = Math.min(rows.length - 1, Math.max(0, active + step));
    const y = active * ROW;
    if (y < list.scrollTop) list.scrollTop = y;
    if (y + ROW > list.scrollTop + list.clientHeight) list.scrollTop = y + ROW - list.clientHeight;
    choose();
  });
  new ResizeObserver(draw).observe(list);
  model.on("data evaluation facts tau", refresh);
  model.on("select", () => { const at = rows.indexOf(pairOf(model, model.selection.k, model.selection.q)); if (at >= 0) active = at; draw(); });
  return { element, show: refresh, filter(name) { pick.select.value = name; list.scrollTop = 0; refresh(); } };
}

/** The pairs that a search and a filter leave, in order. */
function chosen(model, text, which, order) {
  const { data, evaluation: found } = model, nQueries = data.queries.length;
  const wanted = text.trim().toLowerCase();
  const hit = ["keys", "queries", "values"].map((axis) => wanted === "" ? null : Uint8Array.from(data[`${axis}Lowered`], (name) => (name.includes(wanted) ? 1 : 0)));
  const matches = (pair, values) => wanted === "" || hit[0][Math.floor(pair / nQueries)] || hit[1][pair % nQueries] || values.some((v) => hit[2][v]);
  const rows = [];
  if (which === "hallucinations") {
    for (let pair = 0; found && pair < found.best.length; pair++) {
      if (found.best[pair] >= 0 && !data.fibers.has(pair) && found.confidences[pair] >= model.tau && matches(pair, [found.best[pair]])) rows.push(pair);
    }
  } else {
    for (const [pair, values] of data.fibers) {
      if (!matches(pair, values)) continue;
      if (which === "wrong" && !(found && !(found.margins[pair] > 0))) continue;
      if (which === "unsure" && !(found && !(found.probabilities[pair] >= model.tau))) continue;
      rows.push(pair);
    }
    rows.sort((a, b) => a - b);
  }
  if (order === "margin" && found) {
    const weight = which === "hallucinations" ? (pair) => -found.confidences[pair] : (pair) => found.margins[pair];
    rows.sort((a, b) => weight(a) - weight(b));
  }
  return rows;
}
