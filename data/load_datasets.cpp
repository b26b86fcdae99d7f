#include <algorithm>
#include <cmath>

#include "data/dataset.h"
#include "data/order.h"
#include "data/readers/readers.h"
#include "data/template.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr uint64_t kSplitPurpose = 2;

/// A rendered record.
struct TextPair {
  std::string source, target;
};

std::vector<TextPair> read_pairs(const config::DataConfig& config, const config::DataSource& source) {
  Template source_template(config.source, "data.source"), target_template(config.target, "data.target");
  std::vector<TextPair> pairs;
  read_records(source, [&](Record&& record) {
    TextPair pair{source_template.render(record), target_template.render(record)};
    for (auto [text, option] : {std::pair(&pair.source, "source"), std::pair(&pair.target, "target")}) {
      if (trimmed(*text).empty()) throw InputError("{}: the text for `data.{}` is empty.", record.where(), option);
    }
    pairs.push_back(std::move(pair));
  });
  return pairs;
}

/// Adds samples to a Dataset.
class SampleMaker {
 public:
  SampleMaker(const config::DataConfig& config, const Tokenizer& tokenizer) : config_(config), tokenizer_(tokenizer) {}

  void add_to(Dataset& dataset, TextPair&& pair, int64_t record, bool keep_texts) const {
    bool truncated = false;
    std::vector<int32_t> source = encode(pair.source, config_.max_source_length, truncated);
    std::vector<int32_t> target = encode(pair.target, config_.max_target_length, truncated);
    dataset.add(source, target, record, truncated);
    if (keep_texts) dataset.keep_texts(std::move(pair.source), std::move(pair.target));
  }

 private:
  std::vector<int32_t> encode(const std::string& text, int64_t max_length, bool& truncated) const {
    std::vector<int32_t> ids = tokenizer_.encode(text, true);
    auto limit = static_cast<size_t>(max_length);
    if (ids.size() > limit) {  // </s> stays
      ids.resize(limit);
      ids.back() = tokenizer_.eos_id();
      truncated = true;
    }
    return ids;
  }

  const config::DataConfig& config_;
  const Tokenizer& tokenizer_;
};

Dataset load_validation_file(const config::DataConfig& config, const SampleMaker& maker) {
  config::DataSource source = config.train;
  source.path = {config.validation.path};
  Dataset dataset;
  int64_t record = 0;
  for (TextPair& pair : read_pairs(config, source)) maker.add_to(dataset, std::move(pair), record++, true);
  return dataset;
}

}  // namespace

int64_t validation_count(int64_t records, double fraction) {
  return std::llround(fraction * static_cast<double>(records));
}

bool is_validation(int64_t seed, int64_t record, int64_t records, double fraction) {
  if (fraction <= 0) return false;
  Permutation permutation(derive_key(seed, kSplitPurpose), records);
  return permutation(record) < validation_count(records, fraction);
}

Datasets load_datasets(const config::DataConfig& config, const Tokenizer& tokenizer, int64_t seed) {
  if (config.task != config::Task::kSeq2SeqLm)
    throw ConfigError("data.task: only seq2seq_lm can be trained in this release.");
  bool own_file = !config.validation.path.empty();
  double fraction = own_file ? 0.0 : config.validation.fraction;
  std::vector<TextPair> pairs = read_pairs(config, config.train);
  if (config.max_samples > 0) pairs.resize(std::min(pairs.size(), static_cast<size_t>(config.max_samples)));

  SampleMaker maker(config, tokenizer);
  Datasets datasets;
  auto records = static_cast<int64_t>(pairs.size());
  for (int64_t i = 0; i < records; ++i) {
    bool held_out = is_validation(seed, i, records, fraction);
    maker.add_to(held_out ? datasets.validation : datasets.train, std::move(pairs[i]), i, held_out);
  }
  if (own_file) datasets.validation = load_validation_file(config, maker);
  if (datasets.train.empty()) {
    throw InputError(
        "data: {} records, all of them for validation: none is left to train on.\nLower `data.validation.fraction` "
        "({}).",
        records, fraction);
  }
  return datasets;
}

}  // namespace trainer::data
