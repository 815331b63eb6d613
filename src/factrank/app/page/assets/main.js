// The explorer: views of a payload (explorer_payload in payload.py), mounted into an element.
//
// Contract with live.js, which a live page includes on top of these modules and a static page does not:
//
//   start()                 mounts the page's payload. Returns { explorer, live }: `live` is what build_explorer was given,
//                           null on a static page. live.js exports connect(), which is called instead of start() and
//                           calls start() itself.
//   <section id="live">     is empty and hidden; live.js shows it and fills it.
//   mount(root, payload)    builds all views in `root`. Returns the explorer:
//   explorer.update(payload)  replaces all data. The selection is kept if its names still exist; edits are dropped.
//   explorer.setParts(parts, label)  replaces only the weights of the layer and recomputes everything, for live training and
//                           for scrubbing over epochs. `parts` maps names to {dtype, shape, data} as in
//                           payload.layer.parts, with base64 or a typed array as data. The payload must have a layer of
//                           the same sizes. The certificate is void until the next update();
//                           `label` says what is shown, such as "epoch 40".
//   explorer.onEdit(f)      calls f(edits) after each change; edits are {kind: "fact" | "weight", ...}.
//   explorer.facts()        the facts as they are now, with edits: [[key, query, value], ...] by name.
//   explorer.show(view)     shows "explore" or "gallery". A gallery stays when an update brings none.
//   explorer.model          the state (model.js), for reading.
//
// All of update and setParts return promises that resolve when the evaluation is complete or superseded.

import { makeAsk } from "./ask.js";
import { makeCharts } from "./charts.js";
import { h } from "./dom.js";
import { makeFacts } from "./facts.js";
import { makeGallery } from "./gallery.js";
import { makeHeatmaps } from "./heatmaps.js";
import { readLink, writeLink } from "./links.js";
import { makeModel, reevaluate, setParts, update } from "./model.js";
import { makeOverview } from "./overview.js";
import { makeCertificate, makeSize } from "./size.js";

export function mount(root, payload, themes = {}) {
  const model = makeModel(payload);
  const facts = makeFacts(model);
  const overview = makeOverview(model, { openList: facts.openList });
  const explore = h("div", { class: "view explore" },
    overview.element,
    h("div", { class: "columns" }, makeAsk(model), facts.element),
    makeHeatmaps(model), makeCharts(model, themes),
    h("div", { class: "columns even" }, makeSize(model), makeCertificate(model)));
  const gallery = makeGallery(model, themes, () => writeLink(model, rest()));
  const views = makeViews(model, explore, gallery, () => writeLink(model, rest()));
  const rest = () => ({ view: views.current() === "gallery" && model.data ? "gallery" : "", ...(views.current() === "gallery" ? gallery.link() : {}) });
  root.replaceChildren(views.element, explore, gallery.element);
  const follow = () => { const fields = readLink(model); gallery.open(fields); views.show(fields.view || (model.data || !payload.gallery ? "explore" : "gallery")); };
  follow();
  addEventListener("hashchange", follow);
  model.on("select tau data", () => writeLink(model, rest()));
  if (model.data) writeLink(model, rest());
  reevaluate(model);
  return {
    model,
    update: (next) => update(model, next),
    setParts: (parts, label) => setParts(model, parts, label),
    onEdit: (f) => model.on("edits", () => f(model.edits)),
    show: views.show,
    facts: () => [...model.data.fibers].flatMap(([pair, values]) => {
      const k = Math.floor(pair / model.data.queries.length), q = pair % model.data.queries.length;
      return values.map((v) => [model.data.keys[k], model.data.queries[q], model.data.values[v]]);
    }),
  };
}

/** The switch between the table and the gallery, if there is a gallery. */
function makeViews(model, explore, gallery, onchange) {
  let current = "explore";
  const buttons = { explore: ["Explore"], gallery: ["Reproductions"] };
  const element = h("nav", { class: "views", "aria-label": "Views" }, Object.entries(buttons).map(([name, entry]) => {
    entry[1] = h("button", { type: "button", onclick: () => { show(name); onchange(); } }, entry[0]);
    return entry[1];
  }));
  function show(name) {
    current = name === "gallery" && model.payload.gallery ? "gallery" : "explore";
    element.hidden = !model.payload.gallery || !model.data;
    explore.hidden = current !== "explore" || !model.data;
    gallery.element.hidden = current !== "gallery";
    for (const [own, [, button]] of Object.entries(buttons)) button.setAttribute("aria-current", own === current ? "page" : "false");
    if (current === "gallery") gallery.show();
  }
  model.on("data", () => show(current));
  return { element, show, current: () => current };
}

function startTheme() {
  const button = document.getElementById("theme");
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    button.setAttribute("aria-label", name === "dark" ? "Use light colours" : "Use dark colours");
    document.dispatchEvent(new Event("themechange"));
  };
  set(document.documentElement.dataset.theme);
  button.addEventListener("click", () => {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("factrank-theme", name); } catch { /* a page from disk may have no storage */ }
    set(name);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => set(event.matches ? "dark" : "light"));
}

export function start() {
  const config = JSON.parse(document.getElementById("payload").textContent);
  const explorer = mount(document.getElementById("explorer"), config.payload, config.themes);
  startTheme();
  globalThis.explorer = explorer; // for the console, and for tests
  return { explorer, live: config.live };
}
