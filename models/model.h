// The interface of every model family. Models know nothing of ranks or sharding.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/nn/linear.h"
#include "models/nn/tensor_group.h"
#include "models/tensor_plan.h"

namespace trainer::models {

/// What a model is trained to do.
enum class Task { kCausalLm, kSeq2SeqLm, kSequenceClassification, kImageClassification };

/// Samples as tensors, without padding. `source` lays out the rows of `source_ids` [T] int64, `target` those of
/// `labels` [U] int64; label -100 is ignored. The label of a row is the model's expected output there:
///   sequence to sequence   the target's tokens, U separate rows
///   causal                 the token that follows each one of the source: U = T, `target` is `source`
///   classification         the class of each sample: U = samples
/// A batch of pairs has two spans for each pair: the chosen text and the rejected one.
struct Batch {
  at::Tensor source_ids, labels;
  nn::LayoutPtr source, target;
  int64_t target_tokens = 0;  // labels that are not ignored
  at::Tensor pixels;          // [samples, features] fp32 in [0, 1]; images only, which have no source_ids
  /// Pairs: the log-probabilities [P, 2] fp64 of the reference, on the CPU (models/nn/preference_loss.h).
  at::Tensor reference;
};

class Model : public nn::Module {
 public:
  Model(std::string class_name, Task task) : Module(std::move(class_name)), task_(task) {}

  Task task() const { return task_; }
  /// Number of virtual tokens in front of every sample (models/virtual_tokens.h).
  int64_t virtual_tokens() const { return virtual_tokens_; }
  void set_virtual_tokens(int64_t count) { virtual_tokens_ = count; }
  bool classifies() const { return task_ == Task::kSequenceClassification || task_ == Task::kImageClassification; }

  /// The logits of every label, [U, V] in the compute dtype; V: tokens or classes. Text uses teacher forcing. With a
  /// vocabulary split over tensor-parallel ranks: the logits of this rank's tokens (see all_logits).
  virtual at::Tensor logits(const Batch& batch, const nn::Pass& pass) = 0;
  /// Sum of the cross-entropy over all labels, an fp32 scalar.
  virtual at::Tensor loss_sum(const Batch& batch, const nn::Pass& pass);

  /// Runs what runs once for each of these samples before they are decoded with pass.cache: the encoder, whose output
  /// is the cache's `memory`. Returns the tokens of their first step: a start token each, or the prompts. Labels are
  /// ignored. Not for models that classify.
  virtual nn::Rows begin_decoding(const Batch& batch, const nn::Pass& pass);
  /// The logits [samples, V] after `tokens` [T], the rows of pass.cache's step; of this rank's tokens, as above.
  virtual at::Tensor decode(const at::Tensor& tokens, const nn::Pass& pass);
  /// Keeps at most `bytes` of the output of an encoder that isn't trained, for samples that come again (Note [Encoder
  /// cache]). For models whose ranks compute whole layers on the CPU. `dropout`: whether it is on in training. Returns
  /// why nothing can be kept, "" if it can.
  virtual std::string keep_encoder_output(int64_t bytes, bool dropout) { return "the model has no encoder"; }
  /// The most bytes that are kept so.
  virtual int64_t kept_encoder_bytes() const { return 0; }
  /// Tokens that end a text; the first is the default one.
  virtual std::vector<int64_t> end_tokens() const { return {}; }

  /// Rows of the input embedding; 0 for images.
  virtual int64_t vocabulary() const = 0;
  /// Maximum tokens per sample; 0: unlimited.
  virtual int64_t max_positions() const { return 0; }
  /// Values per image; 0 for text.
  virtual int64_t features() const { return 0; }
  /// Class names in the order of their indices; empty: not a classifier, or no names given.
  virtual std::vector<std::string> labels() const { return {}; }

  /// The transformer blocks in forward order: default FSDP units and checkpointed regions.
  virtual std::vector<nn::Module*> blocks() = 0;
  /// PEFT's default LoRA targets of this family.
  virtual std::vector<std::string> default_lora_targets() const = 0;
  /// The layers that PEFT's IA3 scales by default, and those of them that it scales at the input.
  struct Ia3Layers {
    std::vector<std::string> targets, feedforward;
  };
  virtual Ia3Layers default_ia3_layers() const { return {}; }
  /// The output head, which PEFT's "all-linear" leaves out; "" if there is none.
  virtual std::string output_head() const = 0;
  /// How to split each layer over tensor-parallel ranks (engine/parallel/tensor_parallel.h).
  virtual TensorPlan tensor_plan() const { return {}; }
  /// From now on, logits cover only `mine` of the vocabulary; the other tensor-parallel ranks have the rest.
  void partition_vocabulary(nn::PartitionedVocabulary shared) { shared_ = std::move(shared); }
  /// Logits of the whole vocabulary, gathered from a result of logits() or decode(). Collective over the
  /// tensor-parallel ranks; no gradients.
  at::Tensor all_logits(const at::Tensor& logits) const { return shared_.group ? shared_.gather(logits) : logits; }

  /// The prefix of Hugging Face's weight names that the base model (without a head) omits: "model.", "transformer.",
  /// "bert."; "" if there is none.
  virtual std::string base_prefix() const { return ""; }
  /// Whether a weight may be missing in a folder and is then newly initialized: a classification head, for example.
  virtual bool may_be_initialized(const std::string& parameter) const { return false; }
  /// config.json of a saved folder.
  virtual std::string config_json() const = 0;

 protected:
  /// The loss of this model's logits [U, V] for `labels` [U]; a scalar.
  at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& labels, const nn::Pass& pass) const;
  /// The same for the logits, capped if `soft_cap` > 0, that `head` would compute for rows `hidden` [U, D].
  nn::Rows head_loss(nn::Linear& head, const nn::Rows& hidden, const at::Tensor& labels, const nn::Pass& pass,
                     double soft_cap = 0) const;

 private:
  Task task_;
  int64_t virtual_tokens_ = 0;
  nn::PartitionedVocabulary shared_;  // without peers: this rank has the whole vocabulary
};

}  // namespace trainer::models
