// The sections `lora`, of every kind of adapter, and `dpo`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainer::config {

enum class LoraBias { kNone, kAll, kLoraOnly };

/// A list of names, or (exactly one string) a regular expression or "all-linear", as PEFT reads `target_modules`.
struct NamesOrPattern {
  std::vector<std::string> names;
  std::string pattern;
  bool empty() const { return names.empty() && pattern.empty(); }
};

/// `lora`: PEFT's LoraConfig, same names and defaults.
struct LoraConfig {
  std::string path;  // an adapter folder to start from
  std::string peft_type = "LORA";
  std::string task_type;  // "" or checked against data.task
  bool inference_mode = false;
  int64_t r = 8;
  double lora_alpha = 8;
  double lora_dropout = 0.0;
  NamesOrPattern target_modules;  // empty: the model type's default
  NamesOrPattern exclude_modules;
  std::vector<std::string> modules_to_save;
  LoraBias bias = LoraBias::kNone;
  bool use_rslora = false;
  bool fan_in_fan_out = false;
  std::string init_lora_weights = "true";  // true | false | gaussian | pissa | pissa_niter_N | olora
  bool use_dora = false;
  std::vector<int64_t> layers_to_transform;  // empty: all
  std::vector<std::string> layers_pattern;
  std::map<std::string, int64_t> rank_pattern;  // by a pattern of the layer's path
  std::map<std::string, double> alpha_pattern;
  // IA3
  NamesOrPattern feedforward_modules;  // empty: the model type's default
  bool init_ia3_weights = true;
  // VERA, LOHA
  bool init_weights = true;
  // VERA
  double vera_dropout = 0.0;
  double d_initial = 0.1;
  int64_t projection_prng_key = 0;
  bool save_projection = true;
  // LOHA
  double alpha = 8;
  double rank_dropout = 0.0;
  double module_dropout = 0.0;
  bool use_effective_conv2d = false;
  // PREFIX_TUNING, PROMPT_TUNING, P_TUNING
  int64_t num_virtual_tokens = 0;
  bool prefix_projection = false;
  int64_t encoder_hidden_size = 0;                      // 0: the model's width
  std::string encoder_reparameterization_type = "MLP";  // MLP | LSTM
  int64_t encoder_num_layers = 2;
  double encoder_dropout = 0.0;
  std::string prompt_tuning_init = "RANDOM";  // RANDOM | TEXT | SAMPLE_VOCAB
  std::string prompt_tuning_init_text;
};

/// The losses of pairs (models/nn/preference_loss.h).
enum class PreferenceLoss { kSigmoid, kRobust, kHinge, kIpo, kSigmoidNorm };

/// `dpo`: the loss of TRL's DPOConfig, same names and defaults.
struct DpoConfig {
  PreferenceLoss loss_type = PreferenceLoss::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
  double rpo_alpha = 0;  // 0: no such term
};

}  // namespace trainer::config
