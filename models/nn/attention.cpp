#include "models/nn/attention.h"

#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/bf16_gemm.h"
#include "models/nn/device/attention.h"
#include "models/nn/fast_math.h"
#include "models/nn/gemm.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/reference.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Note [Attention by blocks]
// A block is a set of query rows of one head of one sample, and every key that one of them attends to. A thread's
// scratch holds its scores only while the block is computed, so memory grows linearly with a sample's keys and not
// quadratically; backward recomputes the scores. (A sample with one block and few keys saves its probabilities: this is
// linear in the tokens too, and recomputing them would cost a tenth to a half of the time.) Blocks begin at fixed rows
// of a sample and are summed in a fixed order, so results do not depend on threads or on the rest of the batch.
constexpr int64_t kBlockRows = 64;

/// Keys [first, end) of a sample.
struct KeyRange {
  int64_t first, end;
  int64_t size() const { return end - first; }
};

/// In place over one row of scores: softmax over `visible`, 0 elsewhere.
TRAINER_KERNEL void softmax_row(float* row, int64_t n, KeyRange visible) {
  const int64_t first = visible.first, end = visible.end;
  for (int64_t j = 0; j < first; ++j) row[j] = 0;
  for (int64_t j = end; j < n; ++j) row[j] = 0;
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t j = first; j < end; ++j) largest = row[j] > largest ? row[j] : largest;
#pragma omp simd
  for (int64_t j = first; j < end; ++j) row[j] = fast_exp(row[j] - largest);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = first; j < end; ++j) sum += row[j];
  const float inverse = 1.0F / sum;
#pragma omp simd
  for (int64_t j = first; j < end; ++j) row[j] *= inverse;
}

TRAINER_KERNEL void multiply(const float* a, const float* b, int64_t n, float* out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) out[j] = a[j] * b[j];
}

TRAINER_KERNEL void add(const float* a, int64_t n, float* out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) out[j] += a[j];
}

/// In place: the gradient of scores from the gradient of probabilities, ds = p (dp - sum(p dp)).
TRAINER_KERNEL void softmax_backward_row(const float* p, float* dp, int64_t n) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t j = 0; j < n; ++j) dot += p[j] * dp[j];
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) dp[j] = p[j] * (dp[j] - dot);
}

/// In place: scores become cap * tanh(score / cap); `slope` is the derivative of each.
TRAINER_KERNEL void cap_scores(float cap, int64_t n, float* scores, float* slope) {
  const float inverse = 1.0F / cap;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float t = precise_tanh(scores[j] * inverse);
    scores[j] = cap * t;
    slope[j] = 1.0F - t * t;
  }
}

struct State {
  LayoutPtr queries, keys;
  AttentionOptions options;
  at::ScalarType dtype;
  std::vector<int64_t> kept_at{};  // per sample: offset of its saved probabilities; -1: not saved. Empty: none are
  int64_t kept = 0;                // saved elements of all samples
  // Of products of bf16 numbers: those in bf16 are one part each.
  int parts = dtype == at::kBFloat16 ? 1 : bf16_parts();

  int64_t kv_heads() const { return options.kv_heads > 0 ? options.kv_heads : options.heads; }
  int64_t group() const { return options.heads / kv_heads(); }
};

/// fp32 tensors: q [Tq, H*d], k and v [Tk, kv_heads*d], bias per head [H, distances] or undefined.
struct Inputs {
  at::Tensor q, k, v, bias;
  int64_t width = q.size(1), kv_width = k.size(1);
};

Inputs inputs_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias) {
  const auto plain = [](const at::Tensor& t) { return t.to(at::kFloat).contiguous(); };
  return {plain(q), plain(k), plain(v), bias.defined() ? bias.t().contiguous() : bias};
}

/// One head of one sample.
struct Cell {
  int64_t sample, head, kv_head, d;
  Span q, k;

  int64_t before() const { return k.length - q.length; }  // position of the first query among the keys
};

