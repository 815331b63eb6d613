// The forward pass of an attention layer in float64, from coded weights.
//
//   L[k,q,:] = x_q U + sum_h ( A^h[k,q] V^h[k,:] + B^h[k,q] V^h[q,:] ),   V^h[t,:] = x_t W_V^h W_O^h U
//
// A is a logistic function of two scores and B = 1 - A; with linear attention A and B are the scores themselves.
// Tokens are the keys, then the queries. The circuits V^h are kept as two factors, so that a table of thousands of keys
// and values needs no matrix of their product.

const ARRAYS = { float32: Float32Array, float64: Float64Array, int32: Int32Array };

/** Decode {dtype, shape, data} into a typed array with a `shape`; typed arrays in `data` are taken as they are. */
export function decode(coded) {
  const kind = ARRAYS[coded.dtype];
  let numbers = coded.data;
  if (typeof numbers === "string") {
    const text = atob(numbers);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    numbers = new kind(bytes.buffer);
  }
  return { numbers, shape: coded.shape };
}

/** The weights in float64, by name, each with its shape. */
export function decodeParts(parts) {
  const found = {};
  for (const name of ["embedding", "w_q", "w_k", "w_v", "w_o", "unembedding"]) {
    const { numbers, shape } = decode(parts[name]);
    found[name] = { numbers: Float64Array.from(numbers), shape };
  }
  return found;
}

// [n, d] times one head of [heads, d, e]: [n, e]
function project(rows, n, d, weights, head, e) {
  const out = new Float64Array(n * e);
  const start = head * d * e;
  for (let t = 0; t < n; t++) {
    for (let i = 0; i < d; i++) {
      const x = rows[t * d + i];
      if (x === 0) continue;
      for (let j = 0; j < e; j++) out[t * e + j] += x * weights[start + i * e + j];
    }
  }
  return out;
}

function inner(a, i, b, j, n) {
  let sum = 0;
  for (let c = 0; c < n; c++) sum += a[i * n + c] * b[j * n + c];
  return sum;
}

/** The layer as tables by token. `nKeys` is the number of keys, `attention` is "softmax" or "linear". */
export function makeLayer(parts, nKeys, attention = "softmax") {
  const [nTokens, dModel] = parts.embedding.shape;
  const [nHeads, , dQk] = parts.w_q.shape;
  const dVo = parts.w_v.shape[2];
  const nValues = parts.unembedding.shape[1];
  const nQueries = nTokens - nKeys;
  const x = parts.embedding.numbers;
  const heads = [];
  for (let h = 0; h < nHeads; h++) {
    heads.push({
      queries: project(x, nTokens, dModel, parts.w_q.numbers, h, dQk),
      keys: project(x, nTokens, dModel, parts.w_k.numbers, h, dQk),
      values: project(x, nTokens, dModel, parts.w_v.numbers, h, dVo),
      outputs: project(
        parts.w_o.numbers.subarray(h * dVo * dModel, (h + 1) * dVo * dModel), dVo, dModel,
        parts.unembedding.numbers, 0, nValues,
      ),
    });
  }
  const direct = project(x.subarray(nKeys * dModel), nQueries, dModel, parts.unembedding.numbers, 0, nValues);
  return { parts, attention, nKeys, nQueries, nValues, nHeads, nTokens, dModel, dQk, dVo, heads, direct };
}

/** The weights of a head on the key and on the query. */
export function attentionAt(layer, h, k, q) {
  const { queries, keys } = layer.heads[h];
  const at = layer.nKeys + q;
  const scale = 1 / Math.sqrt(layer.dQk);
  const onKey = inner(queries, at, keys, k, layer.dQk) * scale;
  const onQuery = inner(queries, at, keys, at, layer.dQk) * scale;
  if (layer.attention === "linear") return [onKey, onQuery];
  return [1 / (1 + Math.exp(onQuery - onKey)), 1 / (1 + Math.exp(onKey - onQuery))];
}

/** Add weight * V^h[token,:] to `out`. */
export function addCircuit(layer, h, token, weight, out) {
  const { values, outputs } = layer.heads[h];
  const n = layer.nValues;
  for (let e = 0; e < layer.dVo; e++) {
    const z = weight * values[token * layer.dVo + e];
    if (z === 0) continue;
    const row = e * n;
    for (let v = 0; v < n; v++) out[v] += z * outputs[row + v];
  }
}

/** The logits of all values at one (key, query), written to `out` if it is given. */
export function logitsAt(layer, k, q, out = new Float64Array(layer.nValues)) {
  const n = layer.nValues;
  const { dVo, nKeys } = layer;
  for (let v = 0; v < n; v++) out[v] = layer.direct[q * n + v];
  for (let h = 0; h < layer.nHeads; h++) {
    const [onKey, onQuery] = attentionAt(layer, h, k, q);
    const { values, outputs } = layer.heads[h];
    for (let e = 0; e < dVo; e++) {
      const z = onKey * values[k * dVo + e] + onQuery * values[(nKeys + q) * dVo + e];
      if (z === 0) continue;
      const row = e * n;
      for (let v = 0; v < n; v++) out[v] += z * outputs[row + v];
    }
  }
  return out;
}

/** What each path adds to the logits at one (key, query): [{name, head, token, weight, logits}], direct path first. */
export function pathsAt(layer, k, q) {
  const n = layer.nValues;
  const paths = [{ name: "direct", head: null, token: "query", weight: 1, logits: layer.direct.slice(q * n, (q + 1) * n) }];
  for (let h = 0; h < layer.nHeads; h++) {
    const weights = attentionAt(layer, h, k, q);
    [["key", k], ["query", layer.nKeys + q]].forEach(([token, at], i) => {
      const logits = new Float64Array(n);
      addCircuit(layer, h, at, weights[i], logits);
      paths.push({ name: `head ${h}, ${token}`, head: h, token, weight: weights[i], logits });
    });
  }
  return paths;
}

/** Softmax of a list of logits. */
export function softmax(logits) {
  let most = -Infinity;
  for (const z of logits) if (z > most) most = z;
  const found = Float64Array.from(logits, (z) => Math.exp(z - most));
  let sum = 0;
  for (const p of found) sum += p;
  return found.map((p) => p / sum);
}
