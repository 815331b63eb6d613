// The title, the numbers that matter at the threshold, and the edits.

import { fill, h } from "./dom.js";
import { certificateOf, reset, setTau, summary, undo } from "./model.js";
import { count, number, percent, shown } from "./names.js";

export function makeOverview(model, { openList }) {
  const title = h("h1"), subtitle = h("p", { class: "subtitle" });
  const slider = h("input", { type: "range", id: "tau", min: "0.01", max: "0.999", step: "0.001" });
  const output = h("output", { for: "tau" });
  const tiles = h("div", { class: "tiles" });
  const meter = h("div", { class: "meter", "aria-hidden": "true" }, h("span"));
  const edits = h("div", { class: "edits", role: "status" });
  const strip = h("div", { class: "strip" },
    h("div", { class: "tau" }, h("label", { for: "tau" }, "Confident from ", h("i", {}, "τ"), " = ", output), slider), tiles, edits, meter);
  slider.addEventListener("input", () => setTau(model, Number(slider.value)));

  function head() {
    if (!model.data) return;
    const { keys, queries, values } = model.data, { functional, full } = model.payload.database;
    title.textContent = shown(model.payload.title || "Facts", 120);
    subtitle.textContent = `${count(model.data.nFacts)} facts: ${count(keys.length)} keys × ${count(queries.length)} queries → ${count(values.length)} values; ${functional ? "functional" : "multi-valued"}, ${full ? "full" : "not full"}`;
    strip.hidden = !model.layer;
    numbers();
  }

  function numbers() {
    slider.value = String(model.tau);
    slider.setAttribute("aria-valuetext", `τ = ${model.tau.toFixed(3)}`);
    output.textContent = Number(model.tau.toFixed(3)).toString();
    const found = summary(model);
    if (!found) { fill(tiles, ["Recall", "Confident recall", "Hallucinations", "Least margin"].map((name) => tile(name, "…", "computing"))); return; }
    const sampled = model.evaluation.stride > 1 ? ` (1 in ${count(model.evaluation.stride)} sampled)` : "";
    fill(tiles,
      tile("Recall", percent(found.right, found.facts), `${count(found.right)} of ${count(found.facts)} facts`, found.right < found.facts && (() => openList("wrong")), found.right === found.facts ? "yes" : "no"),
      tile("Confident recall", percent(found.confident, found.facts), `${count(found.confident)} with p ≥ τ`, found.confident < found.facts && (() => openList("unsure")), found.confident === found.facts ? "yes" : ""),
      tile("Hallucinations", count(found.hallucinations), `of ${count(found.missing)} missing entries${sampled}`, found.hallucinations > 0 && (() => openList("hallucinations")), found.hallucinations ? "warn" : "yes"),
      tile("Least margin", found.diverged ? "NaN" : number(found.least), found.worst < 0 ? "no facts" : worst(found.worst), null, found.least > 0 && !found.diverged ? "" : "no"));
  }

  function worst(pair) {
    const { keys, queries } = model.data, k = Math.floor(pair / queries.length);
    return `${shown(keys[k], 18)}, ${shown(queries[pair % queries.length], 14)}`;
  }

  function changed() {
    const n = model.edits.length;
    fill(edits, n || model.isReplaced ? [h("span", {}, n ? `${n} edit${n > 1 ? "s" : ""}` : model.isReplaced, certificateOf(model)?.certified ? h("span", { class: "no" }, ", certificate void") : null),
      n ? h("button", { type: "button", onclick: () => undo(model) }, "Undo") : null,
      h("button", { type: "button", onclick: () => reset(model) }, "Reset")] : null);
  }

  function progress() {
    meter.hidden = model.partial >= 1 || !model.layer;
    meter.firstChild.style.setProperty("width", `${100 * model.partial}%`);
  }

  model.on("data", head);
  model.on("tau evaluation facts", numbers);
  model.on("edits", changed);
  model.on("progress", progress);
  head();
  return { element: h("div", { class: "overview" }, title, subtitle, strip) };
}

function tile(name, value, note, onclick, tone = "") {
  const inside = [h("span", { class: "name" }, name), h("span", { class: `value ${tone}` }, value), h("span", { class: "note" }, note)];
  return onclick ? h("button", { type: "button", class: "tile", onclick, title: "Show them in the list" }, inside) : h("div", { class: "tile" }, inside);
}
