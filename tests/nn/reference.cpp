#include "tests/nn/reference.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace trainer::testing {
namespace {

void expect_near(const at::Tensor& found, const at::Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  if (found.numel() == 0) return;
  const double difference = (found.to(at::kDouble) - expected).norm().item<double>();
  EXPECT_LE(difference, tolerance * expected.norm().item<double>() + 1e-12) << what;
}

}  // namespace

nn::LayoutPtr layout_of(const std::vector<int64_t>& lengths, std::vector<int64_t> positions) {
  auto layout = std::make_shared<nn::Layout>();
  for (size_t i = 0; i < lengths.size(); ++i)
    layout->append(lengths[i], positions.empty() ? static_cast<int64_t>(i) : positions[i]);
  return layout;
}

at::Tensor random_tensor(at::IntArrayRef shape, uint64_t seed, at::ScalarType dtype) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kFloat)).to(dtype);
}

uint32_t draw_of(nn::PhiloxKey key, int64_t position, int64_t token, int64_t head, int64_t i) {
  // Element i of a row: chunks of 128 numbers; within a chunk, word 0 of 16 counters, then word 1, …; the low half
  // first.
  const auto chunk = static_cast<uint32_t>(i / 128), word = static_cast<uint32_t>(i % 128 / 32),
             lane = static_cast<uint32_t>(i % 32 / 2);
  const uint32_t counter[4] = {static_cast<uint32_t>(position),
                               static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32),
                               static_cast<uint32_t>(token), (static_cast<uint32_t>(head) << 20) + 16 * chunk + lane};
  uint32_t words[4];
  nn::philox_words(key, counter, words);
  return i % 2 == 0 ? words[word] & 0xFFFF : words[word] >> 16;
}

at::Tensor mask_row(const nn::DropoutRule& rule, int64_t position, int64_t token, int64_t head, int64_t n) {
  at::Tensor mask = at::empty({n}, at::kDouble);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t draw = draw_of(rule.key, position, token, head, i);
    mask.data_ptr<double>()[i] = draw >= rule.threshold ? 65536.0 / (65536.0 - rule.threshold) : 0.0;
  }
  return mask;
}

at::Tensor mask_of(const nn::DropoutRule& rule, const nn::Layout& layout, int64_t width) {
  std::vector<at::Tensor> rows;
  for (size_t s = 0; s < layout.spans.size(); ++s)
    for (int64_t token = 0; token < layout.spans[s].length; ++token)
      rows.push_back(mask_row(rule, layout.sample_index[s], token, 0, width));
  return rows.empty() ? at::empty({0, width}, at::kDouble) : at::stack(rows);
}

void expect_same(const Operation& fused, const Operation& plain, const std::vector<at::Tensor>& inputs,
                 double tolerance, const std::string& what) {
  std::vector<at::Tensor> ours, exact;
  for (const at::Tensor& input : inputs) {
    ours.push_back(input.detach().clone().set_requires_grad(true));
    exact.push_back(input.detach().to(at::kDouble).set_requires_grad(true));
  }
  const at::Tensor out = fused(ours), expected = plain(exact);
  expect_near(out, expected, tolerance, what + ": output");
  const at::Tensor gradient = random_tensor(out.sizes(), 99).to(out.scalar_type());
  const auto found = torch::autograd::grad({out}, ours, {gradient});
  const auto wanted = torch::autograd::grad({expected}, exact, {gradient.to(at::kDouble)});
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), inputs[i].scalar_type()) << what << ": gradient " << i;
    expect_near(found[i], wanted[i], tolerance, what + ": gradient " + std::to_string(i));
  }
}

}  // namespace trainer::testing
