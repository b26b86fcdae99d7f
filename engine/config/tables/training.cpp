#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/machine/device.h"
#include "engine/config/plan/optim_args.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

Entries joined(Entries entries, const Entries& others) {
  entries.insert(entries.end(), others.begin(), others.end());
  return entries;
}

}  // namespace

const Entries& training_table() {
  using C = TrainingConfig;
  auto by_epochs = [](const Config& c) { return c.training.max_steps <= 0; };
  auto warms_up = [](const Config& c) { return c.training.lr_scheduler_type != Schedule::kConstant; };
  using Optim = OptimizerOptions;
  auto reads_betas = [](const Optim& optim) { return optim.betas; };
  auto reads_epsilon = [](const Optim& optim) { return optim.epsilon; };
  auto reads_args = [](const Optim& optim) { return !optim.args.empty(); };
  auto betas = [=](const Config& c) { return reads_betas(options_of(c.training.optim)); };
  auto epsilon = [=](const Config& c) { return reads_epsilon(options_of(c.training.optim)); };
  auto sgd = [](const Config& c) { return c.training.optim == OptimizerName::kSgd; };
  auto fp16 = [](const Config& c) { return c.mixed_precision == MixedPrecision::kFp16; };
  auto power_sgd = [=](const Config& c) {
    const CommHook hook = c.training.ddp_comm_hook;
    return uses_ddp(c) && (hook == CommHook::kPowerSgd || hook == CommHook::kBatchedPowerSgd);
  };
  static const Entries ours = table<C>(
      option("per_device_train_batch_size", &C::per_device_train_batch_size)
          .help("Samples per rank in one forward pass.")
          .ask("How many samples should a rank take at a time (batch size)?")
          .at_least(1),
      option("per_device_eval_batch_size", &C::per_device_eval_batch_size)
          .help("The same in evaluation.")
          .at_least(1)
          .when("there are validation samples", validates),
      option("gradient_accumulation_steps", &C::gradient_accumulation_steps)
          .help("Forward passes per update.")
          .flag("--gradient_accumulation_steps")
          .env("ACCELERATE_GRADIENT_ACCUMULATION_STEPS")
          .omitted()  // global_batch_size determines it where it isn't given
          .at_least(1),
      option("global_batch_size", &C::global_batch_size)
          .help("Samples per update over all ranks, independent of the number of ranks. 0: per_device_train_batch_size "
                "x gradient_accumulation_steps x ranks.")
          .at_least(0),
      option("num_train_epochs", &C::num_train_epochs)
          .help("Passes over the training samples; fractions are allowed.")
          .ask("How many epochs?")
          .above(0.0)
          .when("max_steps is not given", by_epochs),
      option("max_steps", &C::max_steps)
          .help("Number of updates. A value above 0 overrides num_train_epochs.")
          .at_least(-1),
      option("learning_rate", &C::learning_rate).help("Peak learning rate.").ask("Which learning rate?").at_least(0.0),
      option("lr_scheduler_type", &C::lr_scheduler_type)
          .help("Learning-rate schedule: transformers' schedules, and DeepSpeed's WarmupLR, WarmupDecayLR and "
                "WarmupCosineLR."),
      section("lr_scheduler_kwargs", &C::lr_scheduler_kwargs, schedule_table())
          .help("Parameters of the schedule, in addition to warmup_steps."),
      option("warmup_steps", &C::warmup_steps)
          .help("Updates in which the learning rate rises from 0; a value below 1 is a fraction of all updates.")
          .at_least(0.0)
          .when("lr_scheduler_type is not constant", warms_up),
      option("weight_decay", &C::weight_decay).help("Weight decay; biases and norms are exempt.").at_least(0.0),
      option("max_grad_norm", &C::max_grad_norm)
          .help("Gradient clipping: maximum norm of the gradient over all parameters and ranks. 0: no clipping.")
          .flag("--gradient_clipping")
          .env("ACCELERATE_GRADIENT_CLIPPING")
          .at_least(0.0),
      option("optim", &C::optim)
          .help("The optimizer. bitsandbytes' paged ones (paged_adamw_8bit, ...) are the same without the paging: "
                "trainer check plans the memory of their state."),
      option("adam_beta1", &C::adam_beta1)
          .help("Decay of the first moment.")
          .at_least(0.0)
          .below(1.0)
          .when("optim is " + families_where(reads_betas), betas),
      option("adam_beta2", &C::adam_beta2)
          .help("Decay of the second moment; for lion, of its only moment (0.99 in its paper).")
          .at_least(0.0)
          .below(1.0)
          .when("optim is " + families_where(reads_betas), betas),
      option("adam_epsilon", &C::adam_epsilon)
          .help("Added to the square root of the second moment.")
          .above(0.0)
          .when("optim is " + families_where(reads_epsilon), epsilon),
      option("sgd_momentum", &C::sgd_momentum).help("Momentum.").at_least(0.0).below(1.0).when("optim is sgd", sgd),
      option("optim_args", &C::optim_args)
          .help("Further arguments of the optimizer, as \"key=value, key=value\" with torch's names: " +
                arguments_of_all() + ".")
          .when("optim is " + families_where(reads_args),
                [](const Config& c) { return takes_optim_args(c.training.optim); }),
      option("loraplus_lr_ratio", &C::loraplus_lr_ratio)
          .help("LoRA+: the learning rate of B is this many times that of A. 0: the same.")
          .at_least(0.0)
          .when("lora.peft_type is " + adapter_kinds_that([](const AdapterKind& kind) { return kind.lora_plus; }, "or"),
                takes_lora_plus),
      option("label_smoothing_factor", &C::label_smoothing_factor)
          .help("Label smoothing: the part of the target's probability that is spread over all tokens or classes.")
          .at_least(0.0)
          .below(1.0),
      option("neftune_noise_alpha", &C::neftune_noise_alpha)
          .help("NEFTune: adds uniform noise of at most this number / sqrt(tokens of the sample x hidden size) to the "
                "embeddings of tokens in training. 5 is usual; 0: no noise.")
          .at_least(0.0)
          .when("data.task is not image_classification",
                [](const Config& c) { return c.data.task != Task::kImageClassification; }),
      option("group_by_length", &C::group_by_length)
          .help(
              "Puts samples of similar length into the same update. Nothing is padded either way, and without it, too, "
              "an update's samples are divided so that the ranks have similar numbers of tokens."),
      option("dataloader_drop_last", &C::dataloader_drop_last)
          .help("Ends each epoch before the samples that don't fill a batch of all ranks (with global_batch_size, an "
                "update). Otherwise they form a smaller one. Evaluation uses all samples."),
      option("auto_find_batch_size", &C::auto_find_batch_size)
          .help("Finds the largest per_device_train_batch_size whose longest batches fit into memory, and keeps the "
                "global batch size by gradient accumulation."),
      option("max_tokens", &C::max_tokens)
          .help("Maximum tokens per rank in one forward pass: takes as many samples as fit, instead of "
                "per_device_train_batch_size. 0: per_device_train_batch_size decides.")
          .at_least(0),
      option("gradient_checkpointing", &C::gradient_checkpointing)
          .alias("activation_checkpointing")
          .help("Recomputes a block in the backward pass instead of keeping its activations."),
      option("activation_offloading", &C::activation_offloading)
          .alias("enable_activation_offloading")
          .help("Keeps the inputs of recomputed blocks in pinned host memory between forward and backward: a GPU holds "
                "those of at most two blocks. The copies overlap with computation. For runs on GPUs.")
          .harmless({"false"})
          .no_effect_if([](const Config& c) { return !asks_for_gpus(c); },
                        "this run trains on the CPU, whose activations are in host memory already")
          .when("gradient_checkpointing or fsdp_activation_checkpointing is true", recomputes),
      option("saved_activations", &C::saved_activations)
          .help(
              "How activations wait for the backward pass. bfloat16: those of fp32 in half of the memory; int8: all in "
              "8 bits, with a scale for each 128. The loss of an update stays the same; gradients are off by 0.1 to "
              "0.3 % with bfloat16 and by 0.2 to 0.8 % with int8. The inputs of recomputed blocks stay as they are."),
      option("encoder_cache_mb", &C::encoder_cache_mb)
          .help("MB of memory on each rank for the output of an encoder that isn't trained, as with adapters in the "
                "decoder "
                "only: a hidden state for each token, which later epochs read instead of computing it. Needs "
                "training.dropout: false, and the CPU. 0: no output is kept.")
          .at_least(0)
          .when("data.task is seq2seq_lm, distributed_type NO or MULTI_CPU, and no layer or sample is split over ranks",
                may_keep_encoder_output),
      option("dropout", &C::dropout).help("false: turns off every dropout of the model."),
      option("tf32", &C::tf32)
          .help("fp32 matrix products on GPUs use TF32: faster, with inputs rounded to 10 bits of mantissa. Needs "
                "compute capability 8.0 or newer. With mixed_precision, it affects only what stays in fp32.")
          .when("ranks train on GPUs", asks_for_gpus),
      option("float32_matmul_precision", &C::float32_matmul_precision)
          .help(
              "Precision of fp32 matrix products, in torch's words. highest: fp32. high: at least 10 bits of mantissa "
              "on GPUs (TF32) and 16 on CPUs with AMX. medium: 8 bits on CPUs with AMX, and on AMD's with AVX-512 for "
              "bf16. Where the processor has no such instructions, fp32. The weights and sums stay in fp32."),
      option("cuda_graphs", &C::cuda_graphs)
          .help(
              "Records the forward and backward pass of micro-batches whose samples have the same lengths as an "
              "earlier one's, and replays it as one CUDA graph, so that the host doesn't launch each operator. For "
              "causal_lm on blocks of one length (data.group_texts), where the host is slower than the GPU. Gradients "
              "of several ranks are summed after backward. The graphs' activations remain in memory.")
          .when("ranks train on GPUs", asks_for_gpus),
      option("ddp_bucket_cap_mb", &C::ddp_bucket_cap_mb)
          .help("Size of a gradient bucket in megabytes; ranks exchange one bucket at a time.")
          .above(0.0)
          .when("distributed_type is MULTI_CPU or MULTI_GPU", uses_ddp),
      option("ddp_timeout", &C::ddp_timeout)
          .help("Seconds that a rank waits for the others. (The launcher notices a lost rank at once. For a rank that "
                "is stuck within an update it waits a sixtieth of this, 30 seconds or the time of ten typical updates, "
                "whichever is longest.)")
          .at_least(1),
      option("ddp_comm_hook", &C::ddp_comm_hook)
          .help(
              "Compresses the gradients that ranks exchange: rounds them to fp16 or bf16, or factors them into two "
              "low-rank matrices (PowerSGD: each matrix separately, or with batched_power_sgd a whole bucket as one).")
          .when("distributed_type is MULTI_CPU or MULTI_GPU", uses_ddp),
      option("ddp_comm_wrapper", &C::ddp_comm_wrapper)
          .help("Rounds what ddp_comm_hook sends: fp16 or bf16.")
          .supported({CommHook::kNo, CommHook::kFp16, CommHook::kBf16})
          .when("ddp_comm_hook is given",
                [=](const Config& c) { return uses_ddp(c) && c.training.ddp_comm_hook != CommHook::kNo; }),
      section("ddp_comm_state_option", &C::ddp_comm_state_option, power_sgd_table())
          .help("PowerSGD's options.")
          .when("ddp_comm_hook is power_sgd or batched_power_sgd", power_sgd),
      option("ddp_backend", &C::ddp_backend)
          .help("Communication library, for every distributed_type: on the CPU gloo, or mpi (Open MPI, which `trainer "
                "launch` starts by itself); on GPUs nccl (the default), or gloo, which lets ranks share a GPU. "
                "docs/backends.md describes what another backend must provide."),
      option("gloo_transport", &C::gloo_transport)
          .help("How Gloo carries tensors between machines that share a secret (TRAINER_SECRET_FILE). tls: encrypted "
                "and authenticated (TLS 1.3). authenticated: each connection starts with a proof of the run's key, "
                "then is in clear; for networks that encrypt by themselves. tcp: neither; anyone who reaches a rank's "
                "port may take part. On one machine, where ranks that can't share memory use Gloo, tls is as "
                "authenticated.")
          .when("distributed_type is not NO", several_ranks),
      option("local_sgd_steps", &C::local_sgd_steps)
          .help("Local SGD: ranks exchange no gradients; each makes this many updates alone, then their weights are "
                "averaged. Weights are also averaged before an evaluation or a checkpoint, and before a checkpoint the "
                "optimizer state too. 0: off.")
          .at_least(0),
      section("loss_scaling", &C::loss_scaling, loss_scaling_table())
          .help("Loss scaling, which keeps small gradients from underflowing in fp16.")
          .when("mixed_precision is fp16", fp16),
      option("check_first_steps", &C::check_first_steps)
          .help("Checks in the first updates that every trained tensor gets a gradient, no frozen tensor changes, tied "
                "tensors stay tied, some labels contribute to the loss, and each update takes the right samples."),
      option("on_divergence", &C::on_divergence)
          .help("What to do if a loss or a gradient is not finite, or the loss is far above the previous ones: stop; "
                "skip the update; or rollback, which restores the weights of up to snapshot_steps updates ago and "
                "continues with the next samples."),
      option("loss_spike_deviations", &C::loss_spike_deviations)
          .help("A loss that is this many standard deviations above the mean of the last fifty counts as divergence. "
                "0: only non-finite values do.")
          .at_least(0.0),
      option("snapshot_steps", &C::snapshot_steps)
          .help("Updates between the in-memory snapshots that rollback restores; each rank keeps one snapshot of what "
                "it trains.")
          .at_least(1)
          .when("on_divergence is rollback",
                [](const Config& c) { return c.training.on_divergence == OnDivergence::kRollback; }));
  static const Entries entries = joined(ours, training_arguments_table());
  return entries;
}

