// Recall, margins and hallucinations over all (key, query) pairs, in slices of time so that the page stays responsive.

import { logitsAt } from "./layer.js";

const SLICE = 12; // milliseconds of work between two frames
const MOST_PRODUCTS = 4e9; // missing entries beyond this much work are sampled

/** The facts by (key, query): sorted fibers with their values, and an index by pair. */
export function makeFibers(triples, nQueries) {
  const fibers = new Map();
  for (let i = 0; i < triples.length; i += 3) {
    const pair = triples[i] * nQueries + triples[i + 1];
    const values = fibers.get(pair);
    if (values) values.push(triples[i + 2]);
    else fibers.set(pair, [triples[i + 2]]);
  }
  return fibers;
}

/** Margin, probability, best value and its probability at a pair, for logits and the values of its fiber, if any. */
export function judge(logits, values) {
  let most = -Infinity, best = 0, others = -Infinity, own = Infinity;
  const n = logits.length;
  if (!values || !values.length) {
    for (let v = 0; v < n; v++) if (logits[v] > most) { most = logits[v]; best = v; }
  } else if (values.length === 1) {
    const one = values[0];
    own = logits[one];
    for (let v = 0; v < n; v++) {
      const z = logits[v];
      if (z > most) { most = z; best = v; }
      if (v !== one && z > others) others = z;
    }
  } else {
    const fiber = new Set(values);
    for (let v = 0; v < n; v++) {
      const z = logits[v];
      if (z > most) { most = z; best = v; }
      if (fiber.has(v)) { if (z < own) own = z; } else if (z > others) others = z;
    }
  }
  let sum = 0, bad = false;
  for (let v = 0; v < n; v++) {
    const p = Math.exp(logits[v] - most);
    if (p === p) sum += p; else bad = true;
  }
  if (bad || !(most < Infinity)) return { margin: NaN, probability: NaN, best, confidence: NaN };
  const hasFact = values && values.length > 0;
  return {
    margin: hasFact ? own - others : NaN,
    probability: hasFact ? Math.exp(own - most) / sum : NaN,
    best,
    confidence: 1 / sum,
  };
}

/** Every `stride`-th missing entry is evaluated; 1 unless the table is huge. */
export function missingStride(layer, nFibers) {
  const missing = layer.nKeys * layer.nQueries - nFibers;
  const products = layer.nValues * (layer.nHeads * layer.dVo + 2);
  return Math.max(1, Math.ceil((missing * products) / MOST_PRODUCTS));
}

/**
 * Evaluate all fibers, then the missing entries. Resolves to arrays by pair, or null if `isStale()` became true.
 * `onProgress` is called between slices with the fraction done.
 */
export async function evaluate(layer, fibers, { isStale = () => false, onProgress = () => {} } = {}) {
  const nPairs = layer.nKeys * layer.nQueries;
  const found = emptyEvaluation(nPairs);
  const facts = [...fibers.keys()];
  found.stride = missingStride(layer, facts.length);
  const logits = new Float64Array(layer.nValues);
  let began = now();
  let done = 0;
  const total = facts.length + Math.ceil((nPairs - facts.length) / found.stride);
  const put = (pair) => {
    const k = Math.floor(pair / layer.nQueries);
    logitsAt(layer, k, pair - k * layer.nQueries, logits);
    store(found, pair, judge(logits, fibers.get(pair)));
    done++;
  };
  const paused = async () => {
    if (now() - began < SLICE) return false;
    onProgress(total ? done / total : 1);
    await nextTask();
    began = now();
    return isStale();
  };
  for (const pair of facts) {
    put(pair);
    if (await paused()) return null;
  }
  let seen = 0;
  for (let pair = 0; pair < nPairs; pair++) {
    if (fibers.has(pair)) continue;
    if (seen++ % found.stride === 0) put(pair);
    if ((pair & 63) === 0 && (await paused())) return null;
  }
  return found;
}

function emptyEvaluation(nPairs) {
  return {
    margins: new Float64Array(nPairs).fill(NaN),
    probabilities: new Float64Array(nPairs).fill(NaN),
    best: new Int32Array(nPairs).fill(-1),
    confidences: new Float64Array(nPairs).fill(NaN),
    stride: 1,
  };
}

function store(found, pair, judged) {
  found.margins[pair] = judged.margin;
  found.probabilities[pair] = judged.probability;
  found.best[pair] = judged.best;
  found.confidences[pair] = judged.confidence;
}

/** Evaluate one pair again, after its facts have changed. */
export function evaluatePair(layer, fibers, found, pair) {
  const k = Math.floor(pair / layer.nQueries);
  store(found, pair, judge(logitsAt(layer, k, pair - k * layer.nQueries), fibers.get(pair)));
}

/** Counts at a threshold. Facts of a fiber count one by one; ties and NaN are errors. */
export function summarise(found, fibers, tau) {
  const out = { facts: 0, right: 0, confident: 0, missing: 0, hallucinations: 0, least: Infinity, worst: -1, diverged: false };
  for (const [pair, values] of fibers) {
    const n = values.length;
    const margin = found.margins[pair];
    out.facts += n;
    if (margin > 0) out.right += n;
    if (found.probabilities[pair] >= tau) out.confident += n;
    if (margin < out.least) { out.least = margin; out.worst = pair; }
    if (Number.isNaN(margin)) out.diverged = true;
  }
  for (let pair = 0; pair < found.best.length; pair++) {
    if (found.best[pair] < 0 || fibers.has(pair)) continue;
    out.missing++;
    if (found.confidences[pair] >= tau) out.hallucinations++;
  }
  return out;
}

const now = () => performance.now();
const nextTask = () => new Promise((resolve) => setTimeout(resolve, 0));
