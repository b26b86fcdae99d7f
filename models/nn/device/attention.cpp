#include "models/nn/device/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_cudnn_attention_backward.h>
#include <ATen/ops/_cudnn_attention_forward.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/attention_choice.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/reference/attention.h"
#include "models/nn/saved.h"

namespace trainer::nn::device {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Keys before and after a query that it attends to, as flash attention counts them; none: all.
struct Window {
  std::optional<int64_t> before, after;
};
Window window_of(const AttentionOptions& options) {
  if (options.window == 0) return {};
  return {options.window - 1, options.causal ? 0 : options.window - 1};
}

struct FlashAttention : torch::autograd::Function<FlashAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given_q, const at::Tensor& given_k,
                            const at::Tensor& given_v, const AttentionCall& call) {
    const at::Tensor q = by_head(given_q, call.width), k = by_head(given_k, call.width),
                     v = by_head(given_v, call.width);
    const LayoutTensors &queries = tensors_of(*call.queries, q.device()), &keys = tensors_of(*call.keys, q.device());
    const Window window = window_of(call.options);
    const std::optional<at::Tensor> used =
        call.keys->has_gaps() ? std::optional<at::Tensor>(keys.lengths) : std::nullopt;
    seed_masks(call, q.device());
    const AttentionScope scope(call);
    const auto [out, sums, random, unused, mask] = at::_flash_attention_forward(
        q, k, v, queries.starts, keys.starts, call.queries->longest(), call.keys->longest(), call.dropout(),
        call.options.causal, /*return_debug_mask=*/false, call.options.scale, window.before, window.after, used);
    ctx->save_for_backward({q, k, v, out, sums, random, unused});
    keep(ctx, call);
    return out.flatten(1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& call = kept<AttentionCall>(ctx);
    const LayoutTensors &queries = tensors_of(*call.queries, saved[0].device()),
                        &keys = tensors_of(*call.keys, saved[0].device());
    const Window window = window_of(call.options);
    const AttentionScope scope(call);
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        by_head(grads[0], call.width), saved[0], saved[1], saved[2], saved[3], saved[4], queries.starts, keys.starts,
        call.queries->longest(), call.keys->longest(), call.dropout(), call.options.causal, saved[5], saved[6],
        call.options.scale, window.before, window.after);
    return {dq.flatten(1), dk.flatten(1), dv.flatten(1), at::Tensor()};
  }
};

/// [samples * length, heads * width] as [samples, heads, length, width].
at::Tensor by_sample(const at::Tensor& x, const AttentionCall& call) {
  return by_head(x.contiguous(), call.width).unflatten(0, {call.queries->samples(), -1}).transpose(1, 2);
}
at::Tensor packed_again(const at::Tensor& x) {
  return x.transpose(1, 2).flatten(2).flatten(0, 1);
}

struct CudnnAttention : torch::autograd::Function<CudnnAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given_q, const at::Tensor& given_k,
                            const at::Tensor& given_v, const AttentionCall& call) {
    const at::Tensor q = by_sample(given_q, call), k = by_sample(given_k, call), v = by_sample(given_v, call);
    const AttentionScope scope(call);
    const auto found = at::_cudnn_attention_forward(
        q, k, v, std::nullopt, std::nullopt, std::nullopt, q.size(2), k.size(2), /*compute_log_sumexp=*/true,
        /*dropout_p=*/0, call.options.causal, /*return_debug_mask=*/false, call.options.scale);
    const at::Tensor& out = std::get<0>(found);
    ctx->save_for_backward({q, k, v, out, std::get<1>(found), std::get<6>(found), std::get<7>(found)});
    keep(ctx, call);
    return packed_again(out);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& call = kept<AttentionCall>(ctx);
    const AttentionScope scope(call);
    const auto [dq, dk, dv] =
        at::_cudnn_attention_backward(by_sample(grads[0], call), saved[0], saved[1], saved[2], saved[3], saved[4],
                                      saved[5], saved[6], at::Tensor(), at::Tensor(), at::Tensor(), saved[0].size(2),
                                      saved[1].size(2), /*dropout_p=*/0, call.options.causal, call.options.scale);
    return {packed_again(dq), packed_again(dk), packed_again(dv), at::Tensor()};
  }
};

/// A causal mask whose last query attends to the last key.
int64_t mask_of(const AttentionOptions& options) {
  return options.causal ? 2 : 0;
}

