// Ask the layer for any (key, query): its answer, the probabilities, what each path adds, and the fact itself.

import { makeCombobox } from "./combobox.js";
import { fill, h } from "./dom.js";
import { judge } from "./evaluation.js";
import { pathsAt, softmax } from "./layer.js";
import { editFact, factsAt, logitsOf, select } from "./model.js";
import { number, probability, shown } from "./names.js";

const MOST_VALUES = 6, MOST_PATHS = 9;
const VERDICTS = {
  fact: ["a fact", "yes"],
  error: ["an error", "no"],
  hallucination: ["a hallucination", "warn"],
  guess: ["no fact, not confident", "quiet"],
  diverged: ["not a number", "no"],
};

/** The verdict on logits at a pair, by the facts there. A tie of a fact with another value is an error. */
export function verdictOf(judged, values, tau) {
  if (Number.isNaN(judged.confidence)) return "diverged";
  if (!values.length) return judged.confidence >= tau ? "hallucination" : "guess";
  if (values.length === 1) return judged.margin > 0 ? "fact" : "error";
  return values.includes(judged.best) && !(judged.margin === 0) ? "fact" : "error";
}

export function makeAsk(model) {
  const names = (axis) => [() => model.data[axis], () => model.data[`${axis}Lowered`]];
  const key = makeCombobox("Key", ...names("keys"), (k) => select(model, k, model.selection.q));
  const query = makeCombobox("Query", ...names("queries"), (q) => select(model, model.selection.k, q));
  const value = makeCombobox("New value", ...names("values"), () => {});
  const answer = h("div", { class: "answer", role: "status", "aria-live": "polite", "aria-atomic": "true" });
  const bars = h("ol", { class: "bars" });
  const paths = h("div", { class: "paths" });
  const fact = h("p", { class: "fact" });
  const set = () => { if (value.get() >= 0) editFact(model, model.selection.k, model.selection.q, [value.get()]); };
  const remove = h("button", { type: "button", onclick: () => editFact(model, model.selection.k, model.selection.q, []) }, "Delete fact");
  const edit = h("details", { class: "edit" }, h("summary", {}, "Change this fact"),
    h("div", { class: "row" }, value.element, h("button", { type: "button", onclick: set }, "Set fact"), remove),
    h("p", { class: "soft" }, "The weights stay as they are: watch what the layer makes of a fact that it was not given."));
  const withLayer = h("div", {}, answer, h("h3", {}, "Most probable values"), bars, h("h3", {}, "Where the margin comes from"), paths);
  const element = h("section", { class: "card ask", "aria-labelledby": "ask-title" },
    h("h2", { id: "ask-title" }, "Ask"), h("div", { class: "row" }, key.element, query.element), withLayer, fact, edit);

  function show() {
    if (!model.data || !model.data.keys.length || !model.data.queries.length) { element.hidden = true; return; }
    element.hidden = false;
    const { k, q } = model.selection, values = factsAt(model, k, q);
    key.set(k);
    query.set(q);
    value.set(values.length ? values[0] : -1);
    remove.disabled = !values.length;
    fill(fact, ...(values.length ? ["The table says ", h("strong", {}, values.slice(0, 4).map((v) => shown(model.data.values[v])).join(", ") + (values.length > 4 ? ` and ${values.length - 4} more` : "")), "."]
      : ["The table has no fact here."]));
    withLayer.hidden = !model.layer;
    if (model.layer) showAnswer(k, q, values);
  }

  function showAnswer(k, q, values) {
    const logits = logitsOf(model, k, q), judged = judge(logits, values), p = softmax(logits);
    const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a]).slice(0, Math.max(2, MOST_VALUES));
    const best = judged.best, verdict = verdictOf(judged, values, model.tau), [text, tone] = VERDICTS[verdict];
    const said = `${model.data.values[best]} ${verdict} ${probability(p[best])} ${k} ${q} ${model.run}`;
    if (answer.dataset.said !== said) fill(answer, h("span", { class: "soft" }, "The layer answers"),
      h("span", { class: "name", title: shown(model.data.values[best], 400) }, shown(model.data.values[best], 80)),
      h("span", { class: `chip ${tone}`, "data-verdict": verdict }, text),
      h("span", { class: "soft" }, `with probability ${probability(p[best])}`));
    answer.dataset.said = said; // a live region: it must not be filled again with the same words
    fill(bars, order.slice(0, MOST_VALUES).map((v) => bar(model, v, p[v], values.includes(v))));
    const rival = order.find((v) => v !== best);
    fill(paths, rival === undefined ? h("p", { class: "soft" }, "The layer knows one value only.") : pathRows(model, k, q, best, rival));
  }

  model.on("data select tau edits", show);
  show();
  return element;
}

function bar(model, v, p, isFact) {
  const fillBar = h("span", { class: "fill" });
  fillBar.style.setProperty("width", `${100 * (p || 0)}%`);
  return h("li", {}, h("span", { class: "label", title: shown(model.data.values[v], 400) }, shown(model.data.values[v], 48), isFact ? [" ", h("span", { class: "tag" }, "fact")] : null),
    h("span", { class: "track", "aria-hidden": "true" }, fillBar), h("span", { class: "figure" }, probability(p)));
}

function pathRows(model, k, q, best, rival) {
  const rows = pathsAt(model.layer, k, q).map((path) => ({ ...path, adds: path.logits[best] - path.logits[rival] }));
  const total = rows.reduce((sum, row) => sum + row.adds, 0);
  const kept = rows.length <= MOST_PATHS ? rows
    : [rows[0], ...rows.slice(1).sort((a, b) => Math.abs(b.adds) - Math.abs(a.adds)).slice(0, MOST_PATHS - 2)];
  const rest = rows.filter((row) => !kept.includes(row));
  const all = kept.map((row) => [pathName(row), row.adds]);
  if (rest.length) all.push([`${rest.length} more paths`, rest.reduce((sum, row) => sum + row.adds, 0)]);
  const most = Math.max(...all.map(([, adds]) => Math.abs(adds)), 1e-12);
  const list = h("ul", { class: "diverging" }, all.map(([name, adds]) => {
    const fillBar = h("span", { class: `fill ${adds < 0 ? "minus" : "plus"}` });
    fillBar.style.setProperty("width", `${(50 * Math.abs(adds)) / most}%`);
    return h("li", {}, h("span", { class: "label" }, name), h("span", { class: "track", "aria-hidden": "true" }, fillBar),
      h("span", { class: "figure" }, signed(adds)));
  }));
  return [h("p", { class: "soft" }, "Margin ", h("strong", {}, signed(total)), " of ", shown(model.data.values[best], 40),
    " over ", shown(model.data.values[rival], 40), ", path by path:"), list];
}

function pathName(row) {
  return row.head === null ? "direct" : [`head ${row.head}, ${row.token} `, h("span", { class: "soft" }, `A = ${number(row.weight)}`)];
}

const signed = (x) => (x > 0 ? "+" : "") + number(x);
