// Rules about updates, outputs and metrics.
#include "engine/config/rules/groups.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "engine/base/metrics.h"

#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/machine/device.h"
#include "engine/config/plan/optim_args.h"
#include "engine/config/rules/judge.h"
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
        "deterministic is true, but with training.auto_find_batch_size the free memory determines how samples are "
        "accumulated: leave one of them out");
  if (config.min_machines > 0 && config.min_machines < config.num_machines)
    judge.refuse(
        "deterministic",
        "deterministic is true, but between min_machines {} and num_machines {} lost machines change how many ranks "
        "sum gradients: leave min_machines out",
        config.min_machines, config.num_machines);
}

void local_sgd(const Config& config, Judge& judge) {
  const int64_t steps = config.training.local_sgd_steps;
  if (steps > 0 && options_of(config.training.optim).in_codes)
    judge.refuse("training.optim",
                 "training.optim is {}, but under training.local_sgd_steps a save averages the optimizer state of the "
                 "ranks, and quantized state has no average: use adamw_torch_fused, or leave out local_sgd_steps",
                 name_of(config.training.optim));
  if (steps == 0 || judge.failed("distributed_type")) return;
  const bool ddp = uses_ddp(config);
  if (ddp && !config.parallelism_config) return;
  const auto [key, value] = type_as_given(config, judge);
  judge.refuse("training.local_sgd_steps",
               "training.local_sgd_steps is {}, but {} is {}{}: under local SGD each rank needs the whole model, as in "
               "MULTI_CPU",
               steps, key, value, ddp ? " with a parallelism_config" : "");
}

void schedule(const Config& config, Judge& judge) {
  const TrainingConfig& t = config.training;
  const ScheduleConfig& more = t.lr_scheduler_kwargs;
  if (t.lr_scheduler_type == Schedule::kPolynomial && more.lr_end >= t.learning_rate)
    judge.refuse("training.lr_scheduler_kwargs.lr_end", "lr_end is {}, but learning_rate is {}: lr_end must be smaller",
                 more.lr_end, t.learning_rate);
  const bool has_min_lr =
      t.lr_scheduler_type == Schedule::kCosineWithMinLr || t.lr_scheduler_type == Schedule::kCosineWarmupWithMinLr;
  if (has_min_lr && (more.min_lr >= 0) == (more.min_lr_rate >= 0))
    judge.refuse("training.lr_scheduler_kwargs.min_lr",
                 "{} needs exactly one of min_lr and min_lr_rate in lr_scheduler_kwargs; {} given",
                 name_of(t.lr_scheduler_type), more.min_lr >= 0 ? "both are" : "none is");
  if (t.lr_scheduler_type == Schedule::kWarmupStableDecay && more.num_decay_steps < 0)
    judge.refuse("training.lr_scheduler_kwargs.num_decay_steps",
                 "warmup_stable_decay needs num_decay_steps in lr_scheduler_kwargs");
}

/// A run must not write into a folder that it reads.
void output(const Config& config, Judge& judge) {
  if (judge.failed("output_dir") || config.output_dir.empty()) return;
  const auto read_by = [&](const char* option, const std::vector<std::string>& paths) {
    if (std::find(paths.begin(), paths.end(), config.output_dir) == paths.end()) return;
    judge.refuse("output_dir", "output_dir is {}, the folder that {} reads: use another folder for output_dir",
                 shown(config.output_dir), option);
  };
  read_by("data.train.path", config.data.train.path);
  read_by("data.validation.path", {config.data.validation.path});
  read_by("model.path", {config.model.path});
  read_by("lora.path", {config.lora ? config.lora->path : ""});
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
    judge.refuse("training.ddp_comm_hook",
                 "training.ddp_comm_hook: {} is not supported with pipeline parallelism: leave it out",
                 name_of(t.ddp_comm_hook));
  if (t.local_sgd_steps > 0)
    judge.warn("training.ddp_comm_hook",
               "training.ddp_comm_hook: {} has no effect with local_sgd_steps, which exchanges no gradients",
               name_of(t.ddp_comm_hook));
  if (!power_sgd) return;
  if (config.mixed_precision == MixedPrecision::kFp16)
    judge.refuse("training.ddp_comm_hook",
                 "training.ddp_comm_hook: {} is not supported with mixed_precision fp16: a gradient that overflows "
                 "would remain in the state that PowerSGD keeps between updates; use bf16",
                 name_of(t.ddp_comm_hook));
  if (t.ddp_comm_state_option.use_error_feedback || t.ddp_comm_state_option.warm_start)
    judge.warn("training.ddp_comm_hook",
               "training.ddp_comm_hook: {}: checkpoints don't contain the state that PowerSGD keeps between updates, "
               "so a resumed run will differ slightly from an uninterrupted one",
               name_of(t.ddp_comm_hook));
}

