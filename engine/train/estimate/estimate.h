// The results of `trainer estimate-memory`: what loading and training a model takes, from its config.json alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/train/memory_plan.h"

namespace trainer::train {

struct EstimateRequest {
  std::string folder;                // with config.json; weights may be missing
  std::string name;                  // of the model, for the page
  std::string task;                  // as data.task; "": the family's default
  std::vector<std::string> dtypes;   // of estimate_dtypes(), in the order to show
  int64_t lora_rank = 0;             // 0: rank 8, if the family has default targets
  std::vector<std::string> targets;  // of LoRA; empty: the family's default
  int64_t ranks = 1;
  int64_t batch_size = 1;       // samples of a rank in a forward pass
  int64_t sequence_length = 0;  // tokens of a sample; 0: 512, or the model's positions if it has fewer
  bool gradient_checkpointing = false;
  bool on_gpus = true;  // the layers and collectives of GPUs, which this machine needn't have
};

/// float32, bfloat16, float16, int8, int4.
const std::vector<std::string>& estimate_dtypes();

/// A way to train, planned for a rank. Nothing for a way that this build doesn't have.
struct EstimateRow {
  std::string dtype;
  std::string strategy{};                // "one rank", "DDP", …
  std::vector<std::string> names{};      // of the strategy, for --json: {"FSDP FULL_SHARD", "ZeRO-3"}
  int64_t largest_layer = 0, total = 0;  // bytes of loading, every value in `dtype`
  std::optional<MemoryPlan> full, lora;
  std::string why_no_lora{};  // what this model lacks for LoRA in this dtype
};

struct Estimate {
  std::string class_name, task;
  int64_t parameters = 0;
  std::string largest_layer;  // "the embedding shared"
  int64_t lora_rank = 0;      // 0: not planned
  std::string why_no_lora;    // if it isn't
  std::vector<std::string> lora_targets;
  int64_t source_length = 0, target_length = 0;  // tokens of a sample; 0: it has none
  std::vector<EstimateRow> alone;                // one rank
  std::vector<EstimateRow> sharded;              // the request's ranks; empty for one
};

/// Plans everything that is asked for with memory_plan.h. Errors: InputError for a config.json that can't be read or a
/// family that this build doesn't have; ConfigError for a task, a length or LoRA targets that the model doesn't have.
Estimate estimate_memory(const EstimateRequest& request);

std::string to_text(const Estimate& estimate, const EstimateRequest& request);

/// One object, sizes in bytes: model, class, task, parameters, batch_size, source_length, target_length, device, lora:
/// null or {r, targets}; dtypes: [{dtype, largest_layer, total, training, lora}]; strategies: [{dtype, strategy, ranks,
/// training, lora}], of a rank. training and lora are null or {weights, gradients, optimizer, held (these three),
/// activations, communication, training (all of these), saving}.
nlohmann::ordered_json to_json(const Estimate& estimate, const EstimateRequest& request);

}  // namespace trainer::train
