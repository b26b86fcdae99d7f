// The kinds of adapters. This is what a kind means to a configuration; engine/adapters/layers.h is what it does to a
// model. A new kind is an entry of TRAINER_ADAPTER_KINDS, its options in LoraConfig, and a file for each half.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/config/schema.h"

namespace trainer::config {

class Judge;

/// The parallelism that adapters must support, with the keys that request it ("parallelism_config_tp_size is 2").
struct AdapterMesh {
  int64_t tensor = 1, pipeline = 1;
  std::string tensor_given, pipeline_given;
};

/// One kind of adapter, as PEFT calls it.
struct AdapterKind {
  std::string name;                      // lora.peft_type
  std::string title;                     // as its paper and PEFT's pages write it: "LoRA"
  LoraConfig defaults;                   // PEFT's, where they differ from the struct's
  Entries options;                       // the options of `lora` that it declares
  std::vector<std::string> more;         // those that it shares with a kind above it in the table
  std::vector<std::string> overridable;  // those that a run can set for an existing adapter

  /// Refuses options that don't fit together; null: nothing to check.
  void (*check)(const LoraConfig& lora, Judge& judge) = nullptr;
  /// Refuses options that the mesh can't have; null: nothing to check.
  void (*check_mesh)(const LoraConfig& lora, const AdapterMesh& mesh, Judge& judge) = nullptr;
  /// Reads adapter_config.json (without nulls), which is at `where`. Errors: InputError; nlohmann's for a wrong type.
  /// Null: training can't continue from a folder, because it holds the output of a network instead of the network.
  void (*read)(const nlohmann::json& file, const std::string& where, LoraConfig& options) = nullptr;

  bool splits = false;     // tensor parallelism can split its layers
  bool lora_plus = false;  // it has matrices A and B, which training.loraplus_lr_ratio distinguishes

  /// Whether the option of `lora` has an effect for this kind.
  bool takes(const std::string& option) const;
};

/// Every kind, in the order of the reference page: config::NAME_kind() and adapters::NAME_layers().
#define TRAINER_ADAPTER_KINDS(kind) \
  kind(lora) kind(ia3) kind(vera) kind(loha) kind(prefix_tuning) kind(prompt_tuning) kind(p_tuning)

#define TRAINER_DECLARE_KIND(name) const AdapterKind& name##_kind();
TRAINER_ADAPTER_KINDS(TRAINER_DECLARE_KIND)
#undef TRAINER_DECLARE_KIND

const std::vector<const AdapterKind*>& adapter_kinds();
/// The kind that `lora.peft_type` names; null: unknown.
const AdapterKind* find_adapter_kind(const std::string& name);
/// Its title; the name itself if the kind is unknown.
std::string adapter_title(const std::string& name);
/// "LORA or IA3": the names of the kinds with this property, joined by commas and `last`.
std::string adapter_kinds_that(const std::function<bool(const AdapterKind&)>& property, const char* last);

/// Whether training.loraplus_lr_ratio has an effect.
bool takes_lora_plus(const Config& config);
/// The tokens of a learned prompt or prefix, which take positions in front of every sample; 0 for other adapters.
int64_t virtual_tokens(const LoraConfig& lora);

}  // namespace trainer::config
