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
