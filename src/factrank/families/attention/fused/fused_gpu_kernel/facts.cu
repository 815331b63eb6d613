// The facts: attention, logits, softmax, their gradients, and the sums over the fibers of each token.

// The attention weights of a tile; its fibers and their order.
__device__ __forceinline__ void attend(int turn, int first, int n) {
  float *memory = MEMORY, *attention = memory + s.attention, scale = -model.scale;
  int *key = (int*)memory + s.key, *query = (int*)memory + s.query, *order = (int*)memory + s.by_query;
  int cs = s.cs, dq = s.dq, size = s.tile, tables = s.tables, query_tables = tables + s.keys * cs, query_columns = s.key_columns;
  const int4* fibers = facts.fibers + first;
  const int* by_query = facts.by_query + first;
  Divisor over(n);
  EACH(task, s.heads * n) {
    int h = over(task), f = task - h * n;
    int4 fiber = fibers[f];
    const float *here = memory + tables + fiber.x * cs + h * dq, *there = memory + query_tables + fiber.y * cs + h * dq;
    float score = 0;
#pragma unroll 4
    for (int e = 0; e < dq; ++e) score = fmaf(there[query_columns + e], here[e] - there[e], score);
    attention[h * size + f] = __fdividef(1.0f, 1.0f + __expf(scale * score));
    if (h == 0) key[f] = fiber.x, query[f] = fiber.y, order[f] = by_query[f];
  }
}

__device__ inline float group_max(float x) {
#pragma unroll
  for (int o = LANES / 2; o; o /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, o));
  return x;
}
__device__ inline float group_sum(float x) {
#pragma unroll
  for (int o = LANES / 2; o; o /= 2) x += __shfl_xor_sync(~0u, x, o);
  return x;
}

enum Purpose { TRAIN, CHECK, FINISH };

// What a check notes of a fiber: its loss, and whether its values have the largest logits, or enough probability.
__device__ __noinline__ void judge(int f, int n_own, float margin, float probability, float loss, const float* taus,
                                   float2* outcome) {
  int* counts = (int*)MEMORY + s.counts;
  MEMORY[s.losses + f] = loss;
  if (margin > 0) atomicAdd(counts, n_own);
  for (int t = 0; t < model.n_taus; ++t)
    if (probability >= taus[t]) atomicAdd(counts + 1 + t, n_own);
  if (outcome) *outcome = make_float2(margin, probability);
}

__device__ inline bool is_own(const int* values, int4 fiber, int v) {
  bool own = false;
#pragma unroll 1
  for (int at = fiber.z; at < fiber.w; ++at) own |= values[at] == v;
  return own;
}

