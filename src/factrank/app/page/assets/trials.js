// The trials of a study as a table that can be filtered by its settings and sorted by its measures.

import { choice, fill, h } from "./dom.js";
import { decode } from "./layer.js";
import { count, number } from "./names.js";

const MOST_ROWS = 100, MOST_CHOICES = 40, MOST_FILTERS = 6;

export function makeTrials(trials) {
  const columns = trials.columns.map(column);
  const filters = new Map();
  let sorted = null;
  const choosable = columns.filter((one) => one.choices).slice(0, MOST_FILTERS);
  const body = h("tbody"), note = h("p", { class: "soft", role: "status" });
  const head = h("tr", {}, columns.map((one, i) => h("th", { scope: "col", "aria-sort": "none" },
    h("button", { type: "button", class: "plain", onclick: () => { sorted = sorted && sorted.i === i ? { i, sign: -sorted.sign } : { i, sign: -1 }; show(); } }, one.label))));
  const pickers = choosable.map((one) => choice(one.label, [["", "any"], ...one.choices.map((text, i) => [String(i), text])], "", (value) => {
    if (value === "") filters.delete(one); else filters.set(one, one.choices[Number(value)]);
    show();
  }).element);

  function show() {
    let rows = Array.from({ length: trials.listed }, (_, i) => i).filter((i) => [...filters].every(([one, wanted]) => one.text(i) === wanted));
    if (sorted) rows.sort((a, b) => sorted.sign * columns[sorted.i].compare(a, b));
    [...head.children].forEach((th, i) => th.setAttribute("aria-sort", sorted && sorted.i === i ? (sorted.sign < 0 ? "descending" : "ascending") : "none"));
    note.textContent = `${count(rows.length)} trials${rows.length > MOST_ROWS ? `, of which the first ${MOST_ROWS} are shown` : ""}${trials.n > trials.listed ? `; this page has ${count(trials.listed)} of ${count(trials.n)}` : ""}`;
    fill(body, rows.slice(0, MOST_ROWS).map((i) => h("tr", {}, columns.map((one) => h("td", { class: one.isNumber ? "figure" : null }, one.text(i))))));
  }

  show();
  return h("section", { class: "card", "aria-labelledby": "trials-title", hidden: !columns.length }, h("h2", { id: "trials-title" }, "Trials"),
    h("div", { class: "row" }, pickers), note,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Trials" }, h("table", {}, h("thead", {}, head), body)));
}

function column({ label, numbers, words, codes }) {
  const cells = decode(numbers || codes).numbers;
  const text = words ? (i) => words[cells[i]] : (i) => (Number.isNaN(cells[i]) ? "–" : number(cells[i]));
  const found = new Map();
  for (let i = 0; i < cells.length && found.size <= MOST_CHOICES; i++) found.set(text(i), cells[i]);
  const choices = found.size > 1 && found.size <= MOST_CHOICES ? [...found].sort((a, b) => a[1] - b[1]).map(([one]) => one) : null;
  const rank = (x) => (Number.isNaN(x) ? -Infinity : x);
  return { label, text, choices, isNumber: !words, compare: (a, b) => rank(cells[a]) - rank(cells[b]) };
}