const Entries& loss_scaling_table() {
  using C = LossScalingConfig;
  static const Entries entries =
      table<C>(option("loss_scale", &C::loss_scale)
                   .help("A scale that never changes; 0: it is dynamic. With one that never changes, updates that "
                         "overflow are skipped, and the 20th in a row ends the run.")
                   .at_least(0.0),
               option("initial_scale_power", &C::initial_scale_power)
                   .help("The scale starts at 2 to this power.")
                   .at_least(0)
                   .at_most(126),
               option("loss_scale_window", &C::loss_scale_window)
                   .help("Updates without an overflow after which the scale doubles.")
                   .at_least(1),
               option("hysteresis", &C::hysteresis).help("Overflows after which the scale is halved.").at_least(1),
               option("consecutive_hysteresis", &C::consecutive_hysteresis)
                   .help("What resets the count of overflows. true: an update without an overflow; false: a doubling "
                         "of the scale."),
               option("min_loss_scale", &C::min_loss_scale)
                   .help("Lower limit of the scale; an overflow at this limit ends the run. 0: 2 to the power of -24, "
                         "the smallest number of fp16.")
                   .at_least(0.0));
  return entries;
}

const Entries& power_sgd_table() {
  using C = PowerSgdConfig;
  static const Entries entries = table<C>(
      option("matrix_approximation_rank", &C::matrix_approximation_rank)
          .help("Rank of the low-rank matrices; a higher rank is more accurate.")
          .at_least(1),
      option("start_powerSGD_iter", &C::start_power_sgd_iter)
          .help("Updates with uncompressed gradients before PowerSGD starts.")
          .at_least(0),
      option("min_compression_rate", &C::min_compression_rate)
          .help("A gradient that would not shrink by more than this factor is sent uncompressed.")
          .at_least(0.0),
      option("use_error_feedback", &C::use_error_feedback).help("Adds the compression error to the next gradient."),
      option("warm_start", &C::warm_start).help("Starts from the matrices of the last update."),
      option("orthogonalization_epsilon", &C::orthogonalization_epsilon)
          .help("Added to the norm of a column before the column is divided by it.")
          .at_least(0.0),
      option("random_seed", &C::random_seed).help("Seed of the initial matrices."),
      no_effect("compression_stats_logging_frequency", "compression statistics are not logged").harmless({"10000"}),
      no_effect("batch_tensors_with_same_shape", "all matrices of a bucket are always sent together").of<bool>());
  return entries;
}

