// What every model family offers to the engine. Models never see ranks or sharding.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/nn/module.h"

namespace trainer::models {

/// Samples as tensors, without padding. Rows of `source_ids` [T] int64 are laid out by `source`, of `labels` [U] int64
/// by `target`; label -100 counts nothing.
struct Batch {
  at::Tensor source_ids, labels;
  nn::LayoutPtr source, target;
  int64_t target_tokens = 0;  // labels that count
};

class Model : public nn::Module {
 public:
  using Module::Module;

  /// Teacher forcing: the logits of every label, [U, V] in the compute dtype.
  virtual at::Tensor logits(const Batch& batch, const nn::Pass& pass) = 0;
  /// Sum over labels of the cross-entropy, a scalar in fp32.
  at::Tensor loss_sum(const Batch& batch, const nn::Pass& pass);

  /// Starts decoding for the samples of `batch` (its labels are not used): runs what is run once a sample.
  virtual void begin_decoding(const Batch& batch, nn::Pass& pass, nn::DecodeCache& cache) = 0;
  /// The logits [samples, V] that follow `tokens` [samples], the next token of each.
  virtual at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass) = 0;
  virtual int64_t start_token() const = 0;
  virtual int64_t end_token() const = 0;
  virtual int64_t vocabulary() const = 0;

  /// The transformer blocks in forward order: default FSDP units and checkpointed regions.
  virtual std::vector<nn::Module*> blocks() = 0;
  /// PEFT's default LoRA targets of this family.
  virtual std::vector<std::string> default_lora_targets() const = 0;
  /// The module PEFT's "all-linear" leaves out: the output head.
  virtual std::string output_head() const = 0;
  /// config.json of a saved folder.
  virtual std::string config_json() const = 0;
};

}  // namespace trainer::models
