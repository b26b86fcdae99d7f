// Tokenised samples in memory, and how they come from the files that the configuration names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// One sample: views into its Dataset.
struct Sample {
  std::span<const int32_t> source;  // ends with </s>
  std::span<const int32_t> target;  // ends with </s>
  int64_t record = 0;               // which record of the files it is, counted from 0 over all of them
};

/// Samples one after the other in one array.
class Dataset {
 public:
  int64_t size() const { return static_cast<int64_t>(records_.size()); }
  bool empty() const { return records_.empty(); }

  /// Sample `index`, 0 <= index < size.
  Sample sample(int64_t index) const;

  /// The sample's text before tokenisation; "" unless texts were kept (validation samples).
  const std::string& source_text(int64_t index) const { return text(source_texts_, index); }
  const std::string& target_text(int64_t index) const { return text(target_texts_, index); }

  /// All tokens of sources and targets together.
  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t longest_source() const { return longest_source_; }
  int64_t longest_target() const { return longest_target_; }
  /// Samples of which something was cut off at the maximum length.
  int64_t truncated() const { return truncated_; }

  void add(std::span<const int32_t> source, std::span<const int32_t> target, int64_t record, bool truncated = false);
  /// Keeps the texts of the sample added last.
  void keep_texts(std::string source, std::string target);

 private:
  const std::string& text(const std::vector<std::string>& texts, int64_t index) const;

  std::vector<int32_t> tokens_;                           // source, target, source, target, …
  std::vector<int64_t> ends_;                             // [2 * size]: where each of them ends in tokens_
  std::vector<int64_t> records_;                          // [size]
  std::vector<std::string> source_texts_, target_texts_;  // [size], or empty
  int64_t longest_source_ = 0, longest_target_ = 0, truncated_ = 0;
};

/// What a run learns from and what it is measured on.
struct Datasets {
  Dataset train;
  Dataset validation;  // empty without `data.validation`; keeps its texts
};

/// The most frequent target text, and its share of all samples: what always giving that answer would score.
struct MajorityClass {
  std::string label;
  double share = 0.0;
};

/// Reads, splits, renders and tokenises all samples. Source and target both end with </s>; what is too long loses
/// tokens before it. Which records are for validation is a pure function of `seed` and their index. Errors: InputError
/// with file and line for data that cannot be used, or when nothing is left to train on.
Datasets load_datasets(const config::DataConfig& config, const Tokenizer& tokenizer, int64_t seed);

/// `fraction` of `records` records, rounded to the nearest whole number.
int64_t validation_count(int64_t records, double fraction);

/// True for exactly validation_count of the indices [0, records).
bool is_validation(int64_t seed, int64_t record, int64_t records, double fraction);

/// Errors: InternalError when the texts of `dataset` were not kept.
MajorityClass majority_class(const Dataset& dataset);

}  // namespace trainer::data