const Entries& schedule_table() {
  using C = ScheduleConfig;
  auto in_deepspeed = [](const Config& c) {
    const Schedule schedule = c.training.lr_scheduler_type;
    return schedule == Schedule::kWarmupLr || schedule == Schedule::kWarmupDecayLr ||
           schedule == Schedule::kWarmupCosineLr;
  };
  auto cosine = [](const Config& c) { return c.training.lr_scheduler_type == Schedule::kWarmupCosineLr; };
  auto is = [](Schedule schedule) {
    return [schedule](const Config& c) { return c.training.lr_scheduler_type == schedule; };
  };
  auto waves = [](const Config& c) {
    const Schedule schedule = c.training.lr_scheduler_type;
    return schedule == Schedule::kCosine || schedule == Schedule::kCosineWithRestarts ||
           schedule == Schedule::kCosineWithMinLr || schedule == Schedule::kCosineWarmupWithMinLr ||
           schedule == Schedule::kWarmupStableDecay;
  };
  auto has_min_lr = [=](const Config& c) {
    return is(Schedule::kCosineWithMinLr)(c) || is(Schedule::kCosineWarmupWithMinLr)(c);
  };
  auto rises = [=](const Config& c) { return in_deepspeed(c) && !cosine(c); };
  auto ends = [=](const Config& c) { return in_deepspeed(c) && c.training.lr_scheduler_type != Schedule::kWarmupLr; };
  auto warmup_has_type = [=](const Config& c) { return in_deepspeed(c) || is(Schedule::kWarmupStableDecay)(c); };
  static const Entries entries =
      table<C>(option("warmup_min_lr", &C::warmup_min_lr)
                   .help("Learning rate before the warm-up.")
                   .at_least(0.0)
                   .when("lr_scheduler_type is warmup_lr or warmup_decay_lr", rises),
               option("warmup_type", &C::warmup_type)
                   .help("Shape of the warm-up.")
                   .one_of({"log", "linear", "cosine", "1-sqrt"})
                   .when("lr_scheduler_type is one of DeepSpeed's, or warmup_stable_decay", warmup_has_type),
               option("total_num_steps", &C::total_num_steps)
                   .help("Update at which the decay ends. 0: the last one.")
                   .at_least(0)
                   .when("lr_scheduler_type is warmup_decay_lr or warmup_cosine_lr", ends),
               option("warmup_min_ratio", &C::warmup_min_ratio)
                   .help("Learning rate before the warm-up, as a fraction of learning_rate.")
                   .at_least(0.0)
                   .at_most(1.0)
                   .when("lr_scheduler_type is warmup_cosine_lr", cosine),
               option("cos_min_ratio", &C::cos_min_ratio)
                   .help("Final learning rate, as a fraction of learning_rate.")
                   .at_least(0.0)
                   .at_most(1.0)
                   .when("lr_scheduler_type is warmup_cosine_lr", cosine),

               // transformers'
               option("num_cycles", &C::num_cycles)
                   .help("Cosine cycles; 0: the schedule's default (0.5, or 1 for cosine_with_restarts).")
                   .at_least(0.0)
                   .when("lr_scheduler_type is one of the cosines or warmup_stable_decay", waves),
               option("lr_end", &C::lr_end)
                   .help("Final learning rate.")
                   .at_least(0.0)
                   .when("lr_scheduler_type is polynomial", is(Schedule::kPolynomial)),
               option("power", &C::power)
                   .help("Power of the polynomial.")
                   .above(0.0)
                   .when("lr_scheduler_type is polynomial", is(Schedule::kPolynomial)),
               option("timescale", &C::timescale)
                   .help("Time scale of the decay. 0: warmup_steps, or 10000.")
                   .at_least(0)
                   .when("lr_scheduler_type is inverse_sqrt", is(Schedule::kInverseSqrt)),
               option("min_lr", &C::min_lr)
                   .help("Final learning rate. -1: min_lr_rate sets it.")
                   .when("lr_scheduler_type is cosine_with_min_lr or cosine_warmup_with_min_lr", has_min_lr),
               option("min_lr_rate", &C::min_lr_rate)
                   .help("Final learning rate, as a fraction of learning_rate.")
                   .at_most(1.0)
                   .when("lr_scheduler_type is cosine_with_min_lr or cosine_warmup_with_min_lr", has_min_lr),
               option("num_decay_steps", &C::num_decay_steps)
                   .help("Updates in which the learning rate decays.")
                   .when("lr_scheduler_type is warmup_stable_decay", is(Schedule::kWarmupStableDecay)),
               option("num_stable_steps", &C::num_stable_steps)
                   .help("Updates at the peak learning rate. -1: the remaining ones.")
                   .when("lr_scheduler_type is warmup_stable_decay", is(Schedule::kWarmupStableDecay)),
               option("decay_type", &C::decay_type)
                   .help("Shape of the decay.")
                   .one_of({"cosine", "linear", "1-sqrt"})
                   .when("lr_scheduler_type is warmup_stable_decay", is(Schedule::kWarmupStableDecay)),
               option("min_lr_ratio", &C::min_lr_ratio)
                   .help("Final learning rate, as a fraction of learning_rate.")
                   .at_least(0.0)
                   .at_most(1.0)
                   .when("lr_scheduler_type is warmup_stable_decay", is(Schedule::kWarmupStableDecay)),
               option("warmup_lr_rate", &C::warmup_lr_rate)
                   .help("Learning rate of the first update, as a fraction of learning_rate. -1: 1 / warmup_steps.")
                   .at_most(1.0)
                   .when("lr_scheduler_type is cosine_warmup_with_min_lr", is(Schedule::kCosineWarmupWithMinLr)));
  return entries;
}

}  // namespace trainer::config
