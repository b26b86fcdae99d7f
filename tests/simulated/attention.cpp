// libtorch's fused attention, by its contract: what aten::_flash_attention_* and aten::_efficient_attention_* of torch
// 2.11 accept on CUDA, what they return, and the memory that they need on the way; computed in fp64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GeneratorImpl.h>
#include <torch/library.h>

#include "engine/base/round_up.h"
#include "tests/simulated/device.h"
#include "tests/simulated/graphs.h"

namespace trainer::simulated {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using MaybeInt = std::optional<int64_t>;

/// A seed and an offset, as CUDA's generator.
struct DeviceGenerator : c10::GeneratorImpl {
  explicit DeviceGenerator(c10::Device device)
      : GeneratorImpl(device, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}
  void set_current_seed(uint64_t seed) override {
    refuse_while_recording("a new seed of the generator");
    seed_ = seed, offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override { return seed_; }
  void set_state(const c10::TensorImpl&) override {
    TORCH_CHECK(false, "the simulated device's generator has no state");
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    TORCH_CHECK(false, "the simulated device's generator has no state");
  }
  GeneratorImpl* clone_impl() const override { return new DeviceGenerator(device()); }

 private:
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

struct Draws {
  uint64_t seed = 0, offset = 0;
};

/// Takes `count` numbers of the generator, which moves on.
Draws take_draws(uint64_t count) {
  refuse_while_recording("draws of the generator, which the simulated device doesn't record");
  at::Generator generator = default_generator(current_device().index());
  const std::lock_guard lock(generator.mutex());
  auto* const impl = generator.unsafeGetGeneratorImpl();
  const Draws draws{impl->current_seed(), impl->get_offset()};
  impl->set_offset(draws.offset + (count + 3) / 4 * 4);
  return draws;
}

/// Whether each probability of [heads, queries, keys] is kept, over 1 - p; the draws are those of sequence `sample`.
Tensor kept(const Draws& draws, double p, int64_t sample, int64_t heads, int64_t queries, int64_t keys) {
  Tensor all = at::empty({heads, queries, keys}, at::kDouble);
  auto* const out = all.data_ptr<double>();
  for (int64_t i = 0; i < all.numel(); ++i) {
    uint64_t z = (draws.seed ^ (draws.offset * 0x9E3779B97F4A7C15ULL)) +
                 (static_cast<uint64_t>(sample) << 40 | static_cast<uint64_t>(i)) * 0xD1342543DE82EF95ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    out[i] = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53 >= p ? 1 / (1 - p) : 0;
  }
  return all;
}

/// The attention of one sequence: q [Q, H, d], k and v [K, Hk, d], all on the host.
struct Sequence {
  Tensor q, k, v;
  Tensor bias;    // [H, Q, K], or undefined
  Tensor hidden;  // bool [Q, K], or undefined
  Tensor keep;    // [H, Q, K], or undefined
  double scale;

  static Tensor heads_first(const Tensor& x, int64_t repeated) {
    return x.to(at::kDouble).transpose(0, 1).repeat_interleave(repeated, 0);
  }
  int64_t group() const { return q.size(1) / k.size(1); }

  Tensor scores() const {
    Tensor s = at::matmul(heads_first(q, 1), heads_first(k, group()).transpose(1, 2)) * scale;
    if (bias.defined()) s = s + bias.to(at::kDouble);
    if (hidden.defined()) s = s.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    return s;
  }
  /// Probabilities from the logarithms of their sums [H, Q]: 0 in a row that sees nothing.
  Tensor probabilities(const Tensor& sums) const {
    return (scores() - sums.to(at::kDouble).unsqueeze(2)).exp().nan_to_num(0, 0, 0);
  }
  /// Writes the result [Q, H, d] and the logarithms [H, Q].
  void forward(const Tensor& out, const Tensor& sums) const {
    const Tensor log = scores().logsumexp(2);
    sums.copy_(log.masked_fill(log.isinf(), std::numeric_limits<float>::infinity()));
    Tensor p = probabilities(log);
    if (keep.defined()) p = p * keep;
    out.copy_(at::matmul(p, heads_first(v, group())).transpose(0, 1));
  }
  /// Writes the gradients; dk and dv [K, Hk, d].
  void backward(const Tensor& grad, const Tensor& out, const Tensor& sums, const Tensor& dq, const Tensor& dk,
                const Tensor& dv, const Tensor& dbias) const {
    const Tensor p = probabilities(sums), g = heads_first(grad, 1);
    const Tensor used = keep.defined() ? p * keep : p;
    Tensor dp = at::matmul(g, heads_first(v, group()).transpose(1, 2));
    if (keep.defined()) dp = dp * keep;
    const Tensor ds = p * (dp - (g * heads_first(out, 1)).sum(2, true));
    const auto summed = [&](const Tensor& each) {  // [H, K, d] to [K, Hk, d]
      return each.unflatten(0, {k.size(1), group()}).sum(1).transpose(0, 1);
    };
    dq.copy_(at::matmul(ds, heads_first(k, group())).transpose(0, 1) * scale);
    dk.copy_(summed(at::matmul(ds.transpose(1, 2), heads_first(q, 1)) * scale));
    dv.copy_(summed(at::matmul(used.transpose(1, 2), g)));
    if (dbias.defined()) dbias.copy_(ds);
  }
};

/// Keys that are hidden from query i, which stands at i + K - Q: after `after` more keys, and before `before` ones;
/// below 0: no limit. Undefined if none are.
Tensor hidden_keys(int64_t queries, int64_t keys, int64_t before, int64_t after) {
  if (before < 0 && after < 0) return {};
  const Tensor position = at::arange(keys - queries, keys).unsqueeze(1), key = at::arange(keys).unsqueeze(0);
  Tensor hidden = at::zeros({queries, keys}, at::kBool);
  if (after >= 0) hidden = hidden | key.gt(position + after);
  if (before >= 0) hidden = hidden | key.lt(position - before);
  return hidden;
}

void check_cumulative(const Tensor& starts, int64_t total) {
  TORCH_CHECK(starts.scalar_type() == at::kInt, "cu_seqlens must have dtype int32");
  TORCH_CHECK(starts.is_privateuseone() && starts.is_contiguous() && starts.dim() == 1,
              "cu_seqlens must be contiguous");
  const Tensor values = on_cpu(starts);
  const auto* const at = values.const_data_ptr<int32_t>();
  TORCH_CHECK(at[0] >= 0 && std::is_sorted(at, at + values.numel()) && at[values.numel() - 1] <= total,
              "a kernel reads rows that aren't there");
}

// Note [Flash attention's contract]
// Variable lengths: q [total_q, H, d], k and v [total_k, Hk, d], in fp16 or bf16, the same in all; d a multiple of 8,
// at most 256; the elements of a head contiguous; H a multiple of Hk. int32 cumulative lengths on the device. Windows
// reach from a query's place among the keys, the last query at the last key; a causal mask is a window without later
// keys, and is ignored if no sample has more than one query. In that case, with grouped heads and without window and
// dropout, heads become queries, so each sample must have one. No bias, and no soft cap through this interface. The
// result's logarithms are fp32 [H, total_q]. The seed and offset are uint64 [2] on the device. seqused_k, if given, is
// the number of each sample's keys from its start; backward has no such argument.
struct Flash {
  Tensor q, k, v, starts_q, starts_k;
  int64_t most_q, most_k, before, after;
  double p, scale;

  Flash(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& from_q, const Tensor& from_k,
        int64_t max_q, int64_t max_k, double dropout, bool causal, std::optional<double> factor, MaybeInt left,
        MaybeInt right)
      : q(query),
        k(key),
        v(value),
        starts_q(from_q),
        starts_k(from_k),
        most_q(max_q),
        most_k(max_k),
        before(left.value_or(-1)),
        after(right.value_or(-1)),
        p(dropout),
        scale(factor.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))))) {
    TORCH_CHECK(q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16,
                "FlashAttention only support fp16 and bf16 data type");
    TORCH_CHECK(k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(),
                "query, key and value must have the same dtype");
    for (const Tensor& x : {q, k, v}) {
      TORCH_CHECK(x.is_privateuseone() && x.dim() == 3, "expected [total, heads, head_size] on the device");
      TORCH_CHECK(x.stride(-1) == 1, "Input tensor must have contiguous last dimension");
      TORCH_CHECK(x.size(2) == q.size(2), "expected the same head size");
    }
    TORCH_CHECK(q.size(2) % 8 == 0 && q.size(2) <= 256, "head_size ", q.size(2), " isn't a multiple of 8 up to 256");
    TORCH_CHECK(k.sizes() == v.sizes() && q.size(1) % k.size(1) == 0,
                "Number of heads in key/value must divide number of heads in query");
    TORCH_CHECK(starts_q.numel() == starts_k.numel() && starts_q.numel() > 1, "batch size must be positive");
    check_cumulative(starts_q, q.size(0));
    check_cumulative(starts_k, k.size(0));
    if (most_q == 1) causal = false;
    if (causal) after = 0;
    if (before >= most_k) before = -1;
    if (after >= most_k) after = -1;
    if (most_q == 1 && q.size(1) > k.size(1) && before < 0 && after < 0 && p == 0)
      TORCH_CHECK(q.size(0) == samples(), "shape '[", samples(), ", ...]' is invalid for the query");
    if (before < 0 && after >= 0) before = most_k;
    if (before >= 0 && after < 0) after = most_k;
  }

  int64_t samples() const { return starts_q.numel() - 1; }

  /// f(sequence, [begin, end) of its queries, of its keys).
  template <class F>
  void for_each(const Draws& draws, const MaybeTensor& used, const F& f) const {
    const auto* const at_q = on_cpu(starts_q).const_data_ptr<int32_t>();
    const auto* const at_k = on_cpu(starts_k).const_data_ptr<int32_t>();
    for (int64_t s = 0; s < samples(); ++s) {
      const int64_t queries = at_q[s + 1] - at_q[s];
      const int64_t keys = used ? on_cpu(*used).const_data_ptr<int32_t>()[s] : at_k[s + 1] - at_k[s];
      TORCH_CHECK(queries <= most_q && keys <= most_k, "a sample is longer than the maximum that was given");
      if (queries == 0 && keys == 0) continue;
      Sequence one{on_cpu(q).narrow(0, at_q[s], queries),
                   on_cpu(k).narrow(0, at_k[s], keys),
                   on_cpu(v).narrow(0, at_k[s], keys),
                   {},
                   hidden_keys(queries, keys, before, after),
                   {},
                   scale};
      if (p > 0) one.keep = kept(draws, p, s, q.size(1), queries, keys);
      f(one, at_q[s], queries, at_k[s], keys);
    }
  }
};