struct Block {
  int64_t row, rows;  // queries [row, row + rows) of the sample
  KeyRange keys;      // every key that one of the queries attends to
};

/// The keys that query `row` of the cell attends to.
KeyRange visible(const State& s, const Cell& c, int64_t row) {
  const int64_t position = row + c.before(), window = s.options.window;
  const int64_t first = window > 0 ? position - window + 1 : 0;
  const int64_t end = s.options.causal ? position + 1 : window > 0 ? position + window : c.k.length;
  const int64_t last = std::clamp<int64_t>(end, 0, c.k.length);
  return {std::clamp<int64_t>(first, 0, last), last};
}

/// A thread's workspace; it grows to the largest block.
struct Scratch {
  std::vector<float> probabilities, ds, keep, used, row;
  std::vector<float> slope;  // of the soft cap at the block's scores
  std::vector<uint8_t> bits;
  float* p = nullptr;  // the block's [rows, keys], in `probabilities` or in the saved tensor
};

/// Assigns the offsets of the saved probabilities of short samples.
void plan_kept(State& s) {
  for (int64_t i = 0; i < s.queries->samples(); ++i) {
    const int64_t q = s.queries->spans[i].length, k = s.keys->spans[i].length;
    const bool is_short = q <= kBlockRows && k <= kBlockRows;
    s.kept_at.push_back(is_short ? s.kept : -1);
    if (is_short) s.kept += s.options.heads * q * k;
  }
}

template <class F>
void for_each_block(const State& s, const Cell& c, const F& f) {
  for (int64_t row = 0; row < c.q.length; row += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, c.q.length - row);
    f(Block{row, rows, {visible(s, c, row).first, visible(s, c, row + rows - 1).end}});
  }
}

/// Calls f(cell, scratch) for every sample and head. With `together`, one thread handles all query heads of a key/value
/// head, in order.
template <class F>
void for_each_cell(const State& s, const Inputs& in, bool together, const F& f) {
  const int64_t each = together ? s.kv_heads() : s.options.heads, inner = s.options.heads / each;
  parallel_for(0, rows_to_compute(in.q, s.queries->samples() * each), 1, [&](int64_t first, int64_t last) {
    Scratch scratch;
    for (int64_t i = first * inner; i < last * inner; ++i) {
      const int64_t sample = i / s.options.heads, head = i % s.options.heads;
      f(Cell{sample, head, head / s.group(), in.width / s.options.heads, s.queries->spans[sample],
             s.keys->spans[sample]},
        scratch);
    }
  });
}

/// Where the queries of a block, or its keys, begin in a tensor of all rows.
int64_t query_at(const Inputs& in, const Cell& c, const Block& b) {
  return (c.q.begin + b.row) * in.width + c.head * c.d;
}
int64_t key_at(const Inputs& in, const Cell& c, const Block& b) {
  return (c.k.begin + b.keys.first) * in.kv_width + c.kv_head * c.d;
}

/// Calls f(row of the block, index of the distance to its first key in a bias of `distances`).
template <class F>
void for_each_bias_row(const Cell& c, const Block& b, int64_t distances, const F& f) {
  for (int64_t i = 0; i < b.rows; ++i) f(i, (distances - 1) / 2 + b.keys.first - (b.row + i + c.before()));
}

/// Points scratch.p to the block's probabilities, which might not be computed yet; true if they are saved for backward.
bool place_probabilities(const State& s, const Cell& c, const Block& b, const at::Tensor& kept, Scratch& scratch) {
  const int64_t at = s.kept_at.empty() ? -1 : s.kept_at[c.sample];
  if (at >= 0) {
    scratch.p = kept.data_ptr<float>() + at + c.head * c.q.length * c.k.length;
    return true;
  }
  scratch.probabilities.resize(b.rows * b.keys.size());
  scratch.p = scratch.probabilities.data();
  return false;
}

