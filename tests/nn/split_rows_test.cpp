#include "models/nn/split_rows.h"

#include <tuple>

#include <gtest/gtest.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

/// A rank of a group without communication.
class Place : public nn::TensorGroup {
 public:
  Place(int rank, int size) : rank_(rank), size_(size) {}
  void sum(const at::Tensor&) const override {}
  void max(const at::Tensor&) const override {}
  at::Tensor gather(const at::Tensor& mine) const override { return mine; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

 private:
  int rank_, size_;
};

struct Token {
  int64_t sample, index, of;
  bool operator==(const Token&) const = default;
};

std::vector<Token> tokens_of(const nn::Layout& rows) {
  std::vector<Token> tokens;
  for (int64_t s = 0; s < rows.samples(); ++s)
    for (int64_t i = 0; i < rows.spans[s].length; ++i)
      tokens.push_back({rows.sample_index[s], rows.start(s) + i, rows.length_of_sample(s)});
  return tokens;
}

/// Rows of one context-parallel rank: the first and the last tokens of two samples of 8 and 12 tokens.
nn::LayoutPtr rows_of_context_rank() {
  auto rows = std::make_shared<nn::Layout>();
  for (const auto& [length, index, slice] :
       {std::tuple{2, 7, nn::SampleSlice{0, 8}}, {3, 4, {0, 12}}, {2, 7, {6, 8}}, {3, 4, {9, 12}}}) {
    rows->append(length, index);
    rows->slices.push_back(slice);
  }
  return rows;
}

TEST(SliceOf, DividesWholeSamplesAndSlicesOfThem) {
  for (const nn::LayoutPtr& all : {layout_of({5, 1, 4}, {9, 2, 3}), rows_of_context_rank()})
    for (const int size : {1, 3, 4}) {
      std::vector<Token> tokens;
      for (int rank = 0; rank < size; ++rank) {
        const nn::LayoutPtr mine = nn::slice_of(all, std::make_shared<Place>(rank, size));
        const std::vector<Token> here = tokens_of(*mine);
        EXPECT_EQ(mine->shared->take(random_tensor({all->tokens(), 2}, 1)).size(0), std::ssize(here));
        tokens.insert(tokens.end(), here.begin(), here.end());
        EXPECT_EQ(&mine->in_region(), all.get());
      }
      EXPECT_EQ(tokens, tokens_of(*all));
      EXPECT_EQ(&all->in_region(), all.get());
    }
}

}  // namespace
}  // namespace trainer::testing
