// `optimizer` of a ds_config.json.
#include "engine/base/edit_distance.h"
#include "engine/config/translate/deepspeed.h"

namespace trainer::config {
namespace {

const std::string kOptimizerParams = "optimizer.params.";
const std::string kOptimizerType = "optimizer.type";

/// The learning rate, unless the schedule sets it.
void translate_learning_rate(Draft& draft, DsDocument& ds) {
  const DsScheduler& scheduler = ds.config().scheduler;
  const bool by_schedule = lower(scheduler.type) == "warmupdecaylr" || scheduler.params.warmup_max_lr.given;
  const GivenKey given = ds.key(kOptimizerParams + "lr"), risen = ds.key("scheduler.params.warmup_max_lr");
  if (scheduler.params.warmup_max_lr.given && ds.config().optimizer.params.lr.given && !same(given.value, risen.value))
    Translation(draft).no_effect(given, "the schedule sets the learning rate, which rises to warmup_max_lr");
  else
    ds.set(kOptimizerParams + "lr", "training.learning_rate");
  if (!by_schedule) ds.assume(kOptimizerParams + "lr", encode(1e-3), kOptimizerType, "training.learning_rate");
}

/// DeepSpeed refuses this key, because it has another one for clipping.
void translate_clipping(Draft& draft) {
  Translation translation(draft);
  const GivenKey given = translation.foreign("ds_config." + kOptimizerParams + "max_grad_norm");
  if (given.value.is_null() || given.value.text == "auto") return;
  if (parse_double(given.value.text) == draft.config.training.max_grad_norm)
    translation.no_effect(given, "training.max_grad_norm, which gradient_clipping sets, is the same");
  else
    translation.refuse(given, fmt::format("use gradient_clipping, outside optimizer, which is {}",
                                          draft.config.training.max_grad_norm));
}

void translate_betas(Draft& draft, DsDocument& ds) {
  Translation translation(draft);
  const GivenKey given = ds.key(kOptimizerParams + "betas");
  const std::vector<std::string>& betas = ds.config().optimizer.params.betas;
  if (!ds.has(kOptimizerParams + "betas")) {
    ds.assume(kOptimizerParams + "betas", encode(0.9), kOptimizerType, "training.adam_beta1");
    ds.assume(kOptimizerParams + "betas", encode(0.999), kOptimizerType, "training.adam_beta2");
  } else if (betas.size() == 2) {
    translation.set(given, "training.adam_beta1", Node::scalar(betas[0]));
    translation.set(given, "training.adam_beta2", Node::scalar(betas[1]));
  } else if (betas != std::vector<std::string>{"auto"}) {
    draft.problems.add(given.mark, given.key,
                       fmt::format("{} must be two numbers or auto; is {}", given.key, shown(text_of(given.value))));
  }
}

void translate_adam(Draft& draft, DsDocument& ds) {
  Translation translation(draft);
  const bool is_adamw = lower(ds.config().optimizer.type) == "adamw";
  const DsOptimizerParams& params = ds.config().optimizer.params;
  const bool decoupled = is_adamw || params.adam_w_mode;
  const OptimizerName now = draft.config.training.optim;
  const OptimizerName adam = now == OptimizerName::kAdamW ? now : OptimizerName::kAdamWFused;  // both are AdamW
  translation.set(ds.key(kOptimizerType), "training.optim", encode(adam));
  translate_betas(draft, ds);
  ds.set(kOptimizerParams + "eps", "training.adam_epsilon");
  ds.assume(kOptimizerParams + "eps", encode(1e-8), kOptimizerType, "training.adam_epsilon");
  ds.set(kOptimizerParams + "weight_decay", "training.weight_decay");
  ds.assume(kOptimizerParams + "weight_decay", encode(params.torch_adam && decoupled ? 0.01 : 0.0), kOptimizerType,
            "training.weight_decay");
  const double decay = draft.config.training.weight_decay;
  if (!decoupled && decay != 0) {
    translation.refuse(
        ds.key(kOptimizerParams + "adam_w_mode"),
        fmt::format("with weight decay {} it adds the decay to the gradient; AdamW needs true, or a decay of 0",
                    decay));
  }
  if (ds.has(kOptimizerParams + "momentum"))
    translation.refuse(ds.key(kOptimizerParams + "momentum"), "Adam has no momentum; use betas");
}

void translate_sgd(Draft& draft, DsDocument& ds) {
  Translation translation(draft);
  translation.set(ds.key(kOptimizerType), "training.optim", encode(OptimizerName::kSgd));
  ds.set(kOptimizerParams + "momentum", "training.sgd_momentum");
  ds.assume(kOptimizerParams + "momentum", encode(0.0), kOptimizerType, "training.sgd_momentum");
  ds.set(kOptimizerParams + "weight_decay", "training.weight_decay");
  ds.assume(kOptimizerParams + "weight_decay", encode(0.0), kOptimizerType, "training.weight_decay");
  for (const char* key : {"betas", "eps"}) {
    if (ds.has(kOptimizerParams + key)) translation.refuse(ds.key(kOptimizerParams + key), "SGD has no such parameter");
  }
}

}  // namespace

void translate_optimizer(Draft& draft, DsDocument& ds) {
  const DsOptimizer& optimizer = ds.config().optimizer;
  if (!ds.has("optimizer")) return;
  const GivenKey type = ds.key(kOptimizerType);
  const std::string name = lower(optimizer.type);
  if (name == "adam" || name == "adamw") {
    translate_adam(draft, ds);
  } else if (name == "sgd") {
    translate_sgd(draft, ds);
  } else if (name.empty()) {
    if (ds.failed(kOptimizerType)) return;
    draft.problems.add(draft.mark("ds_config.optimizer"), type.key,
                       fmt::format("{} is required in optimizer: AdamW, Adam or SGD", type.key));
    return;
  } else {
    const std::string meant = did_you_mean(optimizer.type, {"AdamW", "Adam", "SGD"});
    Translation(draft).refuse(
        type, "use AdamW, Adam or SGD" +
                  (meant.empty() ? "; training.optim offers more if the ds_config.json has no optimizer" : meant));
    return;
  }
  translate_clipping(draft);
  translate_learning_rate(draft, ds);
}

}  // namespace trainer::config
