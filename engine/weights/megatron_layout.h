// How Megatron-Core's GPT stores the weights of a model of LLaMA's architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/llama/config.h"
#include "models/nn/part.h"

namespace trainer::checkpoint {

/// Tensor and pipeline parallel sizes.
struct MegatronDegrees {
  int64_t tensor = 1, pipeline = 1;
};

/// The place of a Hugging Face weight, a matrix [rows, columns] or a vector [rows], in the files of one stage.
struct MegatronPlace {
  /// Its rows [row, row + rows) and columns [column, column + columns) are the rows from `at` of one rank's tensor.
  struct Block {
    int64_t rank, row, rows, column, columns, at;
  };
  int64_t stage = 0;
  std::string name, other_name;  // the tensor's, and its name when norms are not fused with the next layer, or ""
  nn::Shape shape;               // of each rank's tensor
  std::vector<Block> blocks;

  int64_t columns() const { return shape.size() == 2 ? shape[1] : 1; }
};

/// Whether the family `model_type` has this layout: LLaMA's architecture without Gemma's differences.
bool has_megatron_layout(const std::string& model_type);

/// The layout: the heads of a query group followed by its key and value, the gate's rows above the rows it gates, the
/// vocabulary padded, layers counted from 0 in each stage, and norms named as in Transformer Engine's fused layers.
/// Source: Megatron-LM, tools/checkpoint/schema_core.py and saver_base.py.
class MegatronLayout {
 public:
  /// `stages`: the layers of each stage. `vocabulary`: its rows including padding. They must fit the model (problem()).
  MegatronLayout(models::llama::Config config, int64_t tensor, std::vector<int64_t> stages, int64_t vocabulary)
      : config_(std::move(config)), tensor_(tensor), stages_(std::move(stages)), vocabulary_(vocabulary) {}
  /// Stages of equal length, and the vocabulary padded to a multiple of 128 per rank, as in Megatron.
  MegatronLayout(models::llama::Config config, const MegatronDegrees& degrees);

  /// Why a model cannot be partitioned this way, with both numbers; "" when it can.
  static std::string problem(const models::llama::Config& config, const MegatronDegrees& degrees);

  int64_t tensor() const { return tensor_; }
  int64_t stages() const { return static_cast<int64_t>(stages_.size()); }
  /// The place of the weight `name` of shape `whole`; nothing for a weight that Megatron's GPT doesn't have.
  std::optional<MegatronPlace> place(const std::string& name, const nn::Shape& whole) const;

 private:
  enum class Split { kWhole, kQuery, kKey, kValue, kGate, kUp, kColumns, kVocabulary };
  struct Rule;

  MegatronPlace cut(Split split, const nn::Shape& whole) const;
  void cut_heads(Split split, MegatronPlace& place, int64_t columns) const;

  models::llama::Config config_;
  int64_t tensor_;
  std::vector<int64_t> stages_;
  int64_t vocabulary_;
};

}  // namespace trainer::checkpoint
