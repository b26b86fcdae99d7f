// How the next token is chosen, against transformers (tests/golden/make_sampling.py).
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log.h>
#include <ATen/ops/tensor.h>

#include "engine/base/files.h"
#include "engine/evaluation/sampling.h"
#include "tests/support/source_dir.h"

namespace trainer::evaluation {
namespace {

std::vector<int64_t> values(const at::Tensor& tokens) {
  const auto* const first = tokens.const_data_ptr<int64_t>();
  return {first, first + tokens.numel()};
}

TEST(Sampling, FiltersLeaveTheTokensThatTransformersLeaves) {
  const auto cases = nlohmann::json::parse(read_file(source_dir() + "/tests/golden/sampling.json"));
  ASSERT_EQ(cases.size(), 120U);
  for (const auto& one : cases) {
    Sampling sampling{.temperature = one["temperature"], .top_k = one["top_k"], .top_p = one["top_p"]};
    sampling.min_p = one["min_p"];
    const auto logits = one["logits"].get<std::vector<float>>();
    auto found = candidates(logits.data(), static_cast<int64_t>(logits.size()), sampling);
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, one["kept"].get<std::vector<int64_t>>()) << one;
  }
}

TEST(Sampling, DrawsEachTokenAsOftenAsItIsLikely) {
  const at::Tensor row = at::log(at::tensor({0.5, 0.3, 0.2})).to(at::kFloat);
  constexpr int64_t kDraws = 20'000;
  std::vector<int64_t> positions(kDraws), counts(3);
  std::iota(positions.begin(), positions.end(), 0);
  for (const int64_t token : values(next_tokens(row.expand({kDraws, 3}), {.temperature = 1}, positions, std::vector<int64_t>(kDraws))))
    ++counts[static_cast<size_t>(token)];
  EXPECT_NEAR(static_cast<double>(counts[0]) / kDraws, 0.5, 0.02);
  EXPECT_NEAR(static_cast<double>(counts[1]) / kDraws, 0.3, 0.02);
}

TEST(Sampling, TheRepetitionPenaltyIsTransformers) {
  const at::Tensor logits = at::tensor({2.0F, 1.9F, -0.1F, 2.0F, 1.0F, -0.2F}).view({2, 3});
  Sampling sampling;
  EXPECT_EQ(values(next_tokens(logits, sampling, {0, 1}, {0, 0})), (std::vector<int64_t>{0, 0}));
  sampling.repetition_penalty = 1.5;  // 2 / 1.5 < 1.9; negative logits become more negative
  EXPECT_EQ(values(next_tokens(logits, sampling, {0, 1}, {0, 0}, {{0, 0}, {2}})), (std::vector<int64_t>{1, 0}));
  sampling.repetition_penalty = 4;
  EXPECT_EQ(values(next_tokens(logits, sampling, {0, 1}, {0, 0}, {{0, 1}, {0, 1, 2}})), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(logits[0][0].item<float>(), 2.0F) << "the caller's logits stay";
}

}  // namespace
}  // namespace trainer::evaluation
