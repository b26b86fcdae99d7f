// The optimizers of `training.optim`. To add one: a row here, a file in engine/optim, and a row in
// engine/optim/optimizers.h.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trainer::config {

enum class OptimizerName { kAdamW, kAdamWFused, kSgd, kAdafactor, kLion, kRmsprop, kAdagrad, kMuon, kAdamW8Bit };

/// A key of `training.optim_args`: a number of at least 0, or one of the other kinds.
struct OptimArg {
  std::string_view name;  // torch's
  bool is_switch = false;
  bool is_integer = false;
  std::span<const std::string_view> choices{};  // their index is the value
};

inline constexpr OptimArg kSgdArgs[] = {{"momentum"}, {"dampening"}, {"nesterov", true}};
inline constexpr OptimArg kRmspropArgs[] = {{"momentum"}, {"alpha"}, {"eps"}, {"centered", true}};
inline constexpr OptimArg kAdagradArgs[] = {{"lr_decay"}, {"eps"}};
inline constexpr std::string_view kMuonRates[] = {"original", "match_rms_adamw"};
inline constexpr OptimArg kMuonArgs[] = {{"momentum"},
                                         {.name = "nesterov", .is_switch = true},
                                         {"eps"},
                                         {.name = "ns_steps", .is_integer = true},
                                         {.name = "adjust_lr_fn", .choices = kMuonRates}};

/// The options that an optimizer reads besides the learning rate and the weight decay.
struct OptimizerOptions {
  OptimizerName optim;
  std::string_view name;    // transformers' name
  std::string_view family;  // its name in help texts
  bool betas = false;       // adam_beta1 and adam_beta2
  bool epsilon = false;     // adam_epsilon
  std::span<const OptimArg> args{};
  bool in_codes = false;  // its state is quantized: it has no average over ranks
};

inline constexpr OptimizerOptions kOptimizers[] = {
    {.optim = OptimizerName::kAdamWFused,
     .name = "adamw_torch_fused",
     .family = "AdamW",
     .betas = true,
     .epsilon = true},
    {.optim = OptimizerName::kAdamW, .name = "adamw_torch", .family = "AdamW", .betas = true, .epsilon = true},
    {.optim = OptimizerName::kSgd, .name = "sgd", .family = "sgd", .args = kSgdArgs},
    {.optim = OptimizerName::kAdafactor, .name = "adafactor", .family = "adafactor"},
    {.optim = OptimizerName::kLion, .name = "lion", .family = "lion", .betas = true},
    {.optim = OptimizerName::kRmsprop, .name = "rmsprop", .family = "rmsprop", .args = kRmspropArgs},
    {.optim = OptimizerName::kAdagrad, .name = "adagrad", .family = "adagrad", .args = kAdagradArgs},
    {.optim = OptimizerName::kMuon,
     .name = "muon",
     .family = "muon",
     .betas = true,
     .epsilon = true,
     .args = kMuonArgs},
    {.optim = OptimizerName::kAdamW8Bit,
     .name = "adamw_8bit",
     .family = "AdamW",
     .betas = true,
     .epsilon = true,
     .in_codes = true},
};

/// Further names of these. A paged state may be moved to the host and back; the updates are the same.
inline constexpr std::pair<OptimizerName, std::string_view> kOtherOptimizerNames[] = {
    {OptimizerName::kLion, "lion_32bit"},
    {OptimizerName::kLion, "paged_lion_32bit"},
    {OptimizerName::kAdamW8Bit, "adamw_bnb_8bit"},
    {OptimizerName::kAdamW8Bit, "paged_adamw_8bit"},
    {OptimizerName::kAdamWFused, "paged_adamw"},
    {OptimizerName::kAdamWFused, "paged_adamw_32bit"},
    {OptimizerName::kAdamWFused, "adamw_apex_fused"}};

/// transformers' optimizers that this version doesn't have.
inline constexpr std::string_view kLaterOptimizers[] = {"ademamix",
                                                        "adamw_hf",
                                                        "adamw_torch_xla",
                                                        "adamw_torch_npu_fused",
                                                        "adamw_anyprecision",
                                                        "adamw_torch_4bit",
                                                        "adamw_torch_8bit",
                                                        "ademamix_8bit",
                                                        "lion_8bit",
                                                        "paged_ademamix_32bit",
                                                        "paged_ademamix_8bit",
                                                        "paged_lion_8bit",
                                                        "rmsprop_bnb",
                                                        "rmsprop_bnb_8bit",
                                                        "rmsprop_bnb_32bit",
                                                        "galore_adamw",
                                                        "galore_adamw_8bit",
                                                        "galore_adafactor",
                                                        "galore_adamw_layerwise",
                                                        "galore_adamw_8bit_layerwise",
                                                        "galore_adafactor_layerwise",
                                                        "lomo",
                                                        "adalomo",
                                                        "grokadamw",
                                                        "schedule_free_radam",
                                                        "schedule_free_adamw",
                                                        "schedule_free_sgd",
                                                        "apollo_adamw",
                                                        "apollo_adamw_layerwise",
                                                        "stable_adamw"};

/// Pairs of value and name, in the order of the table.
constexpr auto optimizer_names() {
  std::array<std::pair<OptimizerName, std::string_view>, std::size(kOptimizers)> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = {kOptimizers[i].optim, kOptimizers[i].name};
  return names;
}

const OptimizerOptions& options_of(OptimizerName optim);

/// The families of the optimizers with this property, for texts: "sgd, rmsprop or adagrad".
std::string families_where(bool (*property)(const OptimizerOptions&));
/// The arguments of each optimizer, for texts: "for sgd momentum, dampening and nesterov; for …".
std::string arguments_of_all();

}  // namespace trainer::config
