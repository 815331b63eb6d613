// Deep links: #k=Gold&q=symbol&tau=0.95, and &view=gallery&paper=wong2025&study=NAME for the gallery.

import { select, setTau } from "./model.js";

/** Read the address into the model; names that do not exist are ignored. Returns the rest of the fields. */
export function readLink(model) {
  const fields = new URLSearchParams(location.hash.slice(1));
  const tau = Number(fields.get("tau"));
  if (fields.has("tau") && tau > 0 && tau < 1) setTau(model, tau);
  if (model.data) {
    const k = model.data.keysCodes.get(fields.get("k")), q = model.data.queriesCodes.get(fields.get("q"));
    select(model, k ?? model.selection.k, q ?? model.selection.q);
  }
  return Object.fromEntries([...fields].filter(([name]) => !["k", "q", "tau"].includes(name)));
}

/** Write the model into the address, without adding to the history. */
export function writeLink(model, rest) {
  const fields = new URLSearchParams();
  if (model.data) {
    const { k, q } = model.selection;
    if (model.data.keys.length) fields.set("k", model.data.keys[k]);
    if (model.data.queries.length) fields.set("q", model.data.queries[q]);
    fields.set("tau", String(Number(model.tau.toFixed(3))));
  }
  for (const [name, value] of Object.entries(rest)) if (value) fields.set(name, value);
  const hash = `#${fields}`;
  if (hash.length < 20000 && hash !== location.hash) history.replaceState(null, "", hash);
}
