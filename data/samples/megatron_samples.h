// Samples from Megatron's .bin and .idx files.
#pragma once

#include "data/megatron/gpt_dataset.h"
#include "data/samples/datasets.h"

namespace trainer::data {

class MegatronSamples : public Samples {
 public:
  MegatronSamples(const config::MegatronDataConfig& config, const GptRequest& request, const GptSampleRules& rules);

  int64_t size() const override { return dataset_->size(); }
  void read(int64_t index, Sample& sample) const override;
  /// All tokens are learned except padding and, with eod_mask_loss, ends of documents; reads the sample to count.
  Lengths lengths(int64_t index) const override;
  int64_t source_length(int64_t) const override { return config_.sequence_length; }
  LabelKind label_kind() const override { return LabelKind::kNext; }
  bool ordered() const override { return true; }

 private:
  config::MegatronDataConfig config_;
  bool all_learned_;  // except in the last sample, which may be padded
  std::unique_ptr<GptDataset> dataset_;
};

/// Opens the corpora of `data.train.path`: the training part of data.megatron.split, or, with `data.validation`, all
/// sequences that it doesn't hold out.
Datasets open_megatron(const DatasetsRequest& request, const Tokenizer& tokenizer);

}  // namespace trainer::data
