#include "models/nn/attention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/attention_rows.h"
#include "models/nn/bf16_gemm.h"
#include "models/nn/device/attention.h"
#include "models/nn/gemm.h"
#include "models/nn/head_rows.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/reference/reference.h"
#include "models/nn/saved.h"
#include "models/nn/single_query.h"

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

struct State {
  LayoutPtr queries, keys;
  AttentionOptions options;
  at::ScalarType dtype;
  std::vector<int64_t> kept_at{};  // per sample: offset of its saved probabilities; -1: not saved. Empty: none are
  int64_t kept = 0;                // saved elements of all samples
  // Of products of bf16 numbers: those in bf16 are one part each.
  int parts = dtype == at::kBFloat16 ? 1 : bf16_parts();

  int64_t kv_heads() const { return options.heads / options.group(); }
};

/// q [Tq, H*d], k and v [Tk, kv_heads*d], bias per head [H, distances] or undefined; contiguous.
struct Inputs {
  at::Tensor q, k, v, bias;
};

at::Tensor plain(const at::Tensor& x) {
  return (x.scalar_type() == at::kDouble ? x.to(at::kFloat) : x).contiguous();
}
Inputs inputs_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias) {
  return {plain(q), plain(k), plain(v), bias.defined() ? bias.t().contiguous() : bias};
}

/// One head of one sample.
struct Cell {
  int64_t sample, head, kv_head, d;
  Span q, k;
  Matrix queries, keys, values;

  int64_t before() const { return k.length - q.length; }  // position of the first query among the keys
};

struct Block {
  int64_t row, rows;  // queries [row, row + rows) of the sample
  KeyRange keys;      // every key that one of the queries attends to
};

/// The keys that query `row` of the cell attends to.
KeyRange visible(const State& s, const Cell& c, int64_t row) {
  return visible_keys(s.options, row + c.before(), c.k.length);
}

