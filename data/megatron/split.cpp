#include "data/megatron/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr size_t kSplits = 3;

/// numpy's pairwise sum of doubles: up to 8 sequentially, up to 128 with eight accumulators, more in two halves.
/// Another order could differ in the last bit, which can decide between two corpora.
double numpy_sum(std::span<const double> values) {
  const size_t count = values.size();
  if (count < 8) {
    double sum = 0;
    for (double value : values) sum += value;
    return sum;
  }
  if (count > 128) {
    size_t half = count / 2;
    half -= half % 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  double row[8];
  for (size_t i = 0; i < 8; ++i) row[i] = values[i];
  size_t i = 8;
  for (; i + 8 <= count; i += 8) {
    for (size_t j = 0; j < 8; ++j) row[j] += values[i + j];
  }
  double sum = ((row[0] + row[1]) + (row[2] + row[3])) + ((row[4] + row[5]) + (row[6] + row[7]));
  for (; i < count; ++i) sum += values[i];
  return sum;
}

/// The numbers in a text with any separators: runs of digits and dots.
std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  constexpr const char* kDigits = ".0123456789";
  for (size_t begin = text.find_first_of(kDigits); begin != std::string::npos;) {
    size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    double number = 0;
    auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (error != std::errc() || stop != text.data() + end) {
      throw ConfigError("data.megatron.split: {} in \"{}\" is not a number.", text.substr(begin, end - begin), text);
    }
    numbers.push_back(number);
    begin = text.find_first_of(kDigits, end);
  }
  return numbers;
}

/// `part` of `count`, rounded half to even like Python.
int64_t rounded(double part, int64_t count) {
  return std::min(static_cast<int64_t>(std::nearbyint(part * static_cast<double>(count))), count);
}

}  // namespace

std::vector<double> normalized(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> result;
  for (double weight : weights) result.push_back(weight / sum);
  return result;
}

std::optional<SequenceRange> split_range(const std::string& proportions, Split split, int64_t sequences) {
  if (split == Split::kWhole) return SequenceRange{0, sequences};
  std::vector<double> numbers = numbers_in(proportions);
  if (numbers.size() > kSplits) {
    throw ConfigError("data.megatron.split: \"{}\" has {} numbers; there are three splits: training, validation, test.",
                      proportions, numbers.size());
  }
  numbers.resize(kSplits, 0.0);
  if (!(numpy_sum(numbers) > 0 && std::isfinite(numpy_sum(numbers)))) {
    throw ConfigError("data.megatron.split: \"{}\" has no proportion above 0; a typical value is \"969,30,1\".",
                      proportions);
  }
  double begin = 0, end = 0;
  std::vector<double> parts = normalized(numbers);
  for (size_t i = 0; i <= static_cast<size_t>(split); ++i) {
    begin = end;
    end += parts[i];
  }
  if (end <= begin) return std::nullopt;
  return SequenceRange{rounded(begin, sequences), rounded(end, sequences)};
}

}  // namespace trainer::data
