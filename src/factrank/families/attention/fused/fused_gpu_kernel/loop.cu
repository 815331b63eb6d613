// The weights in the arena and outside, Adam, the loop over epochs, and the queue of models.

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
