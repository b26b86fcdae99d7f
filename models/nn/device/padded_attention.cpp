// Memory-efficient attention with an additive mask and bias (Note [Attention on devices]).
#include <algorithm>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/attention.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/saved.h"

namespace trainer::nn::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The samples and query heads of one call of the operator. Samples are padded to `queries` and `keys` rows.
struct Block {
  int64_t first, samples, head, heads, queries, keys;
};

std::vector<Block> blocks_of(const AttentionCall& call, bool has_bias) {
  const int64_t all = call.options.heads;
  std::vector<Block> blocks;
  for (int64_t s = 0; s < call.queries->samples(); ++s) {
    const int64_t q = call.queries->spans[s].length, k = call.keys->spans[s].length;
    if (!blocks.empty() && blocks.back().head == 0 && blocks.back().heads == all) {
      Block& last = blocks.back();
      const int64_t queries = std::max(last.queries, q), keys = std::max(last.keys, k);
      if ((last.samples + 1) * (has_bias ? all : 1) * queries * keys <= call.most_bias) {
        last = {last.first, last.samples + 1, 0, all, queries, keys};
        continue;
      }
    }
    const int64_t heads = has_bias ? std::clamp<int64_t>(call.most_bias / std::max<int64_t>(q * k, 1), 1, all) : all;
    for (int64_t head = 0; head < all; head += heads) blocks.push_back({s, 1, head, std::min(heads, all - head), q, k});
  }
  std::erase_if(blocks, [](const Block& block) { return block.queries == 0; });
  return blocks;
}

/// The rows of some samples of a layout, padded to `longest` rows.
class PaddedSamples {
 public:
  PaddedSamples(const Layout& layout, int64_t first, int64_t samples, int64_t longest, at::Device device)
      : tensors_(tensors_of(layout, device)), first_(first), samples_(samples), longest_(longest) {
    const Span &begin = layout.spans[first], &end = layout.spans[first + samples - 1];
    row_ = begin.begin;
    rows_ = end.begin + end.length - row_;
    equal_ = rows_ == samples * longest;
    for (int64_t s = first; s < first + samples; ++s) equal_ = equal_ && layout.spans[s].length == longest;
  }

  at::Tensor index() const { return at::arange(longest_, tensors_.begin.options()); }  // [longest]
  at::Tensor length() const { return tensors_.length.narrow(0, first_, samples_); }    // [samples]
  bool equal() const { return equal_; }  // nothing is padded, and there are no gaps

  /// Those rows of x [T, heads, width], for `heads` heads from `head`: [samples, longest, heads, width].
  at::Tensor take(const at::Tensor& x, int64_t head, int64_t heads) const {
    const at::Tensor own = x.narrow(1, head, heads);
    if (equal_) return own.narrow(0, row_, rows_).unflatten(0, {samples_, longest_});
    const at::Tensor last = length().sub(1).clamp_min(0).unsqueeze(1);
    const at::Tensor rows =
        (at::minimum(index(), last) + tensors_.begin.narrow(0, first_, samples_).unsqueeze(1)).clamp_max(x.size(0) - 1);
    return own.index_select(0, rows.flatten()).unflatten(0, {samples_, longest_});
  }
  /// Puts such a block's own rows into `to` [T, heads, width].
  void put(const at::Tensor& block, const at::Tensor& to, int64_t head, int64_t heads) const {
    at::Tensor own = block.flatten(0, 1);
    if (!equal_) {
      const at::Tensor sample = tensors_.span.narrow(0, row_, rows_) - first_;
      own = own.index_select(0, sample * longest_ + tensors_.place.narrow(0, row_, rows_));
    }
    to.narrow(0, row_, rows_).narrow(1, head, heads).copy_(own);
  }
  /// Sets padding to 0: [samples, longest, heads, width].
  at::Tensor without_padding(const at::Tensor& block) const {
    if (equal_) return block;
    return block.masked_fill(index().ge(length().unsqueeze(1)).unsqueeze(-1).unsqueeze(-1), 0);
  }

 private:
  const LayoutTensors& tensors_;
  int64_t first_, samples_, longest_, row_ = 0, rows_ = 0;
  bool equal_ = false;
};

/// One block with its samples.
struct Part {
  Block block;
  const AttentionCall& call;
  PaddedSamples queries, keys;

  Part(const Block& b, const AttentionCall& c, at::Device device)
      : block(b),
        call(c),
        queries(*c.queries, b.first, b.samples, b.queries, device),
        keys(*c.keys, b.first, b.samples, b.keys, device) {}

  /// The index of each query among its sample's keys: [samples, Q].
  at::Tensor position() const { return queries.index() + (keys.length() - queries.length()).unsqueeze(1); }

  /// Which keys a query must not attend to: [samples, 1, Q, K]; undefined: none.
  at::Tensor hidden() const {
    const AttentionOptions& options = call.options;
    if (keys.equal() && !options.causal && options.window == 0) return {};
    const at::Tensor key = keys.index(), query = position().unsqueeze(2);
    at::Tensor hidden = key.ge(keys.length().view({-1, 1, 1})).expand({-1, block.queries, -1});
    if (options.causal) hidden = hidden | key.gt(query);
    if (options.window > 0) hidden = hidden | key.le(query - options.window);
    if (options.window > 0 && !options.causal) hidden = hidden | key.ge(query + options.window);
    return hidden.unsqueeze(1);
  }

  /// The row of the bias for each query and key: [samples, Q, K], or [1, Q, K] if all samples have the same.
  at::Tensor distance(int64_t distances) const {
    const at::Tensor own = queries.equal() && keys.equal() ? position().narrow(0, 0, 1) : position();
    return (keys.index() - own.unsqueeze(2) + (distances - 1) / 2).clamp(0, distances - 1);
  }

