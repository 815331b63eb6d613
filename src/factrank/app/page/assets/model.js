// What is shown, and everything that may change it: the data, the threshold, the selection and the edits.
// Views subscribe to topics: "data", "tau", "select", "evaluation", "progress" and "edits".

import { decode, decodeParts, makeLayer, logitsAt } from "./layer.js";
import { evaluate, evaluatePair, makeFibers, summarise } from "./evaluation.js";

export function makeModel(payload) {
  const listeners = new Map();
  const model = {
    on(topics, f) {
      for (const topic of topics.split(" ")) listeners.set(topic, [...(listeners.get(topic) || []), f]);
      return f;
    },
    tell(...topics) {
      const called = new Set(topics.flatMap((topic) => listeners.get(topic) || []));
      called.forEach((f) => f());
    },
    tau: payload.tau ?? 0.95,
    selection: { k: 0, q: 0 },
    edits: [],
    run: 0,
  };
  load(model, payload);
  return model;
}

function load(model, payload) {
  const { database, layer } = payload;
  const before = model.data && { k: model.data.keys[model.selection.k], q: model.data.queries[model.selection.q] };
  payload = { ...payload, gallery: payload.gallery ?? model.payload?.gallery ?? null };
  Object.assign(model, { payload, edits: [], evaluation: null, baseline: null, partial: 0, data: null, layer: null, isReplaced: "" });
  if (!database) return;
  const names = {};
  for (const axis of ["keys", "queries", "values"]) {
    names[axis] = database[axis];
    names[`${axis}Lowered`] = database[axis].map((name) => name.toLowerCase());
    names[`${axis}Codes`] = new Map(database[axis].map((name, code) => [name, code]));
  }
  const triples = decode(database.facts).numbers;
  model.data = { ...names, triples, nFacts: triples.length / 3, fibers: makeFibers(triples, database.queries.length) };
  model.selection = kept(model.data, before) || first(model.data);
  if (layer) model.layer = makeLayer(decodeParts(layer.parts), database.keys.length, layer.attention);
}

function kept(data, before) {
  if (!before) return null;
  const k = data.keysCodes.get(before.k), q = data.queriesCodes.get(before.q);
  return k === undefined || q === undefined ? null : { k, q };
}

function first(data) {
  return data.nFacts ? { k: data.triples[0], q: data.triples[1] } : { k: 0, q: 0 };
}

export const pairOf = (model, k, q) => k * model.data.queries.length + q;
export const factsAt = (model, k, q) => model.data.fibers.get(pairOf(model, k, q)) || [];
export const logitsOf = (model, k, q) => logitsAt(model.layer, k, q);
export const summary = (model, tau = model.tau) =>
  model.evaluation && summarise(model.evaluation, model.data.fibers, tau);
/** The certificate, if it is about the facts of the payload; one about other facts is never shown. */
export const certificateOf = ({ payload }) => (payload.certificate?.database === payload.database?.fingerprint ? payload.certificate : null);
/** The proof is about the weights and the facts of the payload: any edit voids it. */
export const isProofVoid = (model) => model.edits.length > 0 || model.isReplaced !== "";

/** Replace everything; a selection is kept if its names still exist. */
export function update(model, payload) {
  load(model, payload);
  model.tell("data", "tau", "select", "edits", "evaluation");
  return reevaluate(model);
}

/** Replace the weights of the layer, which voids its certificate, and drop edits of weights. */
export function setParts(model, parts, label = "weights replaced") {
  model.layer = makeLayer(decodeParts(parts), model.data.keys.length, model.payload.layer?.attention);
  model.isReplaced = label;
  model.edits = model.edits.filter((edit) => edit.kind === "fact");
  model.tell("edits", "select");
  return reevaluate(model);
}

/** Evaluate the layer on all pairs; a later call supersedes an earlier one. */
export async function reevaluate(model) {
  if (!model.layer) return;
  const run = ++model.run;
  model.partial = 0;
  const found = await evaluate(model.layer, model.data.fibers, {
    isStale: () => run !== model.run,
    onProgress: (done) => { model.partial = done; model.tell("progress"); },
  });
  if (!found || run !== model.run) return;
  model.partial = 1;
  model.evaluation = found;
  if (!isProofVoid(model)) model.baseline = copied(found, model.data.fibers);
  model.tell("evaluation", "progress");
}

function copied(found, fibers) {
  return { margins: Float64Array.from(fibers.keys(), (pair) => found.margins[pair]) };
}

export function setTau(model, tau) {
  model.tau = Math.min(0.999, Math.max(0.001, tau));
  model.tell("tau");
}

export function select(model, k, q) {
  if (model.selection.k === k && model.selection.q === q) return;
  model.selection = { k, q };
  model.tell("select");
}

// ---------------------------------------------------------------- edits, which can be undone

/** Give a (key, query) these values; none means that it has no fact. */
export function editFact(model, k, q, values) {
  const pair = pairOf(model, k, q);
  model.edits.push({ kind: "fact", pair, before: model.data.fibers.get(pair) || [] });
  return putFact(model, pair, values);
}

/** Set one weight. Several changes of the same weight in a row count as one edit. */
export function editWeight(model, part, index, value) {
  const numbers = model.layer.parts[part].numbers;
  const last = model.edits.at(-1);
  if (!(last && last.kind === "weight" && last.part === part && last.index === index)) {
    model.edits.push({ kind: "weight", part, index, before: numbers[index] });
  }
  return putWeight(model, part, index, value);
}

export function undo(model) {
  const edit = model.edits.pop();
  if (!edit) return undefined;
  return edit.kind === "fact" ? putFact(model, edit.pair, edit.before) : putWeight(model, edit.part, edit.index, edit.before);
}

/** Undo all edits; weights that were replaced from outside come back too. */
export function reset(model) {
  const { tau, selection } = model;
  load(model, model.payload);
  Object.assign(model, { tau, selection });
  model.tell("data", "edits", "select", "tau");
  return reevaluate(model);
}

function putFact(model, pair, values) {
  if (values.length) model.data.fibers.set(pair, values);
  else model.data.fibers.delete(pair);
  if (model.evaluation && model.partial === 1) evaluatePair(model.layer, model.data.fibers, model.evaluation, pair);
  model.tell("edits", "select", "evaluation", "facts");
  return model.partial === 1 || !model.layer ? undefined : reevaluate(model);
}

function putWeight(model, part, index, value) {
  const { parts, nKeys, attention } = model.layer;
  parts[part].numbers[index] = value;
  model.layer = makeLayer(parts, nKeys, attention);
  model.tell("edits", "select");
  return reevaluate(model);
}
