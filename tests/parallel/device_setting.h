// Small models that the tests of a device train, and how.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/config/names.h"
#include "tests/support/golden_case.h"

namespace trainer::testing {

using config::DistributedType;
using Lengths = std::vector<int64_t>;

struct Family {
  const char* name;
  config::Task task;
  const char* config;
};
inline const Family kLlama{
    "LLaMA", config::Task::kCausalLm,
    R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2})"};
inline const Family kGpt2{
    "GPT-2", config::Task::kCausalLm,
    R"({"model_type": "gpt2", "vocab_size": 512, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 512})"};
inline const Family kT5{
    "T5", config::Task::kSeq2SeqLm,
    R"({"model_type": "t5", "vocab_size": 512, "d_model": 128, "d_kv": 32, "d_ff": 320, "num_layers": 2, "num_heads": 4})"};
inline const Family kBert{
    "BERT", config::Task::kSequenceClassification,
    R"({"model_type": "bert", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 3,
        "num_attention_heads": 4, "max_position_embeddings": 512, "id2label": {"0": "a", "1": "b"}})"};

constexpr auto kNo = DistributedType::kNo, kDdp = DistributedType::kMultiGpu, kFsdp = DistributedType::kFsdp;
inline const Lengths kRagged{60, 200, 96, 17}, kEqual{256, 256};
constexpr int64_t kNewTokens = 4;

/// Whether a frozen base has 4-bit weights (NF4), with scales in fp32 or quantized again.
enum class Packed { kNo, kOnce, kTwice };

struct Setting {
  Family family;
  DistributedType type = kNo;
  bool lora = false, recompute = false, bf16 = false;
  Lengths lengths = kRagged;
  int64_t micro_batches = 1, tensor = 1;
  bool offload = false;
  bool alone = false;  // on one rank
  Packed packed = Packed::kNo;
  bool kernels = false;  // layers run kernels of our own
  config::SavedActivations saved = config::SavedActivations::kAsComputed;

  int64_t ranks() const { return type == kNo || alone ? 1 : 2; }
  std::string name() const {
    return fmt::format("{} {}{}{}{}{}{}{}{}{}{} {}x{}", family.name,
                       type == kNo     ? "one rank"
                       : type == kFsdp ? "FSDP"
                                       : "DDP",
                       tensor > 1 ? " TP" : "", offload ? " offload" : "", alone ? " alone" : "", lora ? " LoRA" : "",
                       recompute ? " recompute" : "", bf16 ? " bf16" : "",
                       packed == Packed::kNo     ? ""
                       : packed == Packed::kOnce ? " NF4"
                                                 : " NF4 doubled",
                       kernels ? " kernels" : "",
                       saved == config::SavedActivations::kAsComputed ? "" : " saved " + config::name_of(saved),
                       lengths.size(), *std::max_element(lengths.begin(), lengths.end()));
  }
};

inline config::Plan plan_of(const Setting& s) {
  config::Plan plan;
  config::Config& c = plan.config;
  c.model.config = s.family.config;
  c.data.task = s.family.task;
  c.distributed_type = s.type;
  c.num_processes = s.ranks();
  c.training.gradient_checkpointing = s.recompute;
  if (s.lora) c.lora.emplace().lora_dropout = 0.1;
  c.model.quantization_config.load_in_4bit = s.packed != Packed::kNo;
  c.model.quantization_config.bnb_4bit_use_double_quant = s.packed == Packed::kTwice;
  if (s.bf16) c.mixed_precision = config::MixedPrecision::kBf16;
  if (s.tensor > 1) c.parallelism_config.emplace().tp_size = s.tensor;
  c.fsdp_config.offload_params = s.offload;
  c.training.saved_activations = s.saved;
  return plan;
}

/// As many labels per sample as the task has: the next tokens, a target, or a class.
inline Lengths labels_of(const Setting& s) {
  if (s.family.task == config::Task::kCausalLm) return s.lengths;
  return Lengths(s.lengths.size(), s.family.task == config::Task::kSeq2SeqLm ? 24 : 1);
}

inline models::Batch real_batch(const Setting& s) {
  std::vector<std::vector<int64_t>> sources, labels;
  for (const int64_t n : s.lengths) sources.emplace_back(n, 5);
  for (const int64_t n : labels_of(s)) labels.emplace_back(n, 1);
  models::Batch batch = make_batch(sources, labels);
  if (s.family.task == config::Task::kCausalLm) batch.target = batch.source;
  return batch;
}

}  // namespace trainer::testing
