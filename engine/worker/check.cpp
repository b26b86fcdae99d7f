#include <unistd.h>

#include <cstdlib>
#include <map>

#include <fmt/ranges.h>

#include "data/shares.h"
#include "engine/base/errors.h"
#include "engine/config/plan.h"
#include "engine/metrics/human.h"
#include "engine/optim/schedule.h"
#include "engine/parallel/wrap_policy.h"
#include "engine/train/build.h"
#include "engine/worker/commands.h"

namespace trainer::worker {
namespace {

config::Plan plan_from_descriptor() {
  const char* const fd = std::getenv("TRAINER_PLAN_FD");
  if (fd == nullptr) throw ConfigError("`trainer-worker check` is called by `trainer check`.");
  std::string text(size_t{1} << 22, '\0');
  const ssize_t size = ::pread(std::atoi(fd), text.data(), text.size(), 0);
  if (size <= 0) throw InternalError("the plan could not be read");
  text.resize(static_cast<size_t>(size));
  return config::parse_plan(text);
}

struct Sizes {
  int64_t parameters = 0, trained = 0;
  std::vector<std::string> tied;
};

Sizes sizes_of(models::Model& model) {
  Sizes sizes;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    sizes.parameters += p->numel();
    if (p->trainable) sizes.trained += p->numel();
    for (const std::string& alias : p->aliases) sizes.tied.push_back(alias + " = " + p->name);
  }
  return sizes;
}

void line(const char* name, const std::string& text) {
  fmt::print("{:<12} {}\n", name, text);
}

void print_model(const config::Plan& plan, train::Blueprint& blueprint) {
  const Sizes sizes = sizes_of(*blueprint.model);
  line("model", fmt::format("{}, {} parameters, {} trained ({:.2f} %)", blueprint.model->class_name(),
                            metrics::human_count(sizes.parameters), metrics::human_count(sizes.trained),
                            100.0 * sizes.trained / sizes.parameters));
  if (!sizes.tied.empty()) line("tied", fmt::format("{}", fmt::join(sizes.tied, ", ")));
  if (plan.config.lora)
    line("lora", fmt::format("r {}, alpha {}, on {} layers", blueprint.lora.r, blueprint.lora.lora_alpha,
                             blueprint.adapted_layers));
}

/// Weights, gradients and optimiser state of one rank, and the largest unit that is whole at a time.
void print_sharding(const config::Plan& plan, models::Model& model) {
  const config::Config& c = plan.config;
  const Sizes sizes = sizes_of(model);
  const int64_t ranks = plan.world_size();
  const bool sharded = c.distributed_type == config::DistributedType::kFsdp;
  constexpr int64_t kFloatBytes = 4;
  const int64_t states = c.training.optim == config::OptimizerName::kSgd ? (c.training.sgd_momentum > 0 ? 1 : 0) : 2;
  int64_t bytes = kFloatBytes * (sizes.parameters + sizes.trained * (1 + states)) / (sharded ? ranks : 1);
  if (sharded) {
    std::map<std::string, int64_t> classes;
    int64_t largest = 0, in_units = 0;
    for (nn::Module* unit : parallel::units_to_wrap(model, c.fsdp_config)) {
      ++classes[unit->class_name()];
      int64_t numel = 0;
      for (const nn::ParameterPtr& p : unit->all_parameters()) numel += p->numel();
      largest = std::max(largest, numel);
      in_units += numel;
    }
    std::vector<std::string> units;
    for (const auto& [name, count] : classes) units.push_back(fmt::format("{} {}", count, name));
    const int64_t whole = kFloatBytes * (sizes.parameters - in_units + 2 * largest);
    line("fsdp units", fmt::format("{} and the root; whole at a time: the root and 2 units, {}", fmt::join(units, ", "),
                                   metrics::human_bytes(whole)));
    bytes += whole;
  }
  line("memory", fmt::format("{} a rank for weights, gradients and optimiser state; activations come on top",
                             metrics::human_bytes(bytes)));
}

void print_data(const config::Plan& plan, const train::Inputs& inputs) {
  const data::Dataset &train = inputs.datasets.train, &validation = inputs.datasets.validation;
  line("data", fmt::format("{} samples, {} tokens (longest source {}, target {}; {} cut off); {} for validation",
                           train.size(), metrics::human_count(train.tokens()), train.longest_source(),
                           train.longest_target(), train.truncated(), validation.size()));
  const config::TrainingConfig& t = plan.config.training;
  const int64_t batch = t.global_batch_size > 0
                            ? t.global_batch_size
                            : t.per_device_train_batch_size * t.gradient_accumulation_steps * plan.world_size();
  const data::Updates updates(train.size(), batch);
  const int64_t total = t.max_steps > 0 ? t.max_steps : updates.total(t.num_train_epochs);
  const optim::LearningRate schedule(t.lr_scheduler_type, t.learning_rate, t.warmup_steps, total);
  line("updates",
       fmt::format("{} of {} samples ({} an epoch) on {} ranks", total, batch, updates.per_epoch(), plan.world_size()));
  line("learning rate", fmt::format("{:.3g} at the first update, {:.3g} half way, {:.3g} at the last", schedule.at(0),
                                    schedule.at(total / 2), schedule.at(total - 1)));
}

}  // namespace

int check_command() {
  const config::Plan plan = plan_from_descriptor();
  train::Blueprint blueprint = train::make_blueprint(plan);
  const train::Inputs inputs = train::load_inputs(plan, blueprint.model->vocabulary());
  print_model(plan, blueprint);
  print_sharding(plan, *blueprint.model);
  print_data(plan, inputs);
  if (const std::string warning = train::precision_warning(plan); !warning.empty()) line("warning", warning);
  fmt::print("\nNothing is wrong with {}.\n", plan.source);
  return kDone;
}

}  // namespace trainer::worker
