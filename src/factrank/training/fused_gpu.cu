// The attention layer trained on a GPU: one model per thread block, all its state in one arena of shared memory.
//
// The mathematics, with its derivation, is that of fused_cpu.py; names are the same, and a trailing underscore stands
// for the gradient of the loss. Per epoch, with a barrier after each step:
//
//   1  tables = X [W_K | W_V | W_Q],  readers = W_O U,  direct = X_Q U
//   2  circuits[h,t] = values[h,t] readers[h], and the attention weights of the first tile of fibers
//   3  per tile: logits, softmax, z' and the gradient of each score; then the sums over the fibers of each token
//   4  values_ = circuits_ readers^T,  readers_ = values^T circuits_
//   5  gradients of X, W, W_O, U
//   6  Adam
//
// Every sum is made by one thread, or by one group of lanes in a fixed tree, in an order that depends on the shape of
// the model alone: the result is the same bit for bit whatever runs beside it. The only atomics count in integers.
//
// Rows over values have `vp` floats, 4 LANES times an odd number, so that the lanes of a warp read different banks; other
// rows have odd strides. Padded logits are -1e30 and their gradients 0. Code is kept small, because each line of it
// runs only a few times per epoch and instructions have to be fetched: products are functions, not templates unrolled.

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#define PADDING -1e30f
#define NEVER 0x7fffffff

// Threads take tasks in turn: each list begins with the thread after the one that took the last task of the list
// before (`turn` counts the tasks so far), so that short lists between two barriers go to different threads.
#define EACH(i, n) for (int i = (threadIdx.x - turn) & (blockDim.x - 1), i##_end = (n); i < i##_end; i += blockDim.x)

// Set when this is compiled, once per class of models:
//   LANES      lanes that share one fiber
//   CHUNKS     chunks of four logits that a lane keeps in registers; 0 where they are too many and stay in the arena
//   TILE       rows of a tile of a product
//   IN_SHARED  whether arenas fit into shared memory

// One model; fused_gpu.py fills these in. Offsets are into the arrays that `train` is given.
struct Model {
  long long weights, fibers, values, tiles, key_groups, query_groups, by_query, checks, records, outcomes, corrections;
  int n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo;
  int n_facts, tile, n_tiles, regular, epoch, chunk_end, n_checks, n_taus, stop_column, trained, taus, last_epoch;
  float scale, learning_rate, shrink, b1, b2, rest_1, rest_2, epsilon;  // rest_1 = 1 - b1, rest_2 = 1 - b2
};

struct Progress { int epoch, n_records, ended, error; };

__device__ inline int up4(int n) { return (n + 3) & ~3; }

// Sizes, strides, and where things lie in the arena; fused_gpu.py computes the same size.
struct Layout {
  int keys, queries, values, tokens, d, heads, dq, dv, tile;
  int ds, cs, vp, chunks, key_columns, columns;
  int embedding, projections, w_o, unembedding, n_weights, n_flat;  // offsets within the weights
  int weights, first, second, tables, tables_, readers, readers_, circuits, circuits_, direct, direct_;
  int z, gradient, attention, slopes, losses, key, query, by_query, counts, size;