struct EfficientAttention : torch::autograd::Function<EfficientAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given_q, const at::Tensor& given_k,
                            const at::Tensor& given_v, const AttentionCall& call) {
    const at::Tensor q = by_head(given_q, call.width), k = by_head(given_k, call.width),
                     v = by_head(given_v, call.width);
    const AttentionScope scope(call);
    const auto found = at::_efficient_attention_forward(
        q.unsqueeze(0), for_each_head(k, call).unsqueeze(0), for_each_head(v, call).unsqueeze(0), std::nullopt,
        tensors_of(*call.queries, q.device()).starts, tensors_of(*call.keys, q.device()).starts,
        call.queries->longest(), call.keys->longest(), /*dropout_p=*/0, mask_of(call.options),
        /*compute_log_sumexp=*/true, call.options.scale);
    const at::Tensor& out = std::get<0>(found);
    ctx->save_for_backward({q, k, v, out, std::get<1>(found), std::get<2>(found), std::get<3>(found)});
    keep(ctx, call);
    return out.squeeze(0).flatten(1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& call = kept<AttentionCall>(ctx);
    const AttentionScope scope(call);
    const auto [dq, dk, dv, none] = at::_efficient_attention_backward(
        by_head(grads[0], call.width).unsqueeze(0), saved[0].unsqueeze(0), for_each_head(saved[1], call).unsqueeze(0),
        for_each_head(saved[2], call).unsqueeze(0), std::nullopt, saved[3],
        tensors_of(*call.queries, saved[0].device()).starts, tensors_of(*call.keys, saved[0].device()).starts,
        call.queries->longest(), call.keys->longest(), saved[4], /*dropout_p=*/0, saved[5], saved[6],
        mask_of(call.options), /*bias_requires_grad=*/false, call.options.scale);
    return {dq.squeeze(0).flatten(1), summed_over_groups(dk.squeeze(0), call).flatten(1),
            summed_over_groups(dv.squeeze(0), call).flatten(1), at::Tensor()};
  }
};

at::Tensor without_gaps(const at::Tensor& rows, const Layout& layout) {
  std::vector<at::Tensor> parts;
  for (const Span& span : layout.spans) parts.push_back(rows.narrow(0, span.begin, span.length));
  return at::cat(parts);
}

LayoutPtr without_gaps(const Layout& layout) {
  return layout.derived("without gaps", [&] {
    auto packed = std::make_shared<Layout>();
    for (int64_t s = 0; s < layout.samples(); ++s) packed->append(layout.spans[s].length, 0);
    return packed;
  });
}

}  // namespace

at::Tensor cudnn_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionCall& call) {
  return CudnnAttention::apply(q, k, v, call);
}

at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionCall& call) {
  return FlashAttention::apply(q, k, v, call);
}

at::Tensor efficient_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionCall& call) {
  return EfficientAttention::apply(q, k, v, call);
}

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                            const LayoutPtr& queries, const LayoutPtr& keys, const AttentionOptions& options) {
  using enum AttentionKind;
  AttentionCall call{queries, keys, options, q.size(1) / options.heads};
  if (options.window >= keys->longest()) call.options.window = 0;
  const AttentionKind kind = choose_attention(q, k, bias, *queries, *keys, call.options).kind;
  if (kind == kReference) return reference::packed_attention(q, k, v, bias, queries, keys, options);
  const bool has_backward =
      at::GradMode::is_enabled() &&
      (q.requires_grad() || k.requires_grad() || v.requires_grad() || (bias.defined() && bias.requires_grad()));
  const bool covered = !keys->has_gaps() && keys->tokens() == k.size(0);
  at::Tensor own_k = k.to(q.scalar_type()), own_v = v.to(q.scalar_type());
  if (!covered && (has_backward || kind == kEfficient)) {
    call.keys = without_gaps(*keys);
    own_k = without_gaps(own_k, *keys), own_v = without_gaps(own_v, *keys);
  }
  if (kind == kPadded) return padded_attention(q, own_k, own_v, bias, call);
  if (kind == kCudnn) return cudnn_attention(q, own_k, own_v, call);
  return kind == kFlash ? flash_attention(q, own_k, own_v, call) : efficient_attention(q, own_k, own_v, call);
}

}  // namespace trainer::nn::device