MaybeTensor maybe_alias_of(const MaybeTensor& tensor) {
  return tensor && tensor->defined() ? MaybeTensor(alias_of(*tensor)) : std::nullopt;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& starts_q, const MaybeTensor& starts_k,
    int64_t max_q, int64_t max_k, double p, bool causal, bool return_debug_mask, std::optional<double> scale,
    MaybeInt left, MaybeInt right, const MaybeTensor& used, const MaybeTensor& alibi) {
  TORCH_CHECK(starts_q && starts_k && !return_debug_mask && !alibi, "the simulated device has only variable lengths");
  const Flash flash(alias_of(q), alias_of(k), alias_of(v), alias_of(*starts_q), alias_of(*starts_k), max_q, max_k, p,
                    causal, scale, left, right);
  if (used)
    TORCH_CHECK(used->scalar_type() == at::kInt && used->is_privateuseone() && used->numel() == flash.samples(),
                "seqused_k must be int32 [batch] on the device");
  const Draws draws = p > 0 ? take_draws(static_cast<uint64_t>(flash.samples() * q.size(1) * 32)) : Draws{};
  const Tensor out = at::empty_like(q), sums = at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat));
  const Tensor random = at::empty({2}, q.options().dtype(at::kUInt64)), unused = at::empty({}, random.options());
  launch("aten::_flash_attention_forward", {q, k, v, *starts_q, *starts_k}, {out, sums, random},
         [flash, draws, used = maybe_alias_of(used), out = on_cpu(out), sums = on_cpu(sums), random = on_cpu(random)] {
           auto* const words = random.mutable_data_ptr<uint64_t>();
           words[0] = draws.seed, words[1] = draws.offset;
           flash.for_each(draws, used, [&](const Sequence& one, int64_t at_q, int64_t queries, int64_t, int64_t) {
             one.forward(out.narrow(0, at_q, queries), sums.narrow(1, at_q, queries));
           });
         });
  return {out, sums, random, unused, at::empty({0}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor& given, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& out, const Tensor& sums,
                                                  const Tensor& starts_q, const Tensor& starts_k, int64_t max_q,
                                                  int64_t max_k, double p, bool causal, const Tensor& random,
                                                  const Tensor&, std::optional<double> scale, MaybeInt left,
                                                  MaybeInt right) {
  const Tensor grad = given.contiguous();
  const Flash flash(alias_of(q), alias_of(k), alias_of(v), alias_of(starts_q), alias_of(starts_k), max_q, max_k, p,
                    causal, scale, left, right);
  TORCH_CHECK(grad.scalar_type() == q.scalar_type() && out.scalar_type() == q.scalar_type(),
              "query, out and dout must have the same dtype");
  TORCH_CHECK(grad.sizes() == q.sizes() && out.sizes() == q.sizes(), "out and dout must have query's shape");
  TORCH_CHECK(sums.scalar_type() == at::kFloat && sums.sizes() == at::IntArrayRef({q.size(1), q.size(0)}),
              "softmax_lse must be fp32 [heads, total_q]");
  const Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  // Its own memory: sums in fp32, and with grouped heads the gradients for each query head.
  const int64_t width = q.size(2), rows = q.size(0) + 128 * flash.samples();
  const auto in_fp32 = q.options().dtype(at::kFloat);
  const Tensor softmax_d = at::empty({q.size(1), rows}, in_fp32),
               accumulated = at::empty({rows, q.size(1), round_up(width, width <= 128 ? 32 : 64)}, in_fp32);
  const bool grouped = q.size(1) != k.size(1);
  const Tensor expanded = at::empty({grouped ? 2 * k.size(0) : 0, q.size(1), width}, q.options());
  launch("aten::_flash_attention_backward", {grad, q, k, v, out, sums, starts_q, starts_k, random}, {dq, dk, dv},
         [flash, grad = on_cpu(grad), out = on_cpu(out), sums = on_cpu(sums), random = on_cpu(random), dq = on_cpu(dq),
          dk = on_cpu(dk), dv = on_cpu(dv)] {
           const auto* const words = random.const_data_ptr<uint64_t>();
           flash.for_each({words[0], words[1]}, {},
                          [&](const Sequence& one, int64_t at_q, int64_t queries, int64_t at_k, int64_t keys) {
                            const auto q_rows = [&](const Tensor& x) { return x.narrow(0, at_q, queries); };
                            const auto k_rows = [&](const Tensor& x) { return x.narrow(0, at_k, keys); };
                            one.backward(q_rows(grad), q_rows(out), sums.narrow(1, at_q, queries), q_rows(dq),
                                         k_rows(dk), k_rows(dv), {});
                          });
         });
  return {dq, dk, dv};
}

// Note [Memory-efficient attention's contract]
// q [B, Q, H, d], k and v [B, K, H, d] in fp32, fp16 or bf16; as many heads of keys as of queries; the elements of a
// head contiguous, and heads a multiple of 16 bytes apart (other distances select slower kernels, or none). Either B =
// 1 and int32 cumulative lengths on the device, without a bias, or a bias [B, H, Q, K] of q's dtype whose rows are
// contiguous and, for its loads, a multiple of 16 elements apart. Masks: none, causal from the first, or from the last
// query. Dropout with variable lengths is accepted by CUDA's, but forward numbers its draws with 0 keys and backward
// with the maximum, so the gradients are of other masks: refused here. The logarithms are fp32 [samples, H, Q rounded
// up to 32]; seed and offset are int64 on the host.
struct Efficient {
  Tensor q, k, v, bias, starts_q, starts_k;
  int64_t most_q, most_k, mask;
  double p, scale;

  Efficient(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& given,
            const MaybeTensor& from_q, const MaybeTensor& from_k, MaybeInt max_q, MaybeInt max_k, double dropout,
            int64_t custom_mask, std::optional<double> factor)
      : q(query),
        k(key),
        v(value),
        bias(given.value_or(Tensor())),
        starts_q(from_q.value_or(Tensor())),
        starts_k(from_k.value_or(Tensor())),
        most_q(query.size(1)),
        most_k(key.size(1)),
        mask(custom_mask),
        p(dropout),
        scale(factor.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))))) {
    const auto dtype = q.scalar_type();
    TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, "no kernel for ", dtype);
    for (const Tensor& x : {q, k, v}) {
      TORCH_CHECK(x.is_privateuseone() && x.dim() == 4 && x.scalar_type() == dtype, "expected [B, M, H, K]");
      TORCH_CHECK(x.stride(-1) == 1, "must have contiguous last dimension");
      TORCH_CHECK(x.size(0) == q.size(0) && x.size(2) == q.size(2) && x.size(3) == q.size(3), "shapes differ");
      TORCH_CHECK(x.stride(2) > 0 && x.stride(2) * x.element_size() % 16 == 0, "no fast kernel for heads ", x.stride(2),
                  " elements apart");
    }
    TORCH_CHECK(k.size(1) == v.size(1), "keys and values differ in number");
    TORCH_CHECK(mask >= 0 && mask <= 2, "invalid custom_mask_type ", mask);
    TORCH_CHECK(starts_q.defined() == starts_k.defined(), "cumulative lengths of queries and keys go together");
    if (starts_q.defined()) {
      TORCH_CHECK(!bias.defined(), "cu seqlen + bias not supported");
      TORCH_CHECK(p == 0, "with variable lengths, backward's masks would not be forward's");
      TORCH_CHECK(q.size(0) == 1, "cu_seqlen only supports batch_size=1");
      TORCH_CHECK(max_q && max_k && *max_q > 0 && *max_k > 0, "max_seqlen required with `cu_seqlens`");
      TORCH_CHECK(*max_q <= q.size(1) && *max_k <= k.size(1), "Invalid max_seqlen");
      check_cumulative(starts_q, q.size(1));
      check_cumulative(starts_k, k.size(1));
      most_q = *max_q, most_k = *max_k;
    }
    if (!bias.defined()) return;
    TORCH_CHECK(bias.scalar_type() == dtype, "invalid dtype for bias - should match query's dtype");
    TORCH_CHECK(bias.sizes() == at::IntArrayRef({q.size(0), q.size(2), q.size(1), k.size(1)}),
                "attn_bias: wrong shape");
    TORCH_CHECK(bias.stride(3) == 1 && bias.stride(2) % 16 == 0, "attn_bias: wrong alignment");
  }

  int64_t samples() const { return starts_q.defined() ? starts_q.numel() - 1 : q.size(0); }
  int64_t rows_of_sums() const { return round_up(most_q, 32); }

  /// f(sequence, its index, how to take its rows of a tensor like q, and of one like k).
  template <class F>
  void for_each(const Draws& draws, const F& f) const {
    for (int64_t s = 0; s < samples(); ++s) {
      const auto rows = [s](const Tensor& starts, const Tensor& x) {
        if (!starts.defined()) return on_cpu(x).select(0, s);
        const auto* const at = on_cpu(starts).const_data_ptr<int32_t>();
        return on_cpu(x).select(0, 0).narrow(0, at[s], at[s + 1] - at[s]);
      };
      const auto of_queries = [&](const Tensor& x) { return rows(starts_q, x); };
      const auto of_keys = [&](const Tensor& x) { return rows(starts_k, x); };
      Sequence one{of_queries(q), of_keys(k), of_keys(v), {}, {}, {}, scale};
      const int64_t queries = one.q.size(0), keys = one.k.size(0);
      TORCH_CHECK(queries <= most_q && keys <= most_k, "a sample is longer than the maximum that was given");
      if (queries == 0 && keys == 0) continue;
      if (mask == 1) one.hidden = at::arange(keys).unsqueeze(0).gt(at::arange(queries).unsqueeze(1));
      if (mask == 2) one.hidden = hidden_keys(queries, keys, -1, 0);
      if (bias.defined()) one.bias = on_cpu(bias).select(0, s);
      if (p > 0) one.keep = kept(draws, p, s, q.size(2), queries, keys);
      f(one, s, of_queries, of_keys);
    }
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias, const MaybeTensor& starts_q,
    const MaybeTensor& starts_k, MaybeInt max_q, MaybeInt max_k, double p, int64_t mask, bool compute_sums,
    std::optional<double> scale, const MaybeTensor& used, MaybeInt window) {
  TORCH_CHECK(compute_sums && !used && !window, "the simulated device has no seqlen_k and no window_size");
  const Efficient efficient(alias_of(q), alias_of(k), alias_of(v), maybe_alias_of(bias), maybe_alias_of(starts_q),
                            maybe_alias_of(starts_k), max_q, max_k, p, mask, scale);
  const Draws draws =
      p > 0 ? take_draws(static_cast<uint64_t>(q.size(0) * q.size(2) * q.size(1) * k.size(1))) : Draws{};
  const Tensor out = at::empty(q.sizes(), q.options());
  const Tensor sums =
      at::empty({efficient.samples(), q.size(2), efficient.rows_of_sums()}, q.options().dtype(at::kFloat));
  launch("aten::_efficient_attention_forward", {q, k, v, efficient.bias, efficient.starts_q, efficient.starts_k},
         {out, sums}, [efficient, draws, out = on_cpu(out), sums = on_cpu(sums)] {
           efficient.for_each(draws, [&](const Sequence& one, int64_t s, const auto& of_queries, const auto&) {
             one.forward(of_queries(out), sums.select(0, s).narrow(1, 0, one.q.size(0)));
           });
         });
  const auto word = [](uint64_t value) { return at::scalar_tensor(static_cast<int64_t>(value), at::kLong); };
  return {out, sums, word(draws.seed), word(draws.offset), efficient.most_q, efficient.most_k};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& given, const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias, const Tensor& out,
    const MaybeTensor& starts_q, const MaybeTensor& starts_k, int64_t max_q, int64_t max_k, const Tensor& sums,
    double p, const Tensor& seed, const Tensor& offset, int64_t mask, bool learns_bias, std::optional<double> scale,
    MaybeInt, MaybeInt window, bool shared_storage) {
  TORCH_CHECK(!window && !shared_storage, "the simulated device has no window_size");
  const Tensor grad = given.contiguous();
  const Efficient efficient(alias_of(q), alias_of(k), alias_of(v), maybe_alias_of(bias), maybe_alias_of(starts_q),
                            maybe_alias_of(starts_k), max_q, max_k, p, mask, scale);
  TORCH_CHECK(grad.sizes() == q.sizes() && grad.scalar_type() == q.scalar_type(), "grad_out must be like query");
  TORCH_CHECK(out.sizes() == q.sizes(), "out must have query's shape");
  TORCH_CHECK(sums.scalar_type() == at::kFloat &&
                  sums.sizes() == at::IntArrayRef({efficient.samples(), q.size(2), efficient.rows_of_sums()}),
              "logsumexp has the wrong shape");
  TORCH_CHECK(seed.is_cpu() && offset.is_cpu(), "seed and offset are on the host");
  const Tensor dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
               dv = at::empty(v.sizes(), v.options());
  Tensor dbias;
  if (learns_bias)
    dbias = at::empty({q.size(0), q.size(2), q.size(1), round_up(k.size(1), 16)}, q.options()).narrow(3, 0, k.size(1));
  const Tensor delta = at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat));
  const Draws draws{static_cast<uint64_t>(*seed.const_data_ptr<int64_t>()),
                    static_cast<uint64_t>(*offset.const_data_ptr<int64_t>())};
  launch("aten::_efficient_attention_backward",
         {grad, q, k, v, efficient.bias, out, sums, efficient.starts_q, efficient.starts_k}, {dq, dk, dv, dbias},
         [efficient, draws, grad = on_cpu(grad), out = on_cpu(out), sums = on_cpu(sums), dq = on_cpu(dq),
          dk = on_cpu(dk), dv = on_cpu(dv), dbias = dbias.defined() ? on_cpu(dbias) : dbias] {
           efficient.for_each(draws, [&](const Sequence& one, int64_t s, const auto& of_queries, const auto& of_keys) {
             one.backward(of_queries(grad), of_queries(out), sums.select(0, s).narrow(1, 0, one.q.size(0)),
                          of_queries(dq), of_keys(dk), of_keys(dv), dbias.defined() ? dbias.select(0, s) : Tensor());
           });
         });
  return {dq, dk, dv, dbias};
}

