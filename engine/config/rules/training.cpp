// How the updates are made and measured.
#include "engine/config/rules/groups.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "engine/config/judge.h"
#include "engine/config/optim_args.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

void batch(const Config& config, Judge& judge) {
  const TrainingConfig& training = config.training;
  if (training.global_batch_size == 0 || !judge.is_set("training.gradient_accumulation_steps")) return;
  const ParallelismConfig mesh = config.parallelism_config.value_or(ParallelismConfig{});
  const int64_t data_ranks = std::max<int64_t>(1, config.num_processes / (mesh.tp_size * mesh.cp_size * mesh.pp_size));
  const int64_t ranks = data_ranks * devices_of(config);
  const double product =
      double(training.per_device_train_batch_size) * double(training.gradient_accumulation_steps) * double(ranks);
  if (product == double(training.global_batch_size)) return;
  judge.refuse(
      "training.global_batch_size",
      "training.global_batch_size is {}, but per_device_train_batch_size {} x gradient_accumulation_steps {} x {} "
      "ranks is {}: leave out gradient_accumulation_steps",
      training.global_batch_size, training.per_device_train_batch_size, training.gradient_accumulation_steps, ranks,
      product);
}

void deterministic(const Config& config, Judge& judge) {
  if (!config.deterministic) return;
  if (config.training.auto_find_batch_size)
    judge.refuse(
        "deterministic",
        "deterministic is true, but with training.auto_find_batch_size the free memory decides how samples are "
        "added up: leave one of them out");
  if (config.min_machines > 0 && config.min_machines < config.num_machines)
    judge.refuse(
        "deterministic",
        "deterministic is true, but between min_machines {} and num_machines {} losses decide how many ranks add "
        "up: leave min_machines out",
        config.min_machines, config.num_machines);
}

void local_sgd(const Config& config, Judge& judge) {
  const int64_t steps = config.training.local_sgd_steps;
  if (steps == 0 || judge.failed("distributed_type")) return;
  const bool ddp = uses_ddp(config);
  if (ddp && !config.parallelism_config) return;
  const auto [key, value] = type_as_given(config, judge);
  judge.refuse("training.local_sgd_steps",
               "training.local_sgd_steps is {}, but {} is {}{}: ranks that train alone need the whole model each, as "
               "under MULTI_CPU",
               steps, key, value, ddp ? " with a parallelism_config" : "");
}

void schedule(const Config& config, Judge& judge) {
  const TrainingConfig& t = config.training;
  const ScheduleConfig& more = t.lr_scheduler_kwargs;
  if (t.lr_scheduler_type == Schedule::kPolynomial && more.lr_end >= t.learning_rate)
    judge.refuse("training.lr_scheduler_kwargs.lr_end", "lr_end is {}, but learning_rate is {}: it must end below",
                 more.lr_end, t.learning_rate);
  if (t.lr_scheduler_type == Schedule::kCosineWithMinLr && (more.min_lr >= 0) == (more.min_lr_rate >= 0))
    judge.refuse("training.lr_scheduler_kwargs.min_lr",
                 "cosine_with_min_lr needs one of min_lr and min_lr_rate in lr_scheduler_kwargs; {} are given",
                 more.min_lr >= 0 ? "both" : "none");
  if (t.lr_scheduler_type == Schedule::kWarmupStableDecay && more.num_decay_steps < 0)
    judge.refuse("training.lr_scheduler_kwargs.num_decay_steps",
                 "warmup_stable_decay needs num_decay_steps in lr_scheduler_kwargs");
}

/// What a run writes must not become what the next one reads, nor take the place of what it starts from.
void output(const Config& config, Judge& judge) {
  if (judge.failed("output_dir") || config.output_dir.empty()) return;
  const auto is_output = [&](const std::string& path) { return path == config.output_dir; };
  const auto& train = config.data.train.path;
  if (std::any_of(train.begin(), train.end(), is_output))
    judge.refuse("output_dir", "output_dir is {}, the folder that data.train.path reads: give the run another one",
                 shown(config.output_dir));
}

void warmup(const Config& config, Judge& judge) {
  const TrainingConfig& t = config.training;
  if (t.max_steps > 0 && t.warmup_steps > static_cast<double>(t.max_steps) && !judge.failed("training.warmup_steps"))
    judge.warn("training.warmup_steps",
               "training.warmup_steps is {}, but max_steps is {}: the learning rate never reaches {}", t.warmup_steps,
               t.max_steps, t.learning_rate);
}

