#include <algorithm>

#include "engine/config/tables.h"

namespace trainer::config {

const Entries& lora_table() {
  using C = LoraConfig;
  const auto is = [](std::vector<std::string> kinds) {
    return [kinds = std::move(kinds)](const Config& c) {
      return c.lora && std::count(kinds.begin(), kinds.end(), c.lora->peft_type) != 0;
    };
  };
  const auto lora = is({"LORA"}), ia3 = is({"IA3"}), layers = is({"LORA", "IA3"}), p_tuning = is({"P_TUNING"}),
             prompt = is({"PROMPT_TUNING"}), prefix = is({"PREFIX_TUNING"}),
             prompts = is({"PREFIX_TUNING", "PROMPT_TUNING", "P_TUNING"}), networks = is({"PREFIX_TUNING", "P_TUNING"});
  const char *when_lora = "lora.peft_type is LORA", *when_layers = "lora.peft_type is LORA or IA3",
             *when_prompts = "lora.peft_type is PREFIX_TUNING, PROMPT_TUNING or P_TUNING",
             *when_networks = "lora.peft_type is PREFIX_TUNING or P_TUNING",
             *when_p_tuning = "lora.peft_type is P_TUNING";
  static const Entries entries = table<C>(
      option("path", &C::path)
          .help("An adapter folder to start from. Its adapter_config.json sets the options below; only lora_dropout "
                "can be overridden.")
          .path(),
      option("peft_type", &C::peft_type)
          .help("The kind of adapter.")
          .one_of({"LORA", "IA3", "PREFIX_TUNING", "PROMPT_TUNING", "P_TUNING"}, "another PEFT type, which is refused"),
      option("task_type", &C::task_type)
          .help("PEFT's name for the task; must match data.task.")
          .one_of({"", "CAUSAL_LM", "SEQ_2_SEQ_LM", "SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION"}),
      option("inference_mode", &C::inference_mode).help("Must be false; otherwise there is nothing to train."),
      option("r", &C::r)
          .help("Rank of the adapters.")
          .ask("What should be the rank of the adapters?")
          .at_least(1)
          .when(when_lora, lora),
      option("lora_alpha", &C::lora_alpha)
          .help("Adapters are scaled by lora_alpha / r.")
          .ask("What should be lora_alpha? (adapters are scaled by lora_alpha / r)")
          .above(0.0)
          .when(when_lora, lora),
      option("lora_dropout", &C::lora_dropout)
          .help("Dropout on the input of the adapters.")
          .ask("What should be the dropout of the adapters?")
          .at_least(0.0)
          .below(1.0)
          .when(when_lora, lora),
      option("target_modules", &C::target_modules)
          .help("Layers that get an adapter: a list of names, a regular expression for whole names, or all-linear. "
                "Empty: the defaults of the model type.")
          .ask("Which layers get an adapter, separated by commas? (empty: the defaults)")
          .when(when_layers, layers),
      option("exclude_modules", &C::exclude_modules).help("Layers that get no adapter.").when(when_layers, layers),
      option("modules_to_save", &C::modules_to_save)
          .help("Layers that are trained in full and saved with the adapters."),
      option("bias", &C::bias).help("Which biases are trained.").when(when_lora, lora),
      option("use_rslora", &C::use_rslora).help("Scales by lora_alpha / sqrt(r).").when(when_lora, lora),
      option("fan_in_fan_out", &C::fan_in_fan_out)
          .help("The weights are stored transposed, as GPT-2's are.")
          .no_effect("the model's layers determine how weights are stored"),
      option("init_lora_weights", &C::init_lora_weights)
          .help(
              "true: as PEFT does; gaussian: A from a normal distribution; false: adapters that change the output from "
              "the start; pissa (pissa_niter_N) and olora: from the weight's own decomposition. An adapter made with "
              "pissa or olora is saved with twice the rank, so that it fits the unchanged weights.")
          .one_of({"true", "false", "gaussian", "pissa", "olora"}, "pissa_niter_N")
          .when(when_lora, lora),
      option("use_dora", &C::use_dora)
          .help("DoRA: learns the direction and the magnitude of a weight separately.")
          .when(when_lora, lora),
      option("layers_to_transform", &C::layers_to_transform)
          .help("Indices of the blocks whose layers get an adapter. Empty: all.")
          .when(when_lora, lora),
      option("layers_pattern", &C::layers_pattern)
          .help("Names of the module lists that layers_to_transform indexes, such as layers or h.")
          .when(when_lora, lora),
      option("rank_pattern", &C::rank_pattern)
          .help("Ranks for layers whose path ends with a pattern; if several match, the alphabetically first pattern "
                "applies.")
          .when(when_lora, lora),
      option("alpha_pattern", &C::alpha_pattern).help("The same for lora_alpha.").when(when_lora, lora),
      option("feedforward_modules", &C::feedforward_modules)
          .help("Layers of target_modules whose input is scaled instead of their output. Empty: the defaults of the "
                "model type.")
          .when("lora.peft_type is IA3", ia3),
      option("init_ia3_weights", &C::init_ia3_weights)
          .help("false: random values, for tests.")
          .when("lora.peft_type is IA3", ia3),
      option("num_virtual_tokens", &C::num_virtual_tokens)
          .help("Tokens of the learned prompt or prefix.")
          .at_least(0)
          .when(when_prompts, prompts),
      option("prefix_projection", &C::prefix_projection)
          .help("Computes the prefix with a small network, which is not saved: such an adapter can't be trained "
                "further.")
          .when("lora.peft_type is PREFIX_TUNING", prefix),
      option("encoder_hidden_size", &C::encoder_hidden_size)
          .help("Width of the network that computes the prompt or prefix. 0: the model's.")
          .at_least(0)
          .when(when_networks, networks),
      option("encoder_reparameterization_type", &C::encoder_reparameterization_type)
          .help("Network that computes the prompt.")
          .one_of({"MLP", "LSTM"})
          .when(when_p_tuning, p_tuning),
      option("encoder_num_layers", &C::encoder_num_layers)
          .help("Layers of the LSTM.")
          .at_least(1)
          .when(when_p_tuning, p_tuning),
      option("encoder_dropout", &C::encoder_dropout)
          .help("Dropout of the LSTM; only 0 is supported.")
          .at_least(0.0)
          .below(1.0)
          .when(when_p_tuning, p_tuning),
      option("prompt_tuning_init", &C::prompt_tuning_init)
          .help("Initial prompt: random, or the embeddings of a text or of random tokens.")
          .one_of({"RANDOM", "TEXT", "SAMPLE_VOCAB"})
          .when("lora.peft_type is PROMPT_TUNING", prompt),
      option("prompt_tuning_init_text", &C::prompt_tuning_init_text)
          .help("Text of the initial prompt.")
          .when("lora.peft_type is PROMPT_TUNING", prompt),

      // The rest of PEFT's LoraConfig.
      no_effect("auto_mapping", "PEFT fills it in itself"), no_effect("base_model_name_or_path", "model.path sets it"),
      no_effect("megatron_core", "no layer comes from Megatron-LM"),
      no_effect("peft_version", "it is only informational"),
      no_effect("qalora_group_size", "it is for QALoRA, which is not supported"),
      no_effect("revision", "model.path is a folder"),
      unsupported("alora_invocation_tokens", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("arrow_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("corda_config", "this version supports LoRA, rsLoRA and DoRA"),
      no_effect("ensure_weight_tying", "tied modules stay tied"),
      unsupported("eva_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("kasa_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("layer_replication", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("loftq_config", "weights are not quantized"), unsupported("lora_bias", "adapters have no bias"),
      unsupported("lora_ga_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("megatron_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("monteclora_config", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("target_parameters", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("trainable_token_indices", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("use_bdlora", "this version supports LoRA, rsLoRA and DoRA"),
      unsupported("use_qalora", "weights are not quantized"),
      unsupported("velora_config", "this version supports LoRA, rsLoRA and DoRA"));
  return entries;
}

}  // namespace trainer::config