// Note [cuDNN attention's contract]
// q [B, H, Q, d], k and v [B, Hk, K, d] in fp16 or bf16, d a multiple of 8 up to 128 (for these, both passes have
// kernels), the elements of a head contiguous; H a multiple of Hk. The result has q's strides, and the gradients those
// of their inputs. The logarithms are fp32 [B, H, Q, 1]. Here without cumulative lengths, bias and dropout.
struct Cudnn {
  Tensor q, k, v;
  bool causal;
  double scale;

  Cudnn(const Tensor& query, const Tensor& key, const Tensor& value, double p, bool is_causal,
        std::optional<double> factor)
      : q(query),
        k(key),
        v(value),
        causal(is_causal),
        scale(factor.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))))) {
    TORCH_CHECK(p == 0, "the simulated device has no dropout in cuDNN attention");
    TORCH_CHECK(q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16, "no plan for ", q.scalar_type());
    for (const Tensor& x : {q, k, v}) {
      TORCH_CHECK(x.is_privateuseone() && x.dim() == 4 && x.scalar_type() == q.scalar_type(), "expected [B, H, S, d]");
      TORCH_CHECK(x.stride(-1) == 1, "the elements of a head must be contiguous");
      TORCH_CHECK(x.size(0) == q.size(0) && x.size(3) == q.size(3), "shapes differ");
    }
    TORCH_CHECK(q.size(3) % 8 == 0 && q.size(3) <= 128, "no plan for heads of ", q.size(3), " elements");
    TORCH_CHECK(k.sizes() == v.sizes() && q.size(1) % k.size(1) == 0, "shapes differ");
  }

  /// f(sequence, how to take its rows [S, H, d] of a tensor [B, H, S, d] of the host, its index).
  template <class F>
  void for_each(const F& f) const {
    for (int64_t b = 0; b < q.size(0); ++b) {
      const auto rows = [b](const Tensor& x) { return x.select(0, b).transpose(0, 1); };
      const Sequence one{rows(on_cpu(q)),
                         rows(on_cpu(k)),
                         rows(on_cpu(v)),
                         {},
                         causal ? hidden_keys(q.size(2), k.size(2), -1, 0) : Tensor(),
                         {},
                         scale};
      f(one, rows, b);
    }
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> cudnn_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias, const MaybeTensor& starts_q,
    const MaybeTensor& starts_k, c10::SymInt max_q, c10::SymInt max_k, bool compute_sums, double p, bool causal,
    bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK(!bias && !starts_q && !starts_k && compute_sums && !return_debug_mask,
              "the simulated device has only this");
  const Cudnn cudnn(alias_of(q), alias_of(k), alias_of(v), p, causal, scale);
  const Tensor out = at::empty_like(q),
               sums = at::empty({q.size(0), q.size(1), q.size(2), 1}, q.options().dtype(at::kFloat));
  launch("aten::_cudnn_attention_forward", {q, k, v}, {out, sums}, [cudnn, out = on_cpu(out), sums = on_cpu(sums)] {
    cudnn.for_each([&](const Sequence& one, const auto& rows, int64_t b) {
      one.forward(rows(out), sums.select(0, b).squeeze(-1));
    });
  });
  const auto number = [&] { return at::empty({}, q.options().dtype(at::kLong)); };
  return {out, sums, Tensor(), Tensor(), max_q, max_k, number(), number(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_backward(const Tensor& given, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& out, const Tensor& sums, const Tensor&,
                                                  const Tensor&, const Tensor& bias, const Tensor& starts_q,
                                                  const Tensor& starts_k, c10::SymInt, c10::SymInt, double p,
                                                  bool causal, std::optional<double> scale) {
  TORCH_CHECK(!bias.defined() && !starts_q.defined() && !starts_k.defined(), "the simulated device has only this");
  const Cudnn cudnn(alias_of(q), alias_of(k), alias_of(v), p, causal, scale);
  TORCH_CHECK(given.sizes() == q.sizes() && out.sizes() == q.sizes() && given.scalar_type() == q.scalar_type(),
              "the result and its gradient must be like the queries");
  const Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  launch("aten::_cudnn_attention_backward", {given, q, k, v, out, sums}, {dq, dk, dv},
         [cudnn, grad = on_cpu(given), out = on_cpu(out), sums = on_cpu(sums), dq = on_cpu(dq), dk = on_cpu(dk),
          dv = on_cpu(dv)] {
           cudnn.for_each([&](const Sequence& one, const auto& rows, int64_t b) {
             one.backward(rows(grad), rows(out), sums.select(0, b).squeeze(-1), rows(dq), rows(dk), rows(dv), {});
           });
         });
  return {dq, dk, dv};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_cudnn_attention_forward", &cudnn_forward);
  m.impl("_cudnn_attention_backward", &cudnn_backward);
  m.impl("_flash_attention_forward", &flash_forward);
  m.impl("_flash_attention_backward", &flash_backward);
  m.impl("_efficient_attention_forward", &efficient_forward);
  m.impl("_efficient_attention_backward", &efficient_backward);
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  static std::mutex mutex;
  static auto* const all = new std::map<c10::DeviceIndex, at::Generator>;  // never destroyed, as the timeline
  const std::lock_guard lock(mutex);
  auto found = all->find(index);
  if (found == all->end())
    found = all->emplace(index, at::make_generator<DeviceGenerator>(c10::Device(kType, index))).first;
  return found->second;
}

}  // namespace trainer::simulated