void optimizer(const Config& config, Judge& judge) {
  try {
    read_optim_args(config.training);
  } catch (const ConfigError& error) {
    judge.refuse("training.optim_args", "training.optim_args: {}", error.what());
  }
}

void compression(const Config& config, Judge& judge) {
  const TrainingConfig& t = config.training;
  const bool power_sgd = t.ddp_comm_hook == CommHook::kPowerSgd || t.ddp_comm_hook == CommHook::kBatchedPowerSgd;
  if (t.ddp_comm_hook == CommHook::kNo || !uses_ddp(config)) return;
  if (config.parallelism_config && config.parallelism_config->pp_size > 1)
    judge.refuse("training.ddp_comm_hook", "training.ddp_comm_hook: {} is not supported with a pipeline: leave it out",
                 name_of(t.ddp_comm_hook));
  if (t.local_sgd_steps > 0)
    judge.warn("training.ddp_comm_hook",
               "training.ddp_comm_hook: {} has no effect with local_sgd_steps, which exchanges no gradients",
               name_of(t.ddp_comm_hook));
  if (!power_sgd) return;
  if (config.mixed_precision == MixedPrecision::kFp16)
    judge.refuse("training.ddp_comm_hook",
                 "training.ddp_comm_hook: {} is not supported with mixed_precision fp16: a gradient that overflows "
                 "would stay in what it keeps from update to update; use bf16",
                 name_of(t.ddp_comm_hook));
  if (t.ddp_comm_state_option.use_error_feedback || t.ddp_comm_state_option.warm_start)
    judge.warn("training.ddp_comm_hook",
               "training.ddp_comm_hook: {}: a checkpoint doesn't hold what PowerSGD keeps from update to update, so a "
               "resumed run will differ a little from one that was not stopped",
               name_of(t.ddp_comm_hook));
}

void generation(const Config& config, Judge& judge) {
  if (config.evaluation.generate && !validates(config)) {
    judge.refuse("evaluation.generate",
                 "evaluation.generate needs validation samples: give data.validation.fraction or "
                 "data.validation.path");
  }
}

void accuracy(const Config& config, Judge& judge) {
  const auto& metrics = config.evaluation.metrics;
  const bool accuracy = std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
  const bool classes =
      config.data.task == Task::kSequenceClassification || config.data.task == Task::kImageClassification;
  if (accuracy && !classes && !config.evaluation.generate && validates(config)) {
    judge.refuse("evaluation.metrics",
                 "evaluation.metrics: accuracy compares generated text with labels and needs "
                 "evaluation.generate: true");
  }
}

void best(const Config& config, Judge& judge) {
  const auto& metrics = config.evaluation.metrics;
  const bool classes =
      config.data.task == Task::kSequenceClassification || config.data.task == Task::kImageClassification;
  if (config.checkpoint.metric_for_best_model != "accuracy" || classes || !validates(config)) return;
  if (std::find(metrics.begin(), metrics.end(), "accuracy") == metrics.end())
    judge.refuse(
        "checkpoint.metric_for_best_model",
        "checkpoint.metric_for_best_model is accuracy, but evaluation.metrics [{}] lacks it: add accuracy there",
        fmt::join(metrics, ", "));
}

}  // namespace

std::vector<Rule> rules_of_training() {
  return {
      {"batch-product", "The global batch is what all ranks take in all forward passes of an update.", batch},
      {"deterministic-is-fixed", "What is to be equal bit for bit may depend on nothing that changes.", deterministic},
      {"local-sgd-has-copies", "Ranks that train alone for a while hold the whole model each.", local_sgd},
      {"output-is-apart", "A run doesn't read what it writes.", output},
      {"warmup-ends", "A warm-up that outlasts the run is told.", warmup},
      {"schedule-is-whole", "A schedule has what its formula needs.", schedule},
      {"optim-args-fit", "An optimiser takes the arguments it has, in their ranges.", optimizer},
      {"compression-fits", "Gradients are made smaller where they are exchanged, and what that costs is said.",
       compression},
      {"generation-has-samples", "Text is generated for validation samples.", generation},
      {"accuracy-has-text", "Accuracy compares generated text, or the class, with the label.", accuracy},
      {"best-is-measured", "The best checkpoint is chosen by what evaluations measure.", best},
  };
}

}  // namespace trainer::config