/// A thread's workspace; it grows to the largest head and block.
struct Scratch {
  HeadRows::Memory queries, keys, values, grad, out, q_grad, k_grad, v_grad;
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

/// Calls f(cell, scratch) for every sample and head, except for single queries. With `together`, one thread handles all
/// query heads of a key/value head, in order.
template <class F>
void for_each_cell(const State& s, const Inputs& in, bool together, const F& f) {
  if (s.options.decoding && s.queries->longest() <= 1) return;
  const int64_t each = together ? s.kv_heads() : s.options.heads, inner = s.options.heads / each;
  parallel_for(0, rows_to_compute(in.q, s.queries->samples() * each), 1, [&](int64_t first, int64_t last) {
    Scratch scratch;
    Cell c{.sample = -1, .head = -1, .kv_head = -1};
    for (int64_t i = first * inner; i < last * inner; ++i) {
      const Cell before = std::exchange(c, Cell{.sample = i / s.options.heads, .head = i % s.options.heads});
      if (is_single_query(*s.queries, c.sample, s.options)) continue;
      c.kv_head = c.head / s.options.group();
      c.d = in.q.size(1) / s.options.heads;
      c.q = s.queries->spans[c.sample];
      c.k = s.keys->spans[c.sample];
      c.queries = HeadRows(in.q, c.q, c.head, c.d).read(scratch.queries);
      if (c.sample == before.sample && c.kv_head == before.kv_head) {
        c.keys = before.keys;
        c.values = before.values;
      } else {
        c.keys = HeadRows(in.k, c.k, c.kv_head, c.d).read(scratch.keys);
        c.values = HeadRows(in.v, c.k, c.kv_head, c.d).read(scratch.values);
      }
      f(c, scratch);
    }
  });
}

/// Row `row` of a matrix and those after it.
Matrix from_row(const Matrix& x, int64_t row) {
  return {x.data + row * x.stride, x.stride};
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
  gemm(Transposed::kSecond, b.rows, n, c.d, static_cast<float>(s.options.scale), from_row(c.queries, b.row),
       from_row(c.keys, b.keys.first), 0, scratch.p, n, s.parts);
  if (s.options.soft_cap > 0) {
    scratch.slope.resize(b.rows * n);
    cap_scores(static_cast<float>(s.options.soft_cap), b.rows * n, scratch.p, scratch.slope.data());
  }
  if (in.bias.defined()) {
    const int64_t distances = in.bias.size(1);
    const float* const bias = in.bias.const_data_ptr<float>() + c.head * distances;
    for_each_bias_row(c, b, distances, [&](int64_t i, int64_t at) { add_row(bias + at, n, scratch.p + i * n); });
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
  multiply_row(scratch.p, scratch.keep.data(), b.rows * n, scratch.used.data());
  return scratch.used.data();
}

/// Writes the block's rows `to` the output of its head.
void attend(const State& s, const Inputs& in, const Cell& c, const Block& b, const at::Tensor& kept, Scratch& scratch,
            HeadRows::Place to) {
  place_probabilities(s, c, b, kept, scratch);
  find_probabilities(s, in, c, b, scratch);
  const float* const used = drop(s, c, b, scratch);
  gemm(Transposed::kNone, b.rows, c.d, b.keys.size(), 1, {used, b.keys.size()}, from_row(c.values, b.keys.first), 0,
       to.data + b.row * to.stride, to.stride, s.parts);
}

void add_to_bias(const State& s, const Cell& c, const Block& b, const float* ds, const at::Tensor& to) {
  const int64_t n = b.keys.size(), distances = to.size(2);
  float* const sum = to.data_ptr<float>() + (c.sample * s.options.heads + c.head) * distances;
  for_each_bias_row(c, b, distances, [&](int64_t i, int64_t at) { add_row(ds + i * n, n, sum + at); });
}

struct Gradients {
  at::Tensor q, k, v, bias;  // bias per sample and head [samples, H, distances], summed later in a fixed order
};
/// Where those of a head are written.
struct HeadGradients {
  HeadRows::Place q, k, v;
};

/// Adds the block's contribution to every gradient; `grad` is the output's.
void attend_backward(const State& s, const Inputs& in, const Matrix& grad, const Cell& c, const Block& b,
                     const at::Tensor& kept, Scratch& scratch, const HeadGradients& to, const at::Tensor& bias_grad) {
  const int64_t n = b.keys.size(), first = b.keys.first;
  const auto scale = static_cast<float>(s.options.scale);
  const Matrix g = from_row(grad, b.row);
  if (!place_probabilities(s, c, b, kept, scratch)) find_probabilities(s, in, c, b, scratch);
  const float* const used = drop(s, c, b, scratch);
  gemm(Transposed::kFirst, n, c.d, b.rows, 1, {used, n}, g, 1, to.v.data + first * to.v.stride, to.v.stride, s.parts);
  scratch.ds.resize(b.rows * n);
  float* const ds = scratch.ds.data();
  gemm(Transposed::kSecond, b.rows, n, c.d, 1, g, from_row(c.values, first), 0, ds, n, s.parts);
  if (s.options.dropout.active()) multiply_row(ds, scratch.keep.data(), b.rows * n, ds);
  for (int64_t i = 0; i < b.rows; ++i) softmax_backward_row(scratch.p + i * n, ds + i * n, n);
  if (bias_grad.defined()) add_to_bias(s, c, b, ds, bias_grad);
  if (s.options.soft_cap > 0) multiply_row(ds, scratch.slope.data(), b.rows * n, ds);
  gemm(Transposed::kNone, b.rows, c.d, n, scale, {ds, n}, from_row(c.keys, first), 0, to.q.data + b.row * to.q.stride,
       to.q.stride, s.parts);
  gemm(Transposed::kFirst, n, c.d, b.rows, scale, {ds, n}, from_row(c.queries, b.row), 1,
       to.k.data + first * to.k.stride, to.k.stride, s.parts);
}

/// All blocks of a head. The gradients of keys and values are sums over the query heads that share them, in order.
void head_backward(const State& s, const Inputs& in, const at::Tensor& grad, const Cell& c, const at::Tensor& kept,
                   Scratch& scratch, const Gradients& to) {
  const HeadRows q(to.q, c.q, c.head, c.d), k(to.k, c.k, c.kv_head, c.d), v(to.v, c.k, c.kv_head, c.d);
  const bool is_first = c.head % s.options.group() == 0, is_last = (c.head + 1) % s.options.group() == 0;
  const HeadGradients places{q.place(scratch.q_grad), is_first ? k.zeros(scratch.k_grad) : k.place(scratch.k_grad),
                             is_first ? v.zeros(scratch.v_grad) : v.place(scratch.v_grad)};
  const Matrix g = HeadRows(grad, c.q, c.head, c.d).read(scratch.grad);
  for_each_block(s, c, [&](const Block& b) { attend_backward(s, in, g, c, b, kept, scratch, places, to.bias); });
  q.finish(scratch.q_grad);
  if (!is_last) return;
  k.finish(scratch.k_grad);
  v.finish(scratch.v_grad);
}

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& bias, State state) {
    RECORD_USER_SCOPE("PackedAttention");  // for profilers: its products are no operators of libtorch
    const Inputs in = inputs_of(q, k, v, bias.value_or(at::Tensor()));
    const at::Tensor out = at::empty_like(in.q), kept = at::empty({state.kept}, in.q.options().dtype(at::kFloat));
    if (state.options.decoding)
      attend_single_queries(in.q, in.k, in.v, in.bias, *state.queries, *state.keys, state.options, out);
    for_each_cell(state, in, false, [&](const Cell& cell, Scratch& scratch) {
      const HeadRows rows(out, cell.q, cell.head, cell.d);
      const HeadRows::Place to = rows.place(scratch.out);
      for_each_block(state, cell, [&](const Block& block) { attend(state, in, cell, block, kept, scratch, to); });
      rows.finish(scratch.out);
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
    const at::Tensor grad = plain(grads[0]);
    // With context parallelism, some keys belong to none of this rank's samples.
    Gradients to{at::empty_like(in.q), at::zeros_like(in.k), at::zeros_like(in.v), {}};
    if (in.bias.defined() && ctx->needs_input_grad(3))
      to.bias = at::zeros({state.queries->samples(), state.options.heads, in.bias.size(1)}, in.bias.options());
    for_each_cell(state, in, true, [&](const Cell& cell, Scratch& scratch) {
      head_backward(state, in, grad, cell, saved[4], scratch, to);
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
