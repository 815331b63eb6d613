// Charts by Vega-Lite: margins of all facts, and recall and hallucinations over the threshold.

import { h } from "./dom.js";
import { summarise } from "./evaluation.js";
import { token } from "./colours.js";
import { count, percent } from "./names.js";

const BINS = 30;
const TAUS = Array.from({ length: 200 }, (_, i) => (i + 0.5) / 200);

/** Draw a specification into a place, in the colours of the theme. Resolves to the Vega view. */
export async function draw(place, spec, config, renderer = "canvas") {
  if (!globalThis.vegaEmbed || !place.clientWidth) return null;
  const { view } = await globalThis.vegaEmbed(place, spec, {
    ast: true, renderer, config, actions: false, logLevel: 1, defaultStyle: false, tooltip: { disableDefaultStyle: true },
  });
  return view;
}

export function makeCharts(model, themes) {
  const margins = h("div", { class: "chart", role: "img" }), curve = h("div", { class: "chart", role: "img" });
  const aside = h("p", { class: "soft" });
  const element = h("section", { class: "card charts", "aria-labelledby": "charts-title" },
    h("h2", { id: "charts-title" }, "Margins and confidence"),
    h("div", { class: "pair" },
      h("figure", {}, h("figcaption", {}, "Margins of the facts", h("span", { class: "soft" }, " logit of the fact minus the largest other; below 0 the answer is wrong")), margins, aside),
      h("figure", {}, h("figcaption", {}, "Over the threshold τ", h("span", { class: "soft" }, " fraction of facts recalled, and of missing entries answered with confidence")), curve)));
  let pending = 0, views = {}, drawn = "";

  async function show() {
    element.hidden = !model.layer;
    if (!model.layer || !model.evaluation || !margins.clientWidth) return;
    const name = document.documentElement.dataset.theme, key = `${name} ${margins.clientWidth}`;
    const bins = binned(model), line = curves(model);
    margins.setAttribute("aria-label", `Histogram of margins: ${bins.wrong} of ${bins.total} facts are below 0.`);
    curve.setAttribute("aria-label", `At τ = ${model.tau}: ${percent(line.at.confident, line.at.facts)} of the facts, ${percent(line.at.hallucinations, line.at.missing)} of the missing entries.`);
    aside.textContent = bins.beyond ? `${count(bins.beyond)} of the margins lie beyond the axis, and are in the outermost bars.` : "";
    if (drawn !== key) {
      drawn = key;
      const made = [await draw(margins, histogram(margins.clientWidth, bins), themes[name]), await draw(curve, lines(curve.clientWidth, line.rows, model.tau), themes[name])];
      if (!made[0] || !made[1]) { drawn = ""; return; }
      views = { margins: made[0], curve: made[1] };
      return;
    }
    views.margins?.data("now", bins.now).data("before", bins.before).run();
    views.curve?.data("lines", line.rows).data("tau", [{ tau: model.tau }]).run();
  }

  const soon = () => { clearTimeout(pending); pending = setTimeout(show, 40); };
  model.on("data evaluation tau facts", soon);
  new ResizeObserver(soon).observe(element);
  document.addEventListener("themechange", soon);
  document.addEventListener("DOMContentLoaded", soon);
  return element;
}

function binned(model) {
  const now = [], { evaluation, baseline, data } = model;
  for (const pair of data.fibers.keys()) now.push(evaluation.margins[pair]);
  const before = baseline && model.edits.length ? [...baseline.margins] : [];
  const finite = Float64Array.from([...now, ...before].filter(Number.isFinite)).sort();
  const sizes = finite.map(Math.abs).sort(), reach = Math.max(1, 4 * (sizes[Math.floor(sizes.length / 2)] || 0));
  const low = Math.min(0, Math.max(finite[0] ?? 0, -reach)), high = Math.max(1, Math.min(finite.at(-1) ?? 1, reach));
  const beyond = now.filter((x) => x < low || x > high).length; // one far outlier must not hide all others
  const width = (high - low) / BINS || 1;
  const first = Math.floor(low / width) * width; // a bin starts at 0, so that none mixes right and wrong
  const counted = (list) => {
    const bins = new Map();
    for (const x of list) {
      if (!Number.isFinite(x)) continue;
      const i = Math.floor((Math.min(high, Math.max(low, x)) - first) / width + 1e-9);
      bins.set(i, (bins.get(i) || 0) + 1);
    }
    return [...bins].map(([i, facts]) => ({ from: first + i * width, to: first + (i + 1) * width, facts, wrong: first + (i + 0.5) * width < 0 ? "wrong" : "right" }));
  };
  return { now: counted(now), before: counted(before), beyond, total: now.length, wrong: now.filter((x) => !(x > 0)).length };
}

function curves(model) {
  const { evaluation: found, data } = model, facts = [], missing = [], rows = [];
  for (const [pair, values] of data.fibers) for (let i = 0; i < values.length; i++) facts.push(found.probabilities[pair]);
  for (let pair = 0; pair < found.best.length; pair++) if (found.best[pair] >= 0 && !data.fibers.has(pair)) missing.push(found.confidences[pair]);
  for (const [what, list] of [["facts recalled", facts], ["hallucinations", missing]]) {
    const sorted = Float64Array.from(list).sort();
    let below = 0;
    for (const tau of sorted.length ? TAUS : []) {
      while (below < sorted.length && sorted[below] < tau) below++;
      rows.push({ tau, what, fraction: 1 - below / sorted.length });
    }
  }
  return { rows, at: summarise(found, data.fibers, model.tau) };
}

const frame = (width) => ({ $schema: "https://vega.github.io/schema/vega-lite/v6.json", width: Math.max(200, width - 16), height: 200, autosize: { type: "fit", contains: "padding" } });

function histogram(width, { now, before }) {
  const x = { field: "from", type: "quantitative", bin: { binned: true }, title: "margin" };
  const y = { field: "facts", type: "quantitative", title: "facts", axis: { tickMinStep: 1, tickCount: 4 } };
  return { ...frame(width), layer: [
    { data: { name: "before", values: before }, mark: { type: "bar", fill: null, stroke: token("soft"), strokeDash: [2, 2], binSpacing: 1 }, encoding: { x, x2: { field: "to" }, y } },
    { data: { name: "now", values: now }, mark: { type: "bar", binSpacing: 1, tooltip: true }, encoding: { x, x2: { field: "to" }, y,
      color: { field: "wrong", type: "nominal", legend: null, scale: { domain: ["right", "wrong"], range: [token("accent"), token("no")] } } } },
    { data: { values: [{ zero: 0 }] }, mark: { type: "rule", color: token("soft") }, encoding: { x: { datum: 0 } } },
  ] };
}

function lines(width, rows, tau) {
  const x = { field: "tau", type: "quantitative", title: "τ", scale: { domain: [0, 1] } };
  return { ...frame(width), layer: [
    { data: { name: "lines", values: rows }, mark: { type: "line", interpolate: "step", strokeWidth: 2.5 }, encoding: { x,
      y: { field: "fraction", type: "quantitative", title: null, axis: { format: "%", tickCount: 5 }, scale: { domain: [0, 1] } },
      color: { field: "what", type: "nominal", title: null, scale: { domain: ["facts recalled", "hallucinations"], range: [token("accent"), token("warn")] } } } },
    { data: { name: "tau", values: [{ tau }] }, mark: { type: "rule", color: token("ink"), strokeDash: [4, 3] }, encoding: { x: { field: "tau", type: "quantitative" } } },
  ] };
}