/// What keeps a run's passes from being recorded and repeated, with what it conflicts with.
std::vector<std::string> reasons_against_graphs(const Config& config, const Judge& judge) {
  const TrainingConfig& t = config.training;
  const ParallelismConfig mesh = config.parallelism_config.value_or(ParallelismConfig{});
  std::vector<std::string> reasons;
  if (config.distributed_type != DistributedType::kNo && !uses_ddp(config)) {
    const auto [key, value] = type_as_given(config, judge);
    reasons.push_back(
        fmt::format("{} is {}, which allocates and frees the memory of its units within a pass", key, value));
  }
  if (mesh.tp_size * mesh.cp_size * mesh.pp_size > 1)
    reasons.emplace_back("parallelism_config splits the model, so ranks exchange values within a pass");
  if (config.data.task != Task::kCausalLm)
    reasons.push_back(
        fmt::format("data.task is {}, and only the passes of causal_lm are recorded", name_of(config.data.task)));
  if (config.dpo) reasons.emplace_back("dpo is given, whose loss is of pairs");
  if (config.lora && virtual_tokens(*config.lora) > 0)
    reasons.push_back(
        fmt::format("lora.peft_type is {}, whose virtual tokens are added on the host", config.lora->peft_type));
  if (recomputes(config) && t.activation_offloading)
    reasons.emplace_back("activation_offloading is true, which copies to the host within a pass");
  if (t.local_sgd_steps > 0) reasons.push_back(fmt::format("local_sgd_steps is {}", t.local_sgd_steps));
  if (uses_ddp(config) && t.ddp_comm_hook != CommHook::kNo)
    reasons.push_back(
        fmt::format("ddp_comm_hook is {}, which compresses gradients during a pass", name_of(t.ddp_comm_hook)));
  return reasons;
}

void graphs(const Config& config, Judge& judge) {
  if (!config.training.cuda_graphs || !asks_for_gpus(config) || judge.failed("distributed_type")) return;
  const std::vector<std::string> reasons = reasons_against_graphs(config, judge);
  if (!reasons.empty())
    judge.refuse("training.cuda_graphs", "training.cuda_graphs is true, but {}: leave cuda_graphs out, or change that",
                 fmt::join(reasons, "; and "));
}

void generation(const Config& config, Judge& judge) {
  if (config.evaluation.generate && !validates(config)) {
    judge.refuse("evaluation.generate",
                 "evaluation.generate needs validation samples: set data.validation.fraction or data.validation.path");
  }
  const int64_t beams = config.evaluation.num_beams;
  if (beams > 1 && config.evaluation.temperature > 0)
    judge.refuse(
        "evaluation.num_beams",
        "evaluation.num_beams {} searches for the likeliest text, and temperature {} draws one: leave one of them out",
        beams, config.evaluation.temperature);
  if (beams > 1 && config.parallelism_config && config.parallelism_config->pp_size > 1)
    judge.refuse(
        "evaluation.num_beams",
        "evaluation.num_beams is {}, but parallelism_config_pp_size is {}: beams are searched for in one stage "
        "only; leave num_beams out",
        beams, config.parallelism_config->pp_size);
}

bool classifies(const Config& config) {
  return config.data.task == Task::kSequenceClassification || config.data.task == Task::kImageClassification;
}

void comparisons(const Config& config, Judge& judge) {
  if (config.dpo || classifies(config) || config.evaluation.generate || !validates(config)) return;
  for (const std::string& name : config.evaluation.metrics)
    if (any_compares({name}))
      judge.refuse("evaluation.metrics",
                   "evaluation.metrics: {} compares generated text with labels and needs evaluation.generate: true",
                   name);
}

void best(const Config& config, Judge& judge) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.save_strategy == SaveStrategy::kBest &&
      (checkpoint.metric_for_best_model == "none" || !validates(config)))
    judge.refuse("checkpoint.save_strategy", "checkpoint.save_strategy is best, but {}",
                 validates(config) ? "checkpoint.metric_for_best_model is none: set it to loss or another metric"
                                   : "there are no validation samples to measure it on: set data.validation");
  const auto& metrics = config.evaluation.metrics;
  const std::string& wanted = checkpoint.metric_for_best_model;
  const bool always = wanted == "none" || wanted == "loss" || (wanted == "accuracy" && classifies(config)) ||
                      (config.dpo && is_reward(wanted));
  if (always || !validates(config)) return;
  if (std::find(metrics.begin(), metrics.end(), wanted) == metrics.end())
    judge.refuse(
        "checkpoint.metric_for_best_model",
        "checkpoint.metric_for_best_model is {}, but evaluation.metrics [{}] does not include it: add {} there", wanted,
        fmt::join(metrics, ", "), wanted);
}

}  // namespace

std::vector<Rule> rules_of_training() {
  return {
      {"batch-product", "The global batch size is the product of micro-batch size, accumulation steps and ranks.",
       batch},
      {"deterministic-is-fixed", "Bitwise identical runs must not depend on free memory or lost machines.",
       deterministic},
      {"local-sgd-has-copies", "Under local SGD each rank holds the whole model.", local_sgd},
      {"output-is-apart", "A run must not write into a folder that it reads.", output},
      {"warmup-ends", "A warm-up that is longer than the run draws a warning.", warmup},
      {"schedule-is-whole", "A schedule needs the parameters of its formula.", schedule},
      {"optim-args-fit", "An optimizer accepts only its own arguments, within their ranges.", optimizer},
      {"compression-fits", "Gradient compression must be supported, and its limits draw a warning.", compression},
      {"graphs-repeat-passes", "Passes are recorded only where nothing but the values of a batch changes.", graphs},
      {"generation-has-samples", "Generation needs validation samples, and one way of choosing tokens.", generation},
      {"accuracy-has-text", "Accuracy and most other metrics compare generated text, or the class, with the label.",
       comparisons},
      {"best-is-measured", "The metric of the best checkpoint must be evaluated.", best},
  };
}

}  // namespace trainer::config