/// Computes scratch.p [rows, keys] of the block.
void find_probabilities(const State& s, const Inputs& in, const Cell& c, const Block& b, Scratch& scratch) {
  const int64_t n = b.keys.size();
  gemm(Transposed::kSecond, b.rows, n, c.d, static_cast<float>(s.options.scale),
       {in.q.const_data_ptr<float>() + query_at(in, c, b), in.width},
       {in.k.const_data_ptr<float>() + key_at(in, c, b), in.kv_width}, 0, scratch.p, n, s.parts);
  if (s.options.soft_cap > 0) {
    scratch.slope.resize(b.rows * n);
    cap_scores(static_cast<float>(s.options.soft_cap), b.rows * n, scratch.p, scratch.slope.data());
  }
  if (in.bias.defined()) {
    const int64_t distances = in.bias.size(1);
    const float* const bias = in.bias.const_data_ptr<float>() + c.head * distances;
    for_each_bias_row(c, b, distances, [&](int64_t i, int64_t at) { add(bias + at, n, scratch.p + i * n); });
  }
  for (int64_t i = 0; i < b.rows; ++i) {
    const KeyRange seen = visible(s, c, b.row + i);
    softmax_row(scratch.p + i * n, n, {seen.first - b.keys.first, seen.end - b.keys.first});
  }
}

/// Dropout: draws scratch.keep [rows, keys] (0 for masked keys) and sets scratch.used to p * keep.
/// Returns the weights of the values: scratch.p itself if dropout is off.
const float* drop(const State& s, const Cell& c, const Block& b, Scratch& scratch) {
  const DropoutRule& rule = s.options.dropout;
  if (!rule.active()) return scratch.p;
  const int64_t n = b.keys.size();
  scratch.bits.resize(mask_bytes(b.keys.end));
  scratch.row.resize(b.keys.end);
  scratch.keep.assign(b.rows * n, 0);
  const int64_t first = s.queries->start(c.sample) + b.row;
  for (int64_t i = 0; i < b.rows; ++i) {
    const KeyRange seen = visible(s, c, b.row + i);
    draw_mask_row(rule.key, rule.threshold, s.queries->sample_index[c.sample], first + i, rule.first + c.head, 0,
                  seen.end, scratch.bits.data());
    expand_mask_row(scratch.bits.data(), rule.scale, seen.end, scratch.row.data());
    std::copy(scratch.row.begin() + seen.first, scratch.row.begin() + seen.end,
              scratch.keep.begin() + i * n + seen.first - b.keys.first);
  }
  scratch.used.resize(b.rows * n);
  multiply(scratch.p, scratch.keep.data(), b.rows * n, scratch.used.data());
  return scratch.used.data();
}

struct Gradients {
  at::Tensor q, k, v, bias;  // bias per sample and head [samples, H, distances], summed later in a fixed order
};

void attend(const State& s, const Inputs& in, const Cell& c, const Block& b, const at::Tensor& kept, Scratch& scratch,
            float* out) {
  place_probabilities(s, c, b, kept, scratch);
  find_probabilities(s, in, c, b, scratch);
  const float* const used = drop(s, c, b, scratch);
  gemm(Transposed::kNone, b.rows, c.d, b.keys.size(), 1, {used, b.keys.size()},
       {in.v.const_data_ptr<float>() + key_at(in, c, b), in.kv_width}, 0, out + query_at(in, c, b), in.width, s.parts);
}

void add_to_bias(const State& s, const Cell& c, const Block& b, const float* ds, const at::Tensor& to) {
  const int64_t n = b.keys.size(), distances = to.size(2);
  float* const sum = to.data_ptr<float>() + (c.sample * s.options.heads + c.head) * distances;
  for_each_bias_row(c, b, distances, [&](int64_t i, int64_t at) { add(ds + i * n, n, sum + at); });
}

