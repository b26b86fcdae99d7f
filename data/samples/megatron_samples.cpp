#include "data/samples/megatron_samples.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

Blend blend_of(const config::DataSource& source) {
  if (source.weights.empty()) return parse_blend(source.path);
  return {source.path, source.weights};
}

/// The padding id, unless it has another use.
int32_t pad_of(const Tokenizer& tokenizer, int32_t eod) {
  const int32_t pad = tokenizer.pad_id();
  const bool other = pad == eod || pad == tokenizer.eos_id() || pad == tokenizer.bos_id() || pad == tokenizer.unk_id();
  return other ? -1 : pad;
}

/// The token between documents; -1: none exists or is needed.
int32_t eod_of(const config::MegatronDataConfig& config, const Tokenizer& tokenizer) {
  const int64_t eod = config.eod_id >= 0 ? config.eod_id : tokenizer.eos_id();
  for (const auto& [asks, option] : {std::pair{config.reset_attention_mask, "reset_attention_mask"},
                                     std::pair{config.eod_mask_loss, "eod_mask_loss"}})
    if (asks && eod < 0)
      throw ConfigError(
          "data.megatron.{} is true, but the tokenizer has no end-of-sequence token to separate documents.\n"
          "  Set data.megatron.eod_id to the token that ends a document in the corpus.",
          option);
  return static_cast<int32_t>(eod);
}

}  // namespace

MegatronSamples::MegatronSamples(const config::MegatronDataConfig& config, const GptRequest& request,
                                 const GptSampleRules& rules)
    : config_(config), all_learned_(rules.pad_id < 0 && !(config.eod_mask_loss && rules.eod_id >= 0)) {
  GptSampleRules own{config_, rules.eod_id, rules.pad_id, rules.vocabulary};  // GptDataset keeps a reference
  dataset_ = std::make_unique<GptDataset>(request, own);
}

void MegatronSamples::read(int64_t index, Sample& sample) const {
  GptSample read = dataset_->sample(index);
  sample.source = std::move(read.tokens);
  sample.labels = std::move(read.labels);
  sample.parts.assign(read.starts.begin(), read.starts.end());
  sample.pixels = {};
}

Lengths MegatronSamples::lengths(int64_t index) const {
  const int64_t length = config_.sequence_length;
  if (all_learned_ && index + 1 < size()) return {length, length, length};
  const GptSample read = dataset_->sample(index);
  const auto learned = std::count_if(read.labels.begin(), read.labels.end(), [](int32_t l) { return l != -100; });
  return {static_cast<int64_t>(read.tokens.size()), static_cast<int64_t>(read.labels.size()), learned};
}

Datasets open_megatron(const DatasetsRequest& request, const Tokenizer& tokenizer) {
  const config::DataConfig& c = request.config;
  const bool own_file = !c.validation.path.empty(), part = c.validation.fraction > 0;
  config::MegatronDataConfig options = c.megatron;
  if (part) options.split = fmt::format("{},{},0", 1 - c.validation.fraction, c.validation.fraction);
  const int32_t eod = eod_of(options, tokenizer);
  const GptSampleRules rules{options, eod, pad_of(tokenizer, eod), tokenizer.size()};
  GptRequest train{blend_of(c.train), own_file ? Split::kWhole : Split::kTrain, {}, request.seed};
  if (request.train_samples > 0) train.samples = request.train_samples;
  Datasets datasets;
  datasets.train = std::make_shared<MegatronSamples>(options, train, rules);
  datasets.validation = std::make_shared<NoSamples>();
  if (own_file)
    datasets.validation = std::make_shared<MegatronSamples>(
        options, GptRequest{{{c.validation.path}, {}}, Split::kWhole, {}, request.seed}, rules);
  else if (part)
    datasets.validation = std::make_shared<MegatronSamples>(
        options, GptRequest{blend_of(c.train), Split::kValidation, {}, request.seed}, rules);
  return datasets;
}

}  // namespace trainer::data