  __device__ void set(const Model& m) {
    keys = m.n_keys, queries = m.n_queries, values = m.n_values, tokens = keys + queries, tile = m.tile;
    d = m.d_model, heads = m.n_heads, dq = m.d_qk, dv = m.d_vo;
    ds = d | 1, key_columns = heads * (dq + dv), columns = key_columns + heads * dq, cs = columns | 1;
    chunks = (values + 3) / 4, vp = 4 * (CHUNKS ? LANES * (CHUNKS | 1) : chunks | 1);
    n_flat = tokens * d + 2 * heads * d * (dq + dv) + d * values;
    embedding = 0;
    projections = up4(tokens * ds);
    w_o = projections + up4(d * cs);
    unembedding = w_o + up4(heads * dv * ds);
    n_weights = unembedding + d * vp;
    size = 0;
    weights = take(n_weights), first = take(n_weights), second = take(n_weights);
    tables = take(tokens * cs), tables_ = take(tokens * cs);
    readers = take(heads * dv * vp), readers_ = take(heads * dv * vp);
    circuits = take(heads * tokens * vp), circuits_ = take(heads * tokens * vp);
    direct = take(queries * vp), direct_ = take(queries * vp);
    z = gradient = take(max(tile * vp, n_weights));  // the gradient is written when no logits are needed any more
    attention = take(heads * tile), slopes = take(heads * tile), losses = take(tile);
    key = take(tile), query = take(tile), by_query = take(tile);
    counts = take(1 + m.n_taus);
    take(16);  // products read up to three floats beyond a row
  }
  __device__ int take(int n) {
    int here = size;
    size += up4(n);
    return here;
  }
  // Columns of the projections and of the tables: all keys, all values, all queries.
  __device__ int key_column(int h) const { return h * dq; }
  __device__ int value_column(int h) const { return heads * dq + h * dv; }
  __device__ int query_column(int h) const { return key_columns + h * dq; }
};

struct Facts {
  const int4* fibers;                     // key, query, and the range of its values
  const int* values;
  const int* tiles;                       // per tile: first fiber, first key group, first query group
  const int4 *key_groups, *query_groups;  // token, and the range of its fibers (by_query) within the tile
  const int* by_query;                    // the fibers of a tile in the order of their queries
};

__shared__ Model model;
__shared__ Facts facts;
__shared__ Layout s;
#if IN_SHARED
extern __shared__ float4 arena[];
#define MEMORY ((float*)arena)
#else
__shared__ float* spare_arena;
#define MEMORY spare_arena
#endif

// i / n for i >= 0; exact by rounding down (i + 1/2) / n while i < 2^21.
struct Divisor {
  int n;
  float inverse;
  __device__ Divisor(int n) : n(n), inverse(__fdividef(1.0f, n)) {}
  __device__ int operator()(int i) const { return i < (1 << 21) ? __float2int_rd((i + 0.5f) * inverse) : i / n; }
};