/// Adds the block's contribution to every gradient.
void attend_backward(const State& s, const Inputs& in, const at::Tensor& grad, const Cell& c, const Block& b,
                     const at::Tensor& kept, Scratch& scratch, Gradients& to) {
  const int64_t n = b.keys.size(), query = query_at(in, c, b), key = key_at(in, c, b);
  const auto scale = static_cast<float>(s.options.scale);
  const Matrix g{grad.const_data_ptr<float>() + query, in.width};
  if (!place_probabilities(s, c, b, kept, scratch)) find_probabilities(s, in, c, b, scratch);
  const float* const used = drop(s, c, b, scratch);
  gemm(Transposed::kFirst, n, c.d, b.rows, 1, {used, n}, g, 1, to.v.data_ptr<float>() + key, in.kv_width, s.parts);
  scratch.ds.resize(b.rows * n);
  float* const ds = scratch.ds.data();
  gemm(Transposed::kSecond, b.rows, n, c.d, 1, g, {in.v.const_data_ptr<float>() + key, in.kv_width}, 0, ds, n, s.parts);
  if (s.options.dropout.active()) multiply(ds, scratch.keep.data(), b.rows * n, ds);
  for (int64_t i = 0; i < b.rows; ++i) softmax_backward_row(scratch.p + i * n, ds + i * n, n);
  if (to.bias.defined()) add_to_bias(s, c, b, ds, to.bias);
  if (s.options.soft_cap > 0) multiply(ds, scratch.slope.data(), b.rows * n, ds);
  gemm(Transposed::kNone, b.rows, c.d, n, scale, {ds, n}, {in.k.const_data_ptr<float>() + key, in.kv_width}, 0,
       to.q.data_ptr<float>() + query, in.width, s.parts);
  gemm(Transposed::kFirst, n, c.d, b.rows, scale, {ds, n}, {in.q.const_data_ptr<float>() + query, in.width}, 1,
       to.k.data_ptr<float>() + key, in.kv_width, s.parts);
}

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& bias, State state) {
    RECORD_USER_SCOPE("PackedAttention");  // for profilers: its products are no operators of libtorch
    const Inputs in = inputs_of(q, k, v, bias.value_or(at::Tensor()));
    at::Tensor out = at::empty_like(in.q), kept = at::empty({state.kept}, in.q.options());
    for_each_cell(state, in, false, [&](const Cell& cell, Scratch& scratch) {
      for_each_block(state, cell,
                     [&](const Block& block) { attend(state, in, cell, block, kept, scratch, out.data_ptr<float>()); });
    });
    ctx->save_for_backward({q, k, v, bias.value_or(at::Tensor()), kept});
    keep(ctx, std::move(state));
    return out.to(q.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_USER_SCOPE("PackedAttention");
    const auto saved = ctx->get_saved_variables();
    const State& state = kept<State>(ctx);
    const Inputs in = inputs_of(saved[0], saved[1], saved[2], saved[3]);
    const auto grad = grads[0].to(at::kFloat).contiguous();
    Gradients to{at::empty_like(in.q), at::zeros_like(in.k), at::zeros_like(in.v), {}};
    if (in.bias.defined() && ctx->needs_input_grad(3))
      to.bias = at::zeros({state.queries->samples(), state.options.heads, in.bias.size(1)}, in.q.options());
    for_each_cell(state, in, true, [&](const Cell& cell, Scratch& scratch) {
      for_each_block(state, cell,
                     [&](const Block& block) { attend_backward(state, in, grad, cell, block, saved[4], scratch, to); });
    });
    return {to.q.to(state.dtype), to.k.to(state.dtype), to.v.to(state.dtype),
            to.bias.defined() ? to.bias.sum(0).t() : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options) {
  if (runs_reference(q)) return device::packed_attention(q, k, v, bias, queries, keys, options);
  State state{queries, keys, options, q.scalar_type()};
  const bool has_backward =
      q.requires_grad() || k.requires_grad() || v.requires_grad() || (bias.defined() && bias.requires_grad());
  // Backward of a soft cap needs the scores themselves, so there the probabilities are recomputed with them.
  if (at::GradMode::is_enabled() && has_backward && options.soft_cap == 0) plan_kept(state);
  return PackedAttention::apply(q, k, v, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt,
                                std::move(state));
}

}  // namespace trainer::nn