// One group of lanes per fiber: logits, softmax, z' in their place, and the gradients of its scores. Chunk c of four
// values belongs to lane c mod LANES, which keeps its logits in registers, or, where they are too many, in the arena.
__device__ __forceinline__ void read_fibers(int first, int n, Purpose purpose, const float* taus, float2* outcomes) {
  float *memory = MEMORY, *attention = memory + s.attention, *slopes = memory + s.slopes;
  const int *keys = (int*)memory + s.key, *queries = (int*)memory + s.query, *values = facts.values;
  const int4* fibers = facts.fibers + first;
  const int lane = threadIdx.x % LANES, at_once = blockDim.x / LANES, vp = s.vp, size = s.tile, heads = s.heads;
  const int end = s.values, head_rows = s.tokens * vp;
  const float share = __fdividef(1.0f, model.n_facts), scale = model.scale;
  for (int start = 0; start < n; start += at_once) {
    int place = start + threadIdx.x / LANES;
    bool present = place < n;  // lanes without a fiber follow the last one and write nothing
    int f = min(place, n - 1);
    int4 fiber = fibers[f];
    int n_own = fiber.w - fiber.z;
    float *z = memory + s.z + f * vp + 4 * lane, *direct = memory + s.direct + queries[f] * vp + 4 * lane;
    float* circuits = memory + s.circuits + 4 * lane;
    int here = keys[f] * vp, there = (s.keys + queries[f]) * vp;
#if CHUNKS
    float4 x[CHUNKS];  // chunks beyond the last are padding
#define EACH_CHUNK _Pragma("unroll") for (int r = 0; r < CHUNKS; ++r)
#define GET x[r]
#define SET(y) x[r] = (y)
#else
#define EACH_CHUNK for (int r = 0, last = present ? s.chunks - lane : 0; r * LANES < last; ++r)
#define GET load4(AT(z))
#define SET(y) if (present) store4(AT(z), (y))
#endif
#define AT(row) ((row) + 4 * LANES * r)

    EACH_CHUNK { SET(load4(AT(direct))); }
    float largest = -INFINITY;
#pragma unroll 1
    for (int h = 0; h < heads; ++h) {
      const float *at_key = circuits + h * head_rows + here, *at_query = circuits + h * head_rows + there;
      float weight = attention[h * size + f], rest = 1.0f - weight;
      largest = -INFINITY;
      EACH_CHUNK {
        float4 y = GET;
        add4(y, weight, load4(AT(at_key))), add4(y, rest, load4(AT(at_query)));
        largest = fmaxf(fmaxf(fmaxf(largest, y.x), fmaxf(y.y, y.z)), y.w);
        SET(y);
      }
    }
    largest = group_max(largest);

    float least = INFINITY, other = -INFINITY, own_sum = 0;
    if (purpose != TRAIN) {
      if (CHUNKS && present) EACH_CHUNK store4(AT(z), GET);
#pragma unroll 1
      for (int v = present ? 4 * lane : end; v < end; v += v % 4 == 3 ? 4 * LANES - 3 : 1) {
        float y = z[v - 4 * lane];
        if (is_own(values, fiber, v)) least = fminf(least, y), own_sum += y - largest;
        else other = fmaxf(other, y);
      }
      least = -group_max(-least), other = group_max(other), own_sum = group_sum(own_sum);
    }

    float total = 0, shift = -1.4426950408889634f * largest;
    EACH_CHUNK {
      float4 y = GET;
      y.x = exp2f(fmaf(y.x, 1.4426950408889634f, shift)), y.y = exp2f(fmaf(y.y, 1.4426950408889634f, shift));
      y.z = exp2f(fmaf(y.z, 1.4426950408889634f, shift)), y.w = exp2f(fmaf(y.w, 1.4426950408889634f, shift));
      total += (y.x + y.y) + (y.z + y.w);
      SET(y);
    }
    total = group_sum(total);

    if (purpose != TRAIN && present && lane == 0) {
      float loss = n_own * (float)log((double)total) - own_sum, margin = total == total ? least - other : total;
      judge(f, n_own, margin, __fdividef(expf(least - largest), total), loss, taus,
            purpose == FINISH ? outcomes + first + f : nullptr);
    }
    if (purpose == FINISH) continue;

    float factor = __fdividef(n_own * share, total);
    EACH_CHUNK {
      float4 y = GET;
      y.x *= factor, y.y *= factor, y.z *= factor, y.w *= factor;
      SET(y);
      if (CHUNKS && present) store4(AT(z), y);
    }
#pragma unroll 1
    for (int h = 0; h < heads; ++h) {
      const float *at_key = circuits + h * head_rows + here, *at_query = circuits + h * head_rows + there;
      float slope = 0, weight = attention[h * size + f];
      EACH_CHUNK slope = dot4(GET, minus4(load4(AT(at_key)), load4(AT(at_query))), slope);
#pragma unroll 1
      for (int at = fiber.z; at < fiber.w; ++at) {
        int v = values[at] - 4 * lane;
        if (LANES > 1 && (v & 4 * (LANES - 1))) continue;
        slope -= share * (at_key[v] - at_query[v]);
        if (h == heads - 1 && present) z[v] -= share;
      }
      slope = group_sum(slope);
      if (present && lane == 0) slopes[h * size + f] = slope * weight * (1.0f - weight) * scale;
    }
  }
#undef EACH_CHUNK
#undef AT
#undef GET
#undef SET
}

// The fibers of a token within a tile: those from `begin` on by `step`, or, for the queries of a database that is not
// full, the entries of by_query there.
struct Group { int token, begin, end, step; };

// circuits_ of one token and one chunk of values for heads h and, with TWO, h + 1: the sum of weight z' over the fibers
// of a key, or of (1 - weight) z' over those of a query, whose direct_ is the sum of z'.
template <bool QUERY, bool REGULAR, bool TWO>
__device__ __forceinline__ void add_logits(Group group, int h, int c) {
  float* memory = MEMORY;
  const int vp = s.vp, token = QUERY ? s.keys + group.token : group.token, step = REGULAR ? group.step : 1;
  const int* by_query = (int*)memory + s.by_query;
  const float *weight = memory + s.attention + h * s.tile, *weight_2 = weight + (TWO ? s.tile : 0), *z = memory + s.z + c;
  float4 sum = {}, sum_2 = {}, total = {};
#pragma unroll 4
  for (int at = group.begin; at < group.end; at += step) {
    int f = QUERY && !REGULAR ? by_query[at] : at;
    float4 x = load4(z + f * vp);
    add4(sum, weight[f], x);
    if (TWO) add4(sum_2, weight_2[f], x);
    if (QUERY) add4(total, 1.0f, x);
  }
  float* out = memory + s.circuits_ + (h * s.tokens + token) * vp + c;
#pragma unroll
  for (int i = 0; i < 1 + TWO; ++i, out += s.tokens * vp) {
    float4 old = load4(out), change = i ? sum_2 : sum;
    if (QUERY) change = minus4(total, change);
    add4(old, 1.0f, change);
    store4(out, old);
  }
  if (QUERY && h == 0) {
    out = memory + s.direct_ + group.token * vp + c;
    float4 old = load4(out);
    add4(old, 1.0f, total);
    store4(out, old);
  }
}

