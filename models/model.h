// What every model family offers to the engine. Models never see ranks or sharding.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/nn/module.h"
#include "models/nn/peers.h"
#include "models/tensor_plan.h"

namespace trainer::models {

/// What a model is trained to do.
enum class Task { kCausalLm, kSeq2SeqLm, kSequenceClassification, kImageClassification };

/// Samples as tensors, without padding. Rows of `source_ids` [T] int64 are laid out by `source`, of `labels` [U] int64
/// by `target`; label -100 counts nothing. The label of a row is what the model should say there:
///   sequence to sequence   the target's tokens, U rows of their own
///   causal                 the token that follows each one of the source: U = T, `target` is `source`
///   classification         the class of each sample: U = samples
struct Batch {
  at::Tensor source_ids, labels;
  nn::LayoutPtr source, target;
  int64_t target_tokens = 0;  // labels that count
  at::Tensor pixels;          // [samples, features] fp32 in [0, 1], for images, which have no source_ids
};

class Model : public nn::Module {
 public:
  Model(std::string class_name, Task task) : Module(std::move(class_name)), task_(task) {}

  Task task() const { return task_; }
  /// How many tokens of a learnt prompt stand in front of every sample (models/virtual_tokens.h).
  int64_t virtual_tokens() const { return virtual_tokens_; }
  void set_virtual_tokens(int64_t count) { virtual_tokens_ = count; }
  bool classifies() const { return task_ == Task::kSequenceClassification || task_ == Task::kImageClassification; }

  /// The logits of every label, [U, V] in the compute dtype; V: tokens or classes. Text is by teacher forcing. Where
  /// ranks share the vocabulary: of this rank's tokens (all_logits).
  virtual at::Tensor logits(const Batch& batch, const nn::Pass& pass) = 0;
  /// Sum over labels of the cross-entropy, a scalar in fp32.
  virtual at::Tensor loss_sum(const Batch& batch, const nn::Pass& pass);

  /// Starts decoding for the samples of `batch` (its labels are not used): runs what is run once a sample. Returns the
  /// tokens [samples] to begin with: a start token, or the last one of each prompt. Not for models that classify.
  virtual at::Tensor begin_decoding(const Batch& batch, nn::Pass& pass, nn::DecodeCache& cache);
  /// The logits [samples, V] that follow `tokens` [samples], the next token of each; of this rank's tokens, as above.
  virtual at::Tensor decode(const at::Tensor& tokens, nn::Pass& pass);
  /// Tokens that end a text; the first one is the usual one.
  virtual std::vector<int64_t> end_tokens() const { return {}; }

  /// Rows of the input embedding; 0 for images.
  virtual int64_t vocabulary() const = 0;
  /// Tokens a sample may have at most; 0: any number.
  virtual int64_t max_positions() const { return 0; }
  /// Numbers of an image; 0 for text.
  virtual int64_t features() const { return 0; }
  /// Names of the classes, in the order of their numbers; empty: not a classifier, or none are given.
  virtual std::vector<std::string> labels() const { return {}; }

  /// The transformer blocks in forward order: default FSDP units and checkpointed regions.
  virtual std::vector<nn::Module*> blocks() = 0;
  /// PEFT's default LoRA targets of this family.
  virtual std::vector<std::string> default_lora_targets() const = 0;
  /// The module PEFT's "all-linear" leaves out: the output head; "" when there is none.
  virtual std::string output_head() const = 0;
  /// How several ranks may share each layer (engine/parallel/tensor_parallel.h).
  virtual TensorPlan tensor_plan() const { return {}; }
  /// From now on logits are those of `mine` of the vocabulary; peers have the others.
  void share_vocabulary(nn::SharedVocabulary shared) { shared_ = std::move(shared); }
  /// The logits of the whole vocabulary, from what logits() or decode() gave. Collective of the peers; no gradients.
  at::Tensor all_logits(const at::Tensor& logits) const { return shared_.peers ? shared_.gather(logits) : logits; }

  /// What Hugging Face's base model (without a head) leaves out of its weights' names: "model.", "transformer.",
  /// "bert."; "" where there is no such prefix.
  virtual std::string base_prefix() const { return ""; }
  /// Whether a weight may be missing in a folder, and then starts anew: a classification head on a pre-trained model.
  virtual bool may_start_anew(const std::string& parameter) const { return false; }
  /// config.json of a saved folder.
  virtual std::string config_json() const = 0;

 protected:
  /// The loss of logits [U, V] of this model for `labels` [U]; a scalar.
  at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& labels, const nn::Pass& pass) const;

 private:
  Task task_;
  int64_t virtual_tokens_ = 0;
  nn::SharedVocabulary shared_;  // without peers: this rank has all of it
};

}  // namespace trainer::models
