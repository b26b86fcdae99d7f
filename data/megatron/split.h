// Splits a corpus into training, validation and test sequences by Megatron's rule.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

/// kWhole: the whole corpus is one split.
enum class Split { kTrain, kValidation, kTest, kWhole };

/// Sequences [begin, end) of a corpus.
struct SequenceRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const SequenceRange&) const = default;
};

/// Each weight divided by the sum, rounded as numpy does.
std::vector<double> normalized(std::span<const double> weights);

/// The sequences of one split for proportions such as "969,30,1"; nothing when its proportion is 0.
/// Errors: ConfigError when `proportions` aren't one to three numbers with a sum above 0.
std::optional<SequenceRange> split_range(const std::string& proportions, Split split, int64_t sequences);

}  // namespace trainer::data
