// LoRA, rsLoRA and DoRA.
#include <algorithm>

#include "engine/base/errors.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/adapters/read.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

using C = LoraConfig;

Entries lora_options() {
  return entries_of<C>(
      option("r", &C::r).help("Rank of the adapters.").ask("What should be the rank of the adapters?").at_least(1),
      option("lora_alpha", &C::lora_alpha)
          .help("Adapters are scaled by lora_alpha / r.")
          .ask("What should be lora_alpha? (adapters are scaled by lora_alpha / r)")
          .above(0.0),
      option("lora_dropout", &C::lora_dropout)
          .help("Dropout on the input of the adapters.")
          .ask("What should be the dropout of the adapters?")
          .at_least(0.0)
          .below(1.0),
      option("target_modules", &C::target_modules)
          .help("Layers that get an adapter: a list of names, a regular expression for whole names, or all-linear. "
                "Empty: the defaults of the model type.")
          .ask("Which layers get an adapter? (empty: the defaults)"),
      option("exclude_modules", &C::exclude_modules).help("Layers that get no adapter."),
      option("bias", &C::bias).help("Which biases are trained."),
      option("use_rslora", &C::use_rslora).help("Scales by lora_alpha / sqrt(r)."),
      option("init_lora_weights", &C::init_lora_weights)
          .help(
              "true: as PEFT does; gaussian: A from a normal distribution; false: adapters that change the output from "
              "the start; pissa (pissa_niter_N) and olora: from the weight's own decomposition. An adapter made with "
              "pissa or olora is saved with twice the rank, so that it fits the unchanged weights.")
          .one_of({"true", "false", "gaussian", "pissa", "olora"}, "pissa_niter_N"),
      option("use_dora", &C::use_dora).help("DoRA: learns the direction and the magnitude of a weight separately."),
      option("layers_to_transform", &C::layers_to_transform)
          .help("Indices of the blocks whose layers get an adapter. Empty: all."),
      option("layers_pattern", &C::layers_pattern)
          .help("Names of the module lists that layers_to_transform indexes, such as layers or h."),
      option("rank_pattern", &C::rank_pattern)
          .help("Ranks for layers whose path ends with a pattern; if several match, the alphabetically first pattern "
                "applies."),
      option("alpha_pattern", &C::alpha_pattern).help("The same for lora_alpha, or for alpha of LoHa."));
}

/// How adapters start.
void check_init(const LoraConfig& lora, Judge& judge) {
  const std::string init = lower(lora.init_lora_weights);
  for (const char* known : {"true", "false", "gaussian", "pissa", "olora"})
    if (init == known) return;
  constexpr std::string_view kIterations = "pissa_niter_";
  const std::string count = init.starts_with(kIterations) ? init.substr(kIterations.size()) : "";
  const bool digits = std::all_of(count.begin(), count.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!count.empty() && count.size() < 4 && digits) return;
  judge.refuse("lora.init_lora_weights",
               "lora.init_lora_weights {} is not supported; true, false, gaussian, pissa, pissa_niter_N (N below 1000) "
               "and olora are",
               shown(init));
}

void check_dora(const LoraConfig& lora, const AdapterMesh& mesh, Judge& judge) {
  if (mesh.tensor > 1 && lora.use_dora)
    judge.refuse("lora.use_dora", "lora.use_dora is true, but {}: tensor parallelism supports only LoRA without DoRA",
                 mesh.tensor_given);
}

/// Variants that change the forward pass: refused rather than ignored.
void refuse_variants(const nlohmann::json& file, const std::string& where) {
  for (const char* key : {"use_qalora", "use_bdlora", "lora_bias"})
    if (file.contains(key) && file[key] != false)
      throw InputError("{}: {} is set; this version supports LoRA, rsLoRA and DoRA.", where, key);
  for (const char* key :
       {"alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "megatron_config",
        "monteclora_config", "target_parameters", "trainable_token_indices", "velora_config"})
    if (file.contains(key)) throw InputError("{}: {} is set; this version supports LoRA, rsLoRA and DoRA.", where, key);
}

/// What the file's init does to the base weights: PEFT repeats it when it loads the folder.
std::string read_init(const nlohmann::json& file, const std::string& where) {
  const nlohmann::json value = file.value("init_lora_weights", nlohmann::json(true));
  const std::string init = value.is_string() ? value.get<std::string>() : "true";
  if (init == "pissa" || init == "olora") return init;
  for (const char* changed : {"pissa_niter_", "corda", "loftq", "lora_ga", "mica"})
    if (init.starts_with(changed))
      throw InputError(
          "{}: init_lora_weights is '{}': the adapter fits modified base weights, which the folder doesn't contain.\n  "
          "Save it from PEFT with path_initial_model_for_weight_conversion.",
          where, init);
  return "true";
}

LoraBias read_bias(const nlohmann::json& file, const std::string& where) {
  const std::string bias = file.value("bias", "none");
  for (const auto known : {LoraBias::kNone, LoraBias::kAll, LoraBias::kLoraOnly})
    if (bias == name_of(known)) return known;
  throw InputError("{}: bias is '{}'; it must be none, all or lora_only.", where, bias);
}

void read_lora(const nlohmann::json& file, const std::string& where, LoraConfig& o) {
  refuse_variants(file, where);
  read_ranks(file, where, o);
  read_blocks(file, o);
  o.alpha_pattern = file.value("alpha_pattern", o.alpha_pattern);
  o.lora_alpha = file.value("lora_alpha", o.lora_alpha);
  o.lora_dropout = file.value("lora_dropout", o.lora_dropout);
  o.use_rslora = file.value("use_rslora", false);
  o.use_dora = file.value("use_dora", false);
  o.bias = read_bias(file, where);
  o.init_lora_weights = read_init(file, where);
}

}  // namespace

const AdapterKind& lora_kind() {
  static const AdapterKind kind{.name = "LORA",
                                .title = "LoRA",
                                .options = lora_options(),
                                .overridable = {"lora_dropout"},
                                .check = check_init,
                                .check_mesh = check_dora,
                                .read = read_lora,
                                .splits = true,
                                .lora_plus = true};
  return kind;
}

}  // namespace trainer::config