__device__ inline float4 load4(const float* at) { return *(const float4*)at; }
__device__ inline void store4(float* at, float4 x) { *(float4*)at = x; }
__device__ inline void add4(float4& sum, float a, float4 b) {
  sum.x = fmaf(a, b.x, sum.x), sum.y = fmaf(a, b.y, sum.y), sum.z = fmaf(a, b.z, sum.z), sum.w = fmaf(a, b.w, sum.w);
}
__device__ inline float4 minus4(float4 a, float4 b) { return float4{a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w}; }
__device__ inline float dot4(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// ---------------------------------------------------------------- products of small matrices

// A matrix in the arena: where it begins, the stride of its rows. Its columns follow one another.
struct Rows { int at, stride; };

enum Kind { PLAIN, LEFT_TRANSPOSED, RIGHT_TRANSPOSED };

// out = a b + c d, with a and c transposed, or b and d, or none; `repeats` times, each operand a step further on.
struct Product {
  Rows out, a, b, c, d;
  int kind, rows, columns, length, length_2, repeats, out_step, a_step, b_step;
  int across, per_repeat, start, end;  // tiles in a row, in one repeat, and the place of its tiles among those of its phase
};

const int N_PHASES = 4;
__shared__ Product products[13];
__shared__ int phase_tiles[N_PHASES];
__device__ inline int first_product(int phase) { return phase == 0 ? 0 : phase == 1 ? 4 : phase == 2 ? 5 : phase == 3 ? 7 : 13; }

__device__ void list_products() {
  Rows x = {s.weights + s.embedding, s.ds}, x_q = {x.at + s.keys * s.ds, s.ds}, w_o = {s.weights + s.w_o, s.ds};
  Rows w = {s.weights + s.projections, s.cs}, u = {s.weights + s.unembedding, s.vp};
  Rows x_ = {s.gradient + s.embedding, s.ds}, x_q_ = {x_.at + s.keys * s.ds, s.ds}, w_o_ = {s.gradient + s.w_o, s.ds};
  Rows w_ = {s.gradient + s.projections, s.cs}, u_ = {s.gradient + s.unembedding, s.vp}, none = {0, 0};
  Rows tables = {s.tables, s.cs}, tables_q = {s.tables + s.keys * s.cs, s.cs}, direct = {s.direct, s.vp};
  Rows tables_ = {s.tables_, s.cs}, tables_q_ = {s.tables_ + s.keys * s.cs, s.cs}, direct_ = {s.direct_, s.vp};
  Rows values = {s.tables + s.heads * s.dq, s.cs}, values_ = {s.tables_ + s.heads * s.dq, s.cs};
  Rows readers = {s.readers, s.vp}, readers_ = {s.readers_, s.vp};
  Rows circuits = {s.circuits, s.vp}, circuits_ = {s.circuits_, s.vp};
  int hv = s.heads * s.dv, hq = s.heads * s.dq, token_step = s.tokens * s.vp, reader_step = s.dv * s.vp;
  Product* p = products;
  *p++ = {tables, x, w, none, none, PLAIN, s.keys, s.key_columns, s.d, 0, 1};  // queries are asked of query tokens alone
  *p++ = {tables_q, x_q, w, none, none, PLAIN, s.queries, s.columns, s.d, 0, 1};
  *p++ = {direct, x_q, u, none, none, PLAIN, s.queries, s.values, s.d, 0, 1};
  *p++ = {readers, w_o, u, none, none, PLAIN, hv, s.values, s.d, 0, 1};
  *p++ = {circuits, values, readers, none, none, PLAIN, s.tokens, s.values, s.dv, 0, s.heads, token_step, s.dv, reader_step};
  *p++ = {readers_, values, circuits_, none, none, LEFT_TRANSPOSED, s.dv, s.values, s.tokens, 0, s.heads, reader_step, s.dv, token_step};
  *p++ = {values_, circuits_, readers, none, none, RIGHT_TRANSPOSED, s.tokens, s.dv, s.values, 0, s.heads, s.dv, token_step, reader_step};
  *p++ = {x_q_, tables_q_, w, direct_, u, RIGHT_TRANSPOSED, s.queries, s.d, s.columns, s.values, 1};
  *p++ = {x_, tables_, w, none, none, RIGHT_TRANSPOSED, s.keys, s.d, s.key_columns, 0, 1};
  *p++ = {w_o_, readers_, u, none, none, RIGHT_TRANSPOSED, hv, s.d, s.values, 0, 1};
  *p++ = {u_, x_q, direct_, w_o, readers_, LEFT_TRANSPOSED, s.d, s.values, s.queries, hv, 1};
  *p++ = {w_, x, tables_, none, none, LEFT_TRANSPOSED, s.d, s.key_columns, s.tokens, 0, 1};
  *p++ = {{w_.at + s.key_columns, s.cs}, x_q, {tables_q_.at + s.key_columns, s.cs}, none, none, LEFT_TRANSPOSED, s.d, hq, s.queries, 0, 1};
  for (int phase = 0; phase < N_PHASES; ++phase) {
    int n = 0;
    for (p = products + first_product(phase); p < products + first_product(phase + 1); ++p) {
      p->across = (p->columns + 3) / 4, p->per_repeat = (p->rows + TILE - 1) / TILE * p->across;
      p->start = n, n += p->per_repeat * p->repeats, p->end = n;
    }
    phase_tiles[phase] = n;
  }
}

__device__ inline void add_outer(float (&sum)[TILE][4], const float (&x)[TILE], const float (&y)[4]) {
#pragma unroll
  for (int r = 0; r < TILE; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) sum[r][c] = fmaf(x[r], y[c], sum[r][c]);
}

// sum[r, c] += the sum over l < length of x[i + r, l] y[l, j + c], with x or y transposed or none of them. Rows beyond
// the last repeat it, columns beyond the last read what lies there: neither is stored.
__device__ __forceinline__ void add_tile(float (&sum)[TILE][4], int kind, Rows a, Rows b, int i, int j, int rows, int columns, int length) {
  const float *memory = MEMORY, *x[TILE], *y[4];
  float left[TILE], right[4];
  if (kind == LEFT_TRANSPOSED) {
    x[0] = memory + a.at + i, y[0] = memory + b.at + j;
#pragma unroll 4
    for (int l = 0; l < length; ++l, x[0] += a.stride, y[0] += b.stride) {
#pragma unroll
      for (int r = 0; r < TILE; ++r) left[r] = x[0][r];
#pragma unroll
      for (int c = 0; c < 4; ++c) right[c] = y[0][c];
      add_outer(sum, left, right);
    }
    return;
  }
#pragma unroll
  for (int r = 0; r < TILE; ++r) x[r] = memory + a.at + min(i + r, rows - 1) * a.stride;
  if (kind == PLAIN) {
    y[0] = memory + b.at + j;
#pragma unroll 4
    for (int l = 0; l < length; ++l, y[0] += b.stride) {
#pragma unroll
      for (int r = 0; r < TILE; ++r) left[r] = x[r][l];
#pragma unroll
      for (int c = 0; c < 4; ++c) right[c] = y[0][c];
      add_outer(sum, left, right);
    }
    return;
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) y[c] = memory + b.at + min(j + c, columns - 1) * b.stride;
#pragma unroll 4
  for (int l = 0; l < length; ++l) {
#pragma unroll
    for (int r = 0; r < TILE; ++r) left[r] = x[r][l];
#pragma unroll
    for (int c = 0; c < 4; ++c) right[c] = y[c][l];
    add_outer(sum, left, right);
  }
}

// The products of a phase, in tiles of TILE rows and 4 columns. Neighbouring threads may work at different products.
__device__ __forceinline__ void multiply(int phase) {
  float* memory = MEMORY;
  const Product* product = products + first_product(phase);
#pragma unroll 1
  for (int task = threadIdx.x; task < phase_tiles[phase]; task += blockDim.x) {
    while (task >= product->end) ++product;
    int rest = task - product->start, repeat = 0;
    if (product->repeats > 1) repeat = Divisor(product->per_repeat)(rest), rest -= repeat * product->per_repeat;
    int rows = product->rows, columns = product->columns;
    int block = Divisor(product->across)(rest), i = TILE * block, j = 4 * (rest - block * product->across);
    float sum[TILE][4] = {};
    Rows a = product->a, b = product->b, out = product->out;
    a.at += repeat * product->a_step, b.at += repeat * product->b_step, out.at += repeat * product->out_step;
    int length = product->length, length_2 = product->length_2;
#pragma unroll 1
    while (true) {
      add_tile(sum, product->kind, a, b, i, j, rows, columns, length);
      if (length_2 == 0) break;
      a = product->c, b = product->d, length = length_2, length_2 = 0;
    }
    float* at = memory + out.at + i * out.stride + j;
#pragma unroll
    for (int r = 0; r < TILE; ++r, at += out.stride)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (i + r < rows && j + c < columns) at[c] = sum[r][c];
  }
}

// ---------------------------------------------------------------- the facts

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

// ---------------------------------------------------------------- weights in the arena and outside

// The part that an entry of the weights in the arena belongs to, in the order of the layer's fields: embedding, w_q,
// w_k, w_v, w_o, unembedding; -1 for padding.
__device__ int part_of(int i) {
  if (i < s.projections) return i < s.tokens * s.ds && i % s.ds < s.d ? 0 : -1;
  if (i >= s.unembedding) return (i - s.unembedding) % s.vp < s.values ? 5 : -1;
  if (i >= s.w_o) return i < s.w_o + s.heads * s.dv * s.ds && (i - s.w_o) % s.ds < s.d ? 4 : -1;
  int column = (i - s.projections) % s.cs;
  if (i >= s.projections + s.d * s.cs || column >= s.columns) return -1;
  return column >= s.key_columns ? 1 : column < s.heads * s.dq ? 2 : 3;
}

// The place of entry i of the flat weights in the arena.
__device__ int place_of(int i) {
  if (i < s.tokens * s.d) return i / s.d * s.ds + i % s.d;
  i -= s.tokens * s.d;
  int n_qk = s.heads * s.d * s.dq, n_vo = s.heads * s.d * s.dv;
  for (int part = 0; part < 3; ++part) {
    int width = part < 2 ? s.dq : s.dv, n = part < 2 ? n_qk : n_vo;
    if (i < n) {
      int h = i / (s.d * width), j = i / width % s.d, e = i % width;
      int column = part == 0 ? s.query_column(h) : part == 1 ? s.key_column(h) : s.value_column(h);
      return s.projections + j * s.cs + column + e;
    }
    i -= n;
  }
  if (i < n_vo) return s.w_o + i / s.d * s.ds + i % s.d;
  i -= n_vo;
  return s.unembedding + i / s.values * s.vp + i % s.values;
}

__device__ inline void step(float2 correction) {
  float *memory = MEMORY, rate = model.learning_rate * correction.x;
  bool all = model.trained == 63;
#pragma unroll 2
  for (int i = threadIdx.x; i < s.n_weights; i += blockDim.x) {
    if (!all && !(model.trained >> part_of(i) & 1)) continue;
    float g = memory[s.gradient + i], w = memory[s.weights + i];
    float first = fmaf(model.b1, memory[s.first + i], model.rest_1 * g);
    float second = fmaf(model.b2, memory[s.second + i], model.rest_2 * g * g);
    memory[s.first + i] = first, memory[s.second + i] = second;
    float change = __fdividef(rate * first, sqrtf(second * correction.y) + model.epsilon);
    memory[s.weights + i] = w - fmaf(model.shrink, w, change);
  }
}

// ---------------------------------------------------------------- one model, and the queue

// Forward and backward over all fibers, a tile at a time; `turn` tasks were taken since the last barrier. The first warp
// returns its share of the loss.
__device__ __forceinline__ double pass_over_facts(int turn, Purpose purpose, const float* taus, float2* outcomes) {
  double loss = 0;
#pragma unroll 1
  for (int t = 0; t < model.n_tiles; ++t, turn = 0) {
    const int* tile = facts.tiles + 3 * t;
    int first = tile[0], n = tile[3] - first;
    attend(turn, first, n);
    __syncthreads();
    read_fibers(first, n, purpose, taus, outcomes);
    __syncthreads();
    if (purpose != TRAIN && threadIdx.x < 32)
      for (int f = threadIdx.x; f < n; f += min(32, (int)blockDim.x)) loss += MEMORY[s.losses + f];
    if (purpose != FINISH) model.regular ? add_fibers<true>(tile, n) : add_fibers<false>(tile, n);
    __syncthreads();
  }
  return loss;
}

// The record of a check: epoch, loss, facts right by argmax and at each tau. By the first warp; true where a run stops.
__device__ bool note(int epoch, double loss, double* record) {
  const int* counts = (int*)MEMORY + s.counts;
  for (int o = 16; o; o /= 2) loss += __shfl_xor_sync(~0u, loss, o);
  loss /= model.n_facts;
  if (threadIdx.x == 0) {
    record[0] = epoch, record[1] = loss;
    for (int t = 0; t <= model.n_taus; ++t) record[2 + t] = counts[t];
  }
  return model.stop_column && (counts[model.stop_column - 2] == model.n_facts || !isfinite(loss));
}

__device__ void copy_in(const float* state, long long n_states) {
  float* memory = MEMORY;
  for (int i = threadIdx.x; i < s.size; i += blockDim.x) memory[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < s.queries * s.vp; i += blockDim.x) memory[s.direct + i] = PADDING;
  for (int i = threadIdx.x; i < s.n_flat; i += blockDim.x)
    for (int kind = 0; kind < 3; ++kind)
      memory[s.weights + kind * (s.first - s.weights) + place_of(i)] = state[kind * n_states + i];
  __syncthreads();
}

__device__ void copy_out(float* state, long long n_states) {
  for (int i = threadIdx.x; i < s.n_flat; i += blockDim.x)
    for (int kind = 0; kind < 3; ++kind)
      state[kind * n_states + i] = MEMORY[s.weights + kind * (s.first - s.weights) + place_of(i)];
}

__device__ inline void run(const float2* corrections, const float* taus, const int* checks, float* state,
                           long long n_states, double* record, float2* outcomes, Progress* progress) {
  __shared__ int stopping;
  if (threadIdx.x == 0) stopping = 0;
  copy_in(state, n_states);
  int epoch = model.epoch, noted = 0;
  bool ended = false;
#pragma unroll 1
  for (; ended || epoch < model.chunk_end || epoch == model.last_epoch; ++epoch) {
    ended |= epoch == model.last_epoch;
    int check = noted < model.n_checks ? checks[noted] : NEVER;
    bool looking = check == ~epoch;  // a curve looks at an epoch at which the run must not stop
    bool checking = !ended && (check == epoch || looking);
#pragma unroll 1
    for (int phase = 0; phase < N_PHASES; ++phase) {
      multiply(phase);
      if (phase == 0) clear_sums();
      if (phase == 1) {
        double loss = pass_over_facts(phase_tiles[1], ended ? FINISH : checking ? CHECK : TRAIN, taus, outcomes);
        if (ended || checking) {
          if (threadIdx.x < 32 && note(epoch, loss, record) && checking && !looking) stopping = 1;
          __syncthreads();
          if (ended || stopping) break;
          record += 3 + model.n_taus, ++noted;
        }
      } else {
        __syncthreads();
      }
    }
    if (ended) break;
    if (stopping) {  // once more, for the final numbers
      record += 3 + model.n_taus, ++noted, --epoch;
      ended = true;
      continue;
    }
    step(corrections[model.corrections + epoch]);
    __syncthreads();
  }
  copy_out(state, n_states);
  if (threadIdx.x == 0) *progress = {epoch, noted, ended ? 1 + stopping : 0, 0};
}

// Blocks take the models of a list in turn, the longest first. Arenas lie in shared memory, or, where a model is too
// large for that, in the slice of `spare` of each block.
extern "C" __global__ void train(const Model* models, int n_models, int* queue, float* spare, int arena_size, const int* ints,
                                 const float2* corrections, const float* taus, const int* checks, float* states,
                                 long long n_states, double* records, float2* outcomes, Progress* progress) {
  __shared__ int taken;
  while (true) {
    __syncthreads();
    if (threadIdx.x == 0) {
      taken = atomicAdd(queue, 1);
      if (taken < n_models) {
        model = models[taken];
        s.set(model);
        list_products();
        facts = {(const int4*)(ints + model.fibers), ints + model.values, ints + model.tiles,
                 (const int4*)(ints + model.key_groups), (const int4*)(ints + model.query_groups), ints + model.by_query};
      }
#if !IN_SHARED
      spare_arena = spare + (long long)blockIdx.x * arena_size;
#endif
    }
    __syncthreads();
    if (taken >= n_models) return;
    if (s.size > arena_size) {
      if (threadIdx.x == 0) progress[taken] = {model.epoch, 0, 0, 1};
      continue;
    }
    run(corrections, taus + model.taus, checks + model.checks, states + model.weights, n_states, records + model.records,
        outcomes + model.outcomes, progress + taken);
  }
}
