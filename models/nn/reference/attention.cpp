#include "models/nn/reference/attention.h"

#include <algorithm>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>

#include "models/nn/device/layout_tensors.h"
#include "models/nn/reference/draws.h"
#include "models/nn/reference/recompute.h"
#include "models/nn/reference/rows.h"

namespace trainer::nn::reference {
namespace {

/// The samples of a call as one padded block: S samples with up to Q queries and K keys.
struct Block {
  PaddedRows queries, keys;
  at::Tensor before;      // keys before the first query: [S, 1, 1], or [1, 1, 1] if equal in all samples
  at::Tensor query, key;  // indices within a sample: [Q, 1], [K]
};

Block block_of(const Layout& queries, const Layout& keys, int64_t query_rows, int64_t key_rows, at::Device device) {
  Block block{padded_rows(queries, query_rows, device), padded_rows(keys, key_rows, device), {}, {}, {}};
  std::vector<int64_t> before;
  for (int64_t s = 0; s < queries.samples(); ++s) before.push_back(keys.spans[s].length - queries.spans[s].length);
  if (std::all_of(before.begin(), before.end(), [&](int64_t b) { return b == before.front(); }))
    before.assign(1, before.empty() ? 0 : before.front());
  const auto values = [&] { return numbers(before, device); };
  const bool own = &queries == &keys;  // as in training
  block.before =
      (own ? device::tensor_of_spans(queries, "keys before", device, values) : device::sent(values(), device))
          .view({-1, 1, 1});
  block.query = at::arange(block.queries.longest, block.before.options()).unsqueeze(1);
  block.key = at::arange(block.keys.longest, block.before.options());
  return block;
}

/// The keys that each query must not attend to: [S, 1, Q, K].
at::Tensor hidden_keys(const Block& b, const AttentionOptions& options) {
  const at::Tensor position = b.query + b.before;  // of each query among its sample's keys
  at::Tensor hidden = b.key.ge(b.keys.lengths.unsqueeze(2)).expand({-1, b.queries.longest, -1});
  if (options.causal) hidden = hidden | b.key.gt(position);
  if (options.window > 0) hidden = hidden | b.key.le(position - options.window);
  if (options.window > 0 && !options.causal) hidden = hidden | b.key.ge(position + options.window);
  return hidden.unsqueeze(1);
}

/// Rows [T, heads * d] as [S, heads, longest, d] fp32.
at::Tensor by_head(const at::Tensor& x, const PaddedRows& padded, int64_t heads) {
  return at::index_select(x.to(at::kFloat), 0, padded.rows.flatten())
      .view({padded.samples, padded.longest, heads, x.size(1) / heads})
      .transpose(1, 2);
}

/// [S or 1, H, Q, K], from a table by distance [distances, H].
at::Tensor bias_of(const Block& b, const at::Tensor& table) {
  const int64_t distances = table.size(0);
  const at::Tensor distance = b.key - (b.query + b.before) + (distances - 1) / 2;  // arbitrary for padding
  return at::embedding(table, distance.clamp(0, distances - 1)).permute({0, 3, 1, 2});
}

/// Which probabilities dropout keeps: [S, H, Q, K].
at::Tensor kept_keys(const Block& b, const Layout& queries, const AttentionOptions& options) {
  const device::LayoutTensors& tensors = device::tensors_of(queries, b.key.device());
  const at::Tensor position = tensors.sample.view({-1, 1, 1});
  const at::Tensor token = tensors.first_token.view({-1, 1, 1}) + b.query.view({1, 1, -1});
  const at::Tensor head = at::arange(options.dropout.first, options.dropout.first + options.heads, b.key.options());
  return kept_elements(options.dropout, position, token, head.view({1, -1, 1}), 0, b.keys.longest);
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                  const Layout& queries, const Layout& keys, const AttentionOptions& options) {
  const Block b = block_of(queries, keys, q.size(0), k.size(0), q.device());
  const int64_t heads = options.heads, kv_heads = options.kv_heads > 0 ? options.kv_heads : heads;
  const int64_t samples = b.queries.samples, rows = b.queries.longest, columns = b.keys.longest;
  // Query heads that share a key head are stacked as more rows of one head.
  const auto together = [&](const at::Tensor& x) {
    return x.reshape({samples, kv_heads, heads / kv_heads * rows, x.size(3)});
  };
  const at::Tensor hidden = hidden_keys(b, options);
  at::Tensor scores = at::matmul(together(by_head(q, b.queries, heads)), by_head(k, b.keys, kv_heads).transpose(2, 3))
                          .view({samples, heads, rows, columns}) *
                      options.scale;
  if (options.soft_cap > 0) scores = at::tanh(scores / options.soft_cap) * options.soft_cap;
  if (bias.defined()) scores = scores + bias_of(b, bias);
  // Not -inf: a row that attends to nothing, as padding may, would become NaN. The final mask sets it to 0.
  at::Tensor p =
      at::softmax(scores.masked_fill(hidden, std::numeric_limits<float>::lowest()), -1).masked_fill(hidden, 0);
  if (options.dropout.active()) p = masked(p, kept_keys(b, queries, options), options.dropout.scale);
  return at::matmul(together(p), by_head(v, b.keys, kv_heads))
      .view({samples, heads, rows, q.size(1) / heads})
      .transpose(1, 2)
      .reshape({samples * rows, q.size(1)})
      .index_select(0, b.queries.places)
      .to(q.scalar_type());
}

/// Of all heads of `options`, with scores that exist only while it computes, forward or backward.
at::Tensor attend_at_once(std::vector<at::Tensor> inputs, const LayoutPtr& queries, const LayoutPtr& keys,
                          const AttentionOptions& options) {
  const auto composed = [=](const std::vector<at::Tensor>& in) {
    return attend(in[0], in[1], in[2], in.size() > 3 ? in[3] : at::Tensor(), *queries, *keys, options);
  };
  return recompute(inputs, composed, "attention");
}

}  // namespace

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options,
                            int64_t most_scores) {
  const int64_t kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads, group = options.heads / kv_heads;
  const int64_t scores = queries->samples() * group * queries->longest() * keys->longest();
  const int64_t at_once = std::clamp<int64_t>(most_scores / std::max<int64_t>(scores, 1), 1, kv_heads);
  const int64_t width = q.size(1) / options.heads;
  std::vector<at::Tensor> outputs;
  for (int64_t first = 0; first < kv_heads; first += at_once) {
    AttentionOptions some = options;
    some.kv_heads = std::min(at_once, kv_heads - first);
    some.heads = some.kv_heads * group;
    some.dropout.first += first * group;
    const auto own = [&](const at::Tensor& x, int64_t of_key_head) {
      return at_once == kv_heads ? x : x.narrow(1, first * of_key_head, some.kv_heads * of_key_head);
    };
    std::vector<at::Tensor> inputs{own(q, group * width), own(k, width), own(v, width)};
    if (bias.defined()) inputs.push_back(own(bias, group));
    outputs.push_back(attend_at_once(std::move(inputs), queries, keys, some));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 1);
}

}  // namespace trainer::nn::reference
