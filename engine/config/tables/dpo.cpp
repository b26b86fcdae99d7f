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
  static const Entries entries = table<C>(
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
              "pair. (TRL since 1.0: loss_type [sigmoid, sft] with loss_weights [1, rpo_alpha].) 0: not added.")
          .at_least(0),
      no_effect("precompute_ref_log_probs", stored).of<bool>().harmless({"true"}),
      no_effect("precompute_ref_batch_size", "it is training.per_device_eval_batch_size").of<int64_t>(),
      no_effect("padding_free", "samples are never padded").of<bool>().harmless({"true"}),
      no_effect("use_logits_to_keep", "the head only runs on the replies").of<bool>().harmless({"true"}),
      no_effect("disable_dropout", "training.dropout: false turns dropout off").of<bool>(),
      unsupported("max_length", "set data.max_length, the tokens of a prompt with its reply"),
      unsupported("truncation_mode", "a text that is too long loses its end").harmless({"keep_start"}),
      unsupported("reference_free", fixed).of<bool>(), unsupported("sync_ref_model", fixed).of<bool>(),
      unsupported("loss_weights", "set one loss_type, and the weight of sft as rpo_alpha"),
      unsupported("use_weighting", "WPO's weights are not supported"),
      unsupported("ld_alpha", "LD-DPO is not supported"),
      unsupported("f_divergence_type", "only the reverse KL divergence is supported").harmless({"reverse_kl"}));
  return entries;
}

}  // namespace trainer::config
