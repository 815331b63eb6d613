// How large the table is, between proved bounds, and what is proved of the layer.

import { fill, h } from "./dom.js";
import { certificateOf, isProofVoid } from "./model.js";
import { count, number, shown } from "./names.js";

const RANKS = {
  rank: ["Rank", "the least number of products key ⊗ query ⊗ value whose sum is the table"],
  completion_rank: ["Completion rank", "the same, free where there is no fact"],
  effective_rank: ["Effective rank", "the same, with the largest entry at the right value"],
};

export function makeSize(model) {
  const body = h("div", { class: "ranks" });
  const element = h("section", { class: "card size", "aria-labelledby": "size-title" }, h("h2", { id: "size-title" }, "How large is the table?"), body);
  function show() {
    const found = model.payload.measurement;
    element.hidden = !found;
    if (!found) return;
    const most = Math.max(...Object.values(found.ranks).map((one) => one.upper.value), 1);
    fill(body, h("p", { class: "soft" }, `${count(Math.round(found.bits))} bits of facts. Each rank lies between two proved bounds.`),
      Object.entries(found.ranks).map(([name, bounds]) => bracket(name, bounds, most)));
  }
  model.on("data", show);
  show();
  return element;
}

function bracket(name, { lower, upper, estimate, skipped }, most) {
  const [title, meaning] = RANKS[name];
  const at = (value) => (100 * Math.log1p(value)) / Math.log1p(most);
  const span = h("span", { class: lower.value === upper.value ? "span exact" : "span" });
  span.style.setProperty("left", `${at(lower.value)}%`);
  span.style.setProperty("width", `${at(upper.value) - at(lower.value)}%`);
  return h("div", { class: "bracket" },
    h("h3", {}, title, " ", h("span", { class: "value" }, lower.value === upper.value ? count(lower.value) : `${count(lower.value)} to ${count(upper.value)}`)),
    h("p", { class: "soft" }, meaning), h("div", { class: "scale", "aria-hidden": "true" }, span),
    h("dl", { class: "reasons" }, reason("≥", lower), reason("≤", upper),
      estimate ? [h("dt", {}, `~ ${count(estimate.value)}`), h("dd", {}, `${estimate.method}, not proved`)] : null),
    skipped.length ? h("details", {}, h("summary", {}, `${skipped.length} method${skipped.length > 1 ? "s" : ""} not run`),
      h("ul", {}, skipped.map((one) => h("li", {}, `${one.method}: ${one.reason}`)))) : null);
}

const reason = (sign, bound) => [h("dt", {}, `${sign} ${count(bound.value)}`), h("dd", {}, bound.method)];

export function makeCertificate(model) {
  const body = h("div");
  const element = h("section", { class: "card certificate", "aria-labelledby": "certificate-title" },
    h("h2", { id: "certificate-title" }, "Certificate"), body);

  let shownState = null;
  function show() {
    element.hidden = !model.layer;
    const found = certificateOf(model), state = isProofVoid(model) ? "void" : model.payload;
    if (!model.layer || state === shownState) return; // nothing is announced twice
    shownState = state;
    if (isProofVoid(model) && found) {
      fill(body, h("p", { class: "seal no", role: "alert" }, "Void: this page has changed the layer or its facts."),
        h("p", { class: "soft" }, found.certified ? "The proof is about the weights and facts as they were. Undo the edits to see it again. " : "There is no proof of these weights and facts. ", h("code", {}, "factrank edit"), " changes facts of a constructed layer and proves the result."));
      return;
    }
    if (!found) { fill(body, h("p", { class: "seal quiet" }, "No certificate"), h("p", { class: "soft" }, "Nothing is proved of this layer here; ", h("code", {}, "factrank verify"), " looks for a proof.")); return; }
    fill(body, found.certified
      ? h("p", { class: "seal yes" }, "Certified: every fact is recalled")
      : h("p", { class: "seal no" }, "Not certified"),
    h("p", { class: "soft" }, found.certified ? "Checked fact by fact, and proved under any floating-point summation order." : shown(found.reason, 400)),
    h("dl", { class: "reasons" }, rows(found).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  }
  model.on("data edits", show);
  show();
  return element;
}

function rows(found) {
  const worst = Array.isArray(found.worst) ? ` (${found.worst.map((name) => shown(name, 30)).join(", ")})` : "";
  return [
    ["recalled", `${count(found.recalled)} of ${count(found.facts)} facts`],
    ["least margin", found.margin === null ? "no competitor" : `${number(found.margin)}${worst}`],
    ["proved margin", found.proved_margin === null ? "–" : number(found.proved_margin)],
    ["arithmetic", `${found.arithmetic}, evaluated in ${found.precision}`],
    ["weights", h("code", { title: found.weights }, `${found.weights.slice(0, 16)}…`)],
    ["facts", h("code", { title: found.database }, `${found.database.slice(0, 16)}…`)],
  ];
}
