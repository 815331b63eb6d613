// Products of small matrices in the arena; the list of them, by phases.

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
