#include "data/megatron/gpt_dataset.h"

#include <cmath>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// Surplus samples per corpus, so that it doesn't run out when its count is rounded.
constexpr double kSurplus = 0.005;
constexpr size_t kMostCorpora = 32766;

SequenceRange range_of(const IndexedFile& file, const GptRequest& request, const std::string& split) {
  auto range = split_range(split, request.split, file.index().sequences());
  static constexpr const char* kNames[] = {"training", "validation", "test"};
  if (range) return *range;
  throw ConfigError("data.megatron.split: \"{}\" leaves no sequences for {}.", split,
                    kNames[static_cast<size_t>(request.split)]);
}

}  // namespace

GptDataset::GptDataset(const GptRequest& request, const GptSampleRules& rules) : rules_(rules) {
  const Blend& blend = request.blend;
  if (blend.prefixes.empty()) throw ConfigError("data.train.path: names no corpus.");
  if (blend.prefixes.size() > kMostCorpora) {
    throw ConfigError("data.train.path: names {} corpora; at most {} can be blended.", blend.prefixes.size(),
                      kMostCorpora);
  }
  if (!blend.weights.empty()) {
    blend_by_weight(request);
  } else if (blend.prefixes.size() > 1) {
    blend_by_size(request);
  } else {
    open(blend.prefixes[0], request.samples, request);
  }
}

void GptDataset::open(const std::string& prefix, std::optional<int64_t> samples, const GptRequest& request) {
  auto file = std::make_unique<IndexedFile>(prefix);
  GptIndexRequest of_one{.sequences = range_of(*file, request, rules_.config.split),
                         .sequence_length = rules_.config.sequence_length,
                         .samples = samples,
                         .seed = request.seed,
                         .drop_last_partial = request.drop_last_partial};
  try {
    GptIndex index(file->index(), of_one);
    corpora_.push_back({std::move(file), std::move(index)});
  } catch (const InputError& error) {
    throw InputError("{}: {}", prefix, error.what());
  }
}

void GptDataset::blend_by_weight(const GptRequest& request) {
  const Blend& blend = request.blend;
  if (blend.weights.size() != blend.prefixes.size()) {
    throw ConfigError("data.train.weights: {} weights for {} corpora.", blend.weights.size(), blend.prefixes.size());
  }
  if (!request.samples) {
    throw ConfigError("data.train.weights: a weighted blend has no natural end: set training.max_steps.");
  }
  const std::vector<double> shares = normalized(blend.weights);
  int64_t total = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double target = std::ceil(static_cast<double>(*request.samples) * shares[i]);
    total += static_cast<int64_t>(target);
    open(blend.prefixes[i], static_cast<int64_t>(std::ceil(target * (1 + kSurplus))), request);
  }
  // Megatron normalizes the weights a second time.
  draws_ = draw_by_weight(normalized(shares), total);
  check_draws();
}

void GptDataset::blend_by_size(const GptRequest& request) {
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (const std::string& prefix : request.blend.prefixes) {
    open(prefix, std::nullopt, request);
    sizes.push_back(corpora_.back().index.size());
    total += sizes.back();
    if (sizes.back() > 0) continue;
    throw InputError(
        "{}: not one sample of {} tokens; remove it from the blend, or lower "
        "data.megatron.sequence_length.",
        prefix, rules_.config.sequence_length);
  }
  if (!request.samples) {
    draws_ = draw_all(sizes);
    return;
  }
  const std::vector<double> weights(sizes.begin(), sizes.end());
  draws_ = draw_by_weight(normalized(weights), std::min(*request.samples, total));
  check_draws();
}

void GptDataset::check_draws() const {
  for (size_t k = 0; k < draws_->corpus.size(); ++k) {
    const Corpus& corpus = corpora_[static_cast<size_t>(draws_->corpus[k])];
    if (draws_->sample[k] < corpus.index.size()) continue;
    throw InputError("{}: the blend draws more than its {} samples: use a larger corpus, or a smaller weight.",
                     corpus.file->prefix(), corpus.index.size());
  }
}

int64_t GptDataset::size() const {
  return draws_ ? static_cast<int64_t>(draws_->corpus.size()) : corpora_[0].index.size();
}

GptSample GptDataset::sample(int64_t k) const {
  require(k >= 0 && k < size(), "sample {} of {}", k, size());
  const auto draw = static_cast<size_t>(k);
  const Corpus& corpus = corpora_[draws_ ? static_cast<size_t>(draws_->corpus[draw]) : 0];
  std::vector<int32_t> text;
  for (const SamplePiece& piece : corpus.index.pieces(corpus.file->index(), draws_ ? draws_->sample[draw] : k)) {
    const size_t old = text.size();
    text.resize(old + static_cast<size_t>(piece.length));
    corpus.file->read(piece.sequence, piece.offset, std::span(text).subspan(old), rules_.vocabulary);
  }
  return make_gpt_sample(std::move(text), rules_);
}

}  // namespace trainer::data
