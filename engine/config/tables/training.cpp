#include "engine/config/tables.h"

namespace trainer::config {

const Entries& training_table() {
  using C = TrainingConfig;
  auto by_epochs = [](const Config& c) { return c.training.max_steps <= 0; };
  auto warms_up = [](const Config& c) { return c.training.lr_scheduler_type != Schedule::kConstant; };
  auto adam = [](const Config& c) { return c.training.optim != OptimizerName::kSgd; };
  auto sgd = [](const Config& c) { return c.training.optim == OptimizerName::kSgd; };
  auto ddp = [](const Config& c) { return c.distributed_type == DistributedType::kMultiCpu; };
  static const Entries entries = table<C>(
      option("per_device_train_batch_size", &C::per_device_train_batch_size)
          .help("Samples of a rank in one forward pass.")
          .ask("How many samples should a rank take at a time (batch size)?")
          .at_least(1),
      option("per_device_eval_batch_size", &C::per_device_eval_batch_size)
          .help("The same in evaluation.")
          .at_least(1)
          .when("there are validation samples", validates),
      option("gradient_accumulation_steps", &C::gradient_accumulation_steps)
          .help("Forward passes that make one update.")
          .at_least(1),
      option("global_batch_size", &C::global_batch_size)
          .help("Samples of one update over all ranks, kept whatever their number. 0: per_device_train_batch_size x "
                "gradient_accumulation_steps x ranks.")
          .at_least(0),
      option("num_train_epochs", &C::num_train_epochs)
          .help("Passes over the training samples; fractions are allowed.")
          .ask("How many epochs?")
          .above(0.0)
          .when("max_steps is not given", by_epochs),
      option("max_steps", &C::max_steps).help("Updates. Above 0 it decides instead of num_train_epochs.").at_least(-1),
      option("learning_rate", &C::learning_rate)
          .help("Learning rate at its highest.")
          .ask("Which learning rate?")
          .at_least(0.0),
      option("lr_scheduler_type", &C::lr_scheduler_type).help("How the learning rate goes down."),
      option("warmup_steps", &C::warmup_steps)
          .alias("warmup_ratio")
          .help("Updates in which the learning rate rises from 0; below 1 it is a part of all updates.")
          .at_least(0.0)
          .when("lr_scheduler_type is not constant", warms_up),
      option("weight_decay", &C::weight_decay).help("Not for biases and norms.").at_least(0.0),
      option("max_grad_norm", &C::max_grad_norm)
          .help("Gradients are scaled down to this norm over all parameters and ranks. 0: never.")
          .at_least(0.0),
      option("optim", &C::optim).help("The optimiser."),
      option("adam_beta1", &C::adam_beta1)
          .help("Decay of the first moment.")
          .at_least(0.0)
          .below(1.0)
          .when("optim is AdamW", adam),
      option("adam_beta2", &C::adam_beta2)
          .help("Decay of the second moment.")
          .at_least(0.0)
          .below(1.0)
          .when("optim is AdamW", adam),
      option("adam_epsilon", &C::adam_epsilon)
          .help("Added to the root of the second moment.")
          .above(0.0)
          .when("optim is AdamW", adam),
      option("sgd_momentum", &C::sgd_momentum).help("Momentum.").at_least(0.0).below(1.0).when("optim is sgd", sgd),
      option("gradient_checkpointing", &C::gradient_checkpointing)
          .alias("activation_checkpointing")
          .help("Recomputes a block in the backward pass instead of keeping its activations."),
      option("dropout", &C::dropout).help("false: every dropout of the model is off."),
      option("ddp_bucket_cap_mb", &C::ddp_bucket_cap_mb)
          .help("Megabytes of gradients that ranks exchange at a time.")
          .above(0.0)
          .when("distributed_type is MULTI_CPU", ddp),

      // Names of TrainingArguments that say here something else, or nothing.
      unsupported("auto_find_batch_size"), unsupported("label_smoothing_factor"), unsupported("neftune_noise_alpha"),
      unsupported("torch_compile"), unsupported("bf16").instead("mixed_precision: bf16 does it"),
      unsupported("fp16").instead("mixed_precision says it"), unsupported("deepspeed"),
      unsupported("fsdp").instead("distributed_type: FSDP does it"));
  return entries;
}

}  // namespace trainer::config