  /// [samples, heads, Q, K] in `dtype`, or nothing. Rows are 16 elements apart, as the operator's loads need them.
  std::optional<at::Tensor> additive(const at::Tensor& bias, at::ScalarType dtype) const {
    const at::Tensor out_of_sight = hidden();
    if (!bias.defined() && !out_of_sight.defined()) return std::nullopt;
    at::Tensor sum = bias.defined() ? at::embedding(bias.narrow(1, block.head, block.heads), distance(bias.size(0)))
                                          .permute({0, 3, 1, 2})
                                          .to(dtype)
                                    : at::zeros({1, 1, 1, 1}, keys.index().options().dtype(dtype));
    // Not -inf: a row of padding that attends to nothing would become NaN.
    if (out_of_sight.defined()) sum = sum.masked_fill(out_of_sight, lowest(dtype));
    constexpr int64_t kApart = 16;
    const at::Tensor aligned =
        at::empty({sum.size(0), sum.size(1), block.queries, (block.keys + kApart - 1) / kApart * kApart}, sum.options())
            .narrow(3, 0, block.keys);
    aligned.copy_(sum);
    return aligned.expand({block.samples, block.heads, -1, -1});
  }

  static double lowest(at::ScalarType dtype) {
    return dtype == at::kHalf ? -65504.0 : -std::numeric_limits<float>::max() / 2;
  }
};

struct PaddedAttention : torch::autograd::Function<PaddedAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given_q, const at::Tensor& given_k,
                            const at::Tensor& given_v, const std::optional<at::Tensor>& bias,
                            const AttentionCall& call) {
    const at::Tensor q = by_head(given_q, call.width), k = by_head(given_k, call.width),
                     v = by_head(given_v, call.width), all_k = for_each_head(k, call), all_v = for_each_head(v, call);
    at::Tensor out = at::empty_like(q);
    variable_list saved{q, k, v, out, bias.value_or(at::Tensor())};
    seed_masks(call, q.device());
    const AttentionScope scope(call);
    for (const Block& block : blocks_of(call, bias.has_value())) {
      const Part part(block, call, q.device());
      const auto found = at::_efficient_attention_forward(
          part.queries.take(q, block.head, block.heads), part.keys.take(all_k, block.head, block.heads),
          part.keys.take(all_v, block.head, block.heads), part.additive(bias.value_or(at::Tensor()), q.scalar_type()),
          std::nullopt, std::nullopt, std::nullopt, std::nullopt, call.dropout(), /*custom_mask_type=*/0,
          /*compute_log_sumexp=*/true, call.options.scale);
      part.queries.put(std::get<0>(found), out, block.head, block.heads);
      saved.insert(saved.end(), {std::get<1>(found), std::get<2>(found), std::get<3>(found)});
    }
    ctx->save_for_backward(saved);
    keep(ctx, call);
    return out.flatten(1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& call = kept<AttentionCall>(ctx);
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &bias = saved[4];
    const at::Tensor all_k = for_each_head(k, call), all_v = for_each_head(v, call);
    const at::Tensor grad = by_head(grads[0], call.width);
    const at::Tensor dq = at::empty_like(q);
    const at::Tensor dk = at::zeros_like(all_k), dv = at::zeros_like(all_v);  // samples may have no queries
    const bool learns_bias = bias.defined() && ctx->needs_input_grad(3);
    const at::Tensor dbias = learns_bias ? at::zeros(bias.sizes(), bias.options()) : at::Tensor();
    const AttentionScope scope(call);
    size_t next = 5;
    for (const Block& block : blocks_of(call, bias.defined())) {
      const Part part(block, call, q.device());
      const auto [own_q, own_k, own_v, own_bias] = at::_efficient_attention_backward(
          part.queries.without_padding(part.queries.take(grad, block.head, block.heads)),
          part.queries.take(q, block.head, block.heads), part.keys.take(all_k, block.head, block.heads),
          part.keys.take(all_v, block.head, block.heads), part.additive(bias, q.scalar_type()),
          part.queries.take(out, block.head, block.heads).contiguous(), std::nullopt, std::nullopt, block.queries,
          block.keys, saved[next], call.dropout(), saved[next + 1], saved[next + 2], /*custom_mask_type=*/0,
          learns_bias, call.options.scale);
      next += 3;
      part.queries.put(own_q, dq, block.head, block.heads);
      part.keys.put(own_k, dk, block.head, block.heads);
      part.keys.put(own_v, dv, block.head, block.heads);
      if (learns_bias) add_bias(part, own_bias, dbias);
    }
    return {dq.flatten(1), summed_over_groups(dk, call).flatten(1), summed_over_groups(dv, call).flatten(1), dbias,
            at::Tensor()};
  }

  /// Adds the gradient of the scores [samples, heads, Q, K] to that of the table.
  static void add_bias(const Part& part, const at::Tensor& grad, const at::Tensor& to) {
    const at::Tensor distance = part.distance(to.size(0));
    const at::Tensor own = (distance.size(0) < grad.size(0) ? grad.sum(at::IntArrayRef{0}, /*keepdim=*/true, at::kFloat)
                                                            : grad.to(at::kFloat))
                               .permute({0, 2, 3, 1});
    to.narrow(1, part.block.head, part.block.heads)
        .add_(at::embedding_dense_backward(own.contiguous(), distance, to.size(0), -1, false));
  }
};

}  // namespace

at::Tensor padded_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const AttentionCall& call) {
  return PaddedAttention::apply(q, k, v, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt, call);
}

}  // namespace trainer::nn::device
