// Where Megatron-Core's GPT keeps the weights of a model of LLaMA's architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/llama/config.h"
#include "models/nn/part.h"

namespace trainer::checkpoint {

/// How many ranks share each layer, and the stack of layers.
struct MegatronDegrees {
  int64_t tensor = 1, pipeline = 1;
};

/// Where a weight of Hugging Face's, a matrix [rows, columns] or a vector [rows], lies in the files of one stage.
struct MegatronPlace {
  /// Its rows [row, row + rows) and columns [column, column + columns) are the rows from `at` on of one rank's tensor.
  struct Block {
    int64_t rank, row, rows, column, columns, at;
  };
  int64_t stage = 0;
  std::string name, other_name;  // of the tensor; where norms are not fused with what follows them. "": no such name
  nn::Shape shape;               // of each rank's tensor
  std::vector<Block> blocks;

  int64_t columns() const { return shape.size() == 2 ? shape[1] : 1; }
};

/// The layout: heads of a group of queries with its key and its value, the gate's rows above those it gates, the
/// vocabulary padded, layers counted from 0 in each stage, and norms named as Transformer Engine's fused layers have
/// them. Source: Megatron-LM, tools/checkpoint/schema_core.py and saver_base.py.
class MegatronLayout {
 public:
  /// `stages`: layers of each. `vocabulary`: its rows with the padding. What they are for must fit (problem()).
  MegatronLayout(models::llama::Config config, int64_t tensor, std::vector<int64_t> stages, int64_t vocabulary)
      : config_(std::move(config)), tensor_(tensor), stages_(std::move(stages)), vocabulary_(vocabulary) {}
  /// Stages of equal length, the vocabulary padded to a multiple of 128 for each rank, as Megatron does it.
  MegatronLayout(models::llama::Config config, const MegatronDegrees& degrees);

  /// Why a model cannot be shared so, with both numbers; "" when it can.
  static std::string problem(const models::llama::Config& config, const MegatronDegrees& degrees);

  int64_t tensor() const { return tensor_; }
  int64_t stages() const { return static_cast<int64_t>(stages_.size()); }
  /// Of the weight `name` of shape `whole`; nothing for a weight that Megatron's GPT has no place for.
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
