// The loss of TRL's DPOConfig.
#include "engine/config/tables.h"

namespace trainer::config {

const Entries& dpo_table() {
  using C = DpoConfig;
  auto smooths = [](const Config& c) {
    return !c.dpo || (c.dpo->loss_type != PreferenceLoss::kHinge && c.dpo->loss_type != PreferenceLoss::kIpo);
  };
  const char* const stored = "the reference's log-probabilities are always computed once, before the first update";
  const char* const fixed = "the reference is the model that the run starts from";
  const char* const padded = "samples are never padded";
  const char* const both = "data.max_length limits a prompt with its reply, and cuts the end of a longer text";
  static const Entries ours = table<C>(
      option("loss_type", &C::loss_type)
          .help("sigmoid: DPO's. robust: unbiased if label_smoothing of the preferences are wrong. hinge: SLiC's. ipo: "
                "a squared distance, per token. sigmoid_norm: DPO's, per token."),
      option("beta", &C::beta)
          .help(
              "How much the model is held to the reference: a larger value, a smaller change. For ipo, the inverse of "
              "twice the wanted margin.")
          .above(0),
      option("label_smoothing", &C::label_smoothing)
          .help("The fraction of preferences that are assumed to be wrong: conservative DPO.")
          .at_least(0)
          .below(0.5)
          .when("dpo.loss_type is sigmoid, sigmoid_norm or robust", smooths),
      option("rpo_alpha", &C::rpo_alpha)
          .help(
              "RPO: adds this times the cross-entropy of the chosen reply, a mean over its tokens, to the loss of each "
              "pair. (TRL since 1.0: loss_type [sigmoid, sft] with loss_weights [1, rpo_alpha], which is read too.) 0: "
              "not added.")
          .at_least(0),
      no_effect("precompute_ref_log_probs", stored).of<bool>().harmless({"true", "false"}),
      no_effect("precompute_ref_batch_size", "it is training.per_device_eval_batch_size").of<int64_t>(),
      no_effect("padding_value", padded), no_effect("label_pad_token_id", padded).harmless({"-100"}),
      no_effect("use_logits_to_keep", "the head only runs on the replies").of<bool>().harmless({"true"}),
      no_effect("disable_dropout", "training.dropout: false turns dropout off").of<bool>(),
      no_effect("max_prompt_length", both), no_effect("max_completion_length", both),
      no_effect("generate_during_eval", "evaluations compare pairs; `trainer generate` writes replies").of<bool>(),
      no_effect("ref_model_init_kwargs", fixed), no_effect("model_adapter_name", "a run trains one adapter"),
      no_effect("ref_adapter_name", fixed), no_effect("force_use_ref_model", fixed).of<bool>(),
      no_effect("ref_model_mixup_alpha", fixed).of<double>().harmless({"0.6"}),
      no_effect("ref_model_sync_steps", fixed).of<int64_t>().harmless({"512"}),
      no_effect("f_alpha_divergence_coef", "only the reverse KL divergence is supported").harmless({"0.5", "1.0"}),
      no_effect("discopop_tau", "the loss discopop is not supported").harmless({"0.05"}),
      no_effect("base_model_attribute_name", "no Python code runs").harmless({"model"}),
      no_effect("tools", "tools are read from the column `tools`"),
      unsupported("max_length", "set data.max_length, the tokens of a prompt with its reply"),
      unsupported("is_encoder_decoder", "dpo compares the replies of causal models").of<bool>(),
      unsupported("reference_free", fixed).of<bool>(), unsupported("sync_ref_model", fixed).of<bool>(),
      unsupported("loss_weights",
                  "give it with its list of losses, [1, a] for loss_type [sigmoid, sft]; or set rpo_alpha"),
      unsupported("use_weighting", "WPO's weights are not supported"),
      unsupported("ld_alpha", "LD-DPO is not supported"),
      unsupported("f_divergence_type", "only the reverse KL divergence is supported").harmless({"reverse_kl"}));
  static const Entries entries = joined({ours, trl_keys()});
  return entries;
}

}  // namespace trainer::config