// keys_[h, k], or queries_[h, q] and keys_[h, q], for one entry e.
template <bool QUERY, bool REGULAR>
__device__ __forceinline__ void add_slopes(Group group, int first_key, int h, int e) {
  float* memory = MEMORY;
  const int cs = s.cs, key_column = s.key_column(h) + e, query_column = s.query_column(h) + e;
  const int *by_query = (int*)memory + s.by_query, *other = (int*)memory + (QUERY ? s.key : s.query);
  const float* slope = memory + s.slopes + h * s.tile;
  const float* rows = memory + s.tables + (QUERY ? key_column : s.keys * cs + query_column);
  const float* row = rows + (QUERY ? first_key * cs : 0);
  float sum = 0, total = 0;
#pragma unroll 4
  for (int at = group.begin; at < group.end; at += REGULAR ? group.step : 1, row += cs) {
    int f = QUERY && !REGULAR ? by_query[at] : at;
    if (QUERY) total += slope[f];
    sum = fmaf(slope[f], REGULAR ? *row : rows[other[f] * cs], sum);
  }
  float *tables = memory + s.tables + (QUERY ? s.keys + group.token : group.token) * cs, *tables_ = tables + (s.tables_ - s.tables);
  if (QUERY) {
    tables_[query_column] += sum - total * tables[key_column];
    tables_[key_column] -= total * tables[query_column];
  } else {
    tables_[key_column] += sum;
  }
}

// The sums over the fibers of each key and of each query of a tile of n fibers. In a full database a tile holds all
// queries of some keys.
template <bool REGULAR>
__device__ __forceinline__ void add_fibers(const int* tile, int n) {
  int turn = 0, first_key = REGULAR ? ((int*)MEMORY)[s.key] : 0;
  int n_queries = REGULAR ? s.queries : tile[5] - tile[2], n_keys = REGULAR ? Divisor(n_queries)(n) : tile[4] - tile[1];
  auto query = [&](int g) {
    if (REGULAR) return Group{g, g, n, n_queries};
    int4 group = facts.query_groups[tile[2] + g];
    return Group{group.x, group.y, group.z, 1};
  };
  auto key = [&](int g) {
    if (REGULAR) return Group{first_key + g, g * n_queries, (g + 1) * n_queries, 1};
    int4 group = facts.key_groups[tile[1] + g];
    return Group{group.x, group.y, group.z, 1};
  };
  Divisor over(s.chunks);
#pragma unroll 1
  for (int h = 0; h < s.heads; h += 2) {
    bool two = h + 1 < s.heads;
    EACH(task, n_queries * over.n) {
      int g = over(task), c = 4 * (task - g * over.n);
      two ? add_logits<true, REGULAR, true>(query(g), h, c) : add_logits<true, REGULAR, false>(query(g), h, c);
    }
    turn += n_queries * over.n;
    EACH(task_2, n_keys * over.n) {
      int g = over(task_2), c = 4 * (task_2 - g * over.n);
      two ? add_logits<false, REGULAR, true>(key(g), h, c) : add_logits<false, REGULAR, false>(key(g), h, c);
    }
    turn += n_keys * over.n;
  }
  Divisor over_head(s.dq), over_row(s.heads * s.dq);
  EACH(task, n_queries * over_row.n) {
    int g = over_row(task), rest = task - g * over_row.n, h = over_head(rest);
    add_slopes<true, REGULAR>(query(g), first_key, h, rest - h * s.dq);
  }
  turn += n_queries * over_row.n;
  EACH(task_2, n_keys * over_row.n) {
    int g = over_row(task_2), rest = task_2 - g * over_row.n, h = over_head(rest);
    add_slopes<false, REGULAR>(key(g), first_key, h, rest - h * s.dq);
  }
}

__device__ __forceinline__ void clear_sums() {
  float* memory = MEMORY;
  for (int i = threadIdx.x; i < s.tokens * s.cs; i += blockDim.x) memory[s.tables_ + i] = 0;
  for (int i = 4 * threadIdx.x; i < s.heads * s.tokens * s.vp; i += 4 * blockDim.x) store4(memory + s.circuits_ + i, float4{});
  for (int i = 4 * threadIdx.x; i < s.queries * s.vp; i += 4 * blockDim.x) store4(memory + s.direct_ + i, float4{});
  for (int i = threadIdx.x; i <= model.n_taus; i += blockDim.x) ((int*)memory)[s.counts + i] = 0;
}
