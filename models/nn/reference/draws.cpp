#include "models/nn/reference/draws.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "models/nn/reference/rows.h"

namespace trainer::nn::reference {
namespace {

constexpr int64_t kWord = 0xFFFFFFFF, kHalf = 0xFFFF;
constexpr int64_t kLanes = 16;

at::Tensor low(const at::Tensor& product) {
  return product & kWord;
}
at::Tensor high(const at::Tensor& product) {
  return at::bitwise_right_shift(product, 32) & kWord;  // masks the sign bits that the shift brings in
}

/// 32-bit words in int64 tensors that broadcast: first the counters, then the draws.
struct Words {
  at::Tensor a, b, c, d;
};

/// Philox4x32-10. Products wrap around at 64 bits, as they should.
Words drawn(PhiloxKey key, Words w) {
  for (int64_t round = 0; round < 10; ++round) {
    const int64_t k0 = (key.low + round * 0x9E3779B9) & kWord, k1 = (key.high + round * 0xBB67AE85) & kWord;
    const at::Tensor p0 = w.a * int64_t{0xD2511F53}, p1 = w.c * int64_t{0xCD9E8D57};
    w = {high(p1) ^ w.b ^ k0, low(p1), high(p0) ^ w.d ^ k1, low(p0)};
  }
  return w;
}

/// `of_draw` of the draws of elements [first, first + width) of the given tokens, [B, width].
template <class F>
at::Tensor of_elements(PhiloxKey key, const at::Tensor& position, const at::Tensor& token, const at::Tensor& head,
                       int64_t first, int64_t width, const F& of_draw) {
  const int64_t skipped = first % kPhiloxChunk, begin = first / kPhiloxChunk;
  const int64_t chunks = (skipped + width + kPhiloxChunk - 1) / kPhiloxChunk;
  const at::Tensor lanes = at::arange(begin * kLanes, (begin + chunks) * kLanes, position.options());
  const at::Tensor counter = ((head * (int64_t{1} << 20)).unsqueeze(-1) + lanes) & kWord;
  const Words words =
      drawn(key, {low(position).unsqueeze(-1), high(position).unsqueeze(-1), token.unsqueeze(-1), counter});
  const auto halves = [&](const at::Tensor& w) {  // [B, chunks, 2 * kLanes]
    return at::stack({of_draw(w & kHalf), of_draw(at::bitwise_right_shift(w, 16))}, -1)
        .flatten(-2)
        .unflatten(-1, {chunks, 2 * kLanes});
  };
  const at::Tensor all = at::stack({halves(words.a), halves(words.b), halves(words.c), halves(words.d)}, -2);
  return all.flatten(-3).narrow(-1, skipped, width);
}

}  // namespace

at::Tensor kept_elements(const DropoutRule& rule, const at::Tensor& position, const at::Tensor& token,
                         const at::Tensor& head, int64_t first, int64_t width) {
  return of_elements(rule.key, position, token, head, first, width,
                     [&](const at::Tensor& draw) { return draw.ge(static_cast<int64_t>(rule.threshold)); });
}

at::Tensor kept_mask(const DropoutRule& rule, const Layout& layout, int64_t width, at::Device device) {
  const RowNumbers rows = row_numbers(layout, device);
  return kept_elements(rule, rows.position, rows.token, at::zeros({1}, rows.token.options()), rule.first, width);
}

at::Tensor uniform(PhiloxKey key, const Layout& layout, int64_t width, at::Device device) {
  const RowNumbers rows = row_numbers(layout, device);
  return of_elements(key, rows.position, rows.token, at::zeros({1}, rows.token.options()), 0, width,
                     [](const at::Tensor& draw) { return (draw.to(at::kFloat) + 0.5) / 32768 - 1; });
}

at::Tensor masked(const at::Tensor& x, const at::Tensor& kept, double scale) {
  return x.to(at::kFloat).masked_fill(kept.eq(0), 0) * scale;
}

}  // namespace trainer::nn::reference
