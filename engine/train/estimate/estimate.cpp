#include "engine/train/estimate/estimate.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/names.h"
#include "engine/train/model_plan.h"
#include "models/registry.h"

namespace trainer::train {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
constexpr int64_t kUsualLength = 512, kUsualTarget = 128, kUsualRank = 8;

struct EstimateDtype {
  const char* name;
  int64_t bits;
  std::optional<config::MixedPrecision> precision;  // nothing: not for training
};
constexpr EstimateDtype kDtypes[] = {{"float32", 32, config::MixedPrecision::kNo},
                                     {"bfloat16", 16, config::MixedPrecision::kBf16},
                                     {"float16", 16, config::MixedPrecision::kFp16},
                                     {"int8", 8, {}},
                                     {"int4", 4, {}}};

const EstimateDtype& dtype_called(const std::string& name) {
  for (const EstimateDtype& dtype : kDtypes)
    if (name == dtype.name) return dtype;
  throw ConfigError("--dtypes {}: must be one of {}", name, fmt::join(estimate_dtypes(), ", "));
}

/// A strategy over several ranks, under its names.
struct EstimateStrategy {
  std::vector<std::string> names;
  config::DistributedType type;
  config::ShardingStrategy sharding = config::ShardingStrategy::kFullShard;
};

/// ZeRO's stages as engine/config/translate/deepspeed_zero.cpp runs them: stage 1 as stage 2.
std::vector<EstimateStrategy> strategies_of(const EstimateRequest& request) {
  using config::DistributedType, config::ShardingStrategy;
  if (request.ranks == 1) return {};
  return {{{"DDP"}, request.on_gpus ? DistributedType::kMultiGpu : DistributedType::kMultiCpu},
          {{"FSDP SHARD_GRAD_OP", "ZeRO-1", "ZeRO-2"}, DistributedType::kFsdp, ShardingStrategy::kShardGradOp},
          {{"FSDP FULL_SHARD", "ZeRO-3"}, DistributedType::kFsdp, ShardingStrategy::kFullShard}};
}

config::Task task_for(const EstimateRequest& request, const std::string& family) {
  const std::vector<models::Task> can = models::tasks_of(family);
  std::vector<std::string> names;
  for (const models::Task task : can) names.emplace_back(models::name_of(task));
  const std::string wanted = request.task.empty() && !names.empty() ? names.front() : request.task;
  if (!names.empty() && std::find(names.begin(), names.end(), wanted) == names.end())
    throw ConfigError("--task {}: a model of the family {} is trained for {}", wanted, family, fmt::join(names, ", "));
  // A family that this build doesn't have has no tasks: building the model reports it.
  return task_named(wanted).value_or(config::Task::kCausalLm);
}

std::string family_of_folder(const std::string& folder) {
  const std::string file = folder + "/config.json";
  const auto json = bounded_json_or_none(read_file(file, kMaxConfigBytes));
  if (!json.is_object()) throw InputError("{}: is not a JSON object, as a model's config.json is", file);
  const auto type = json.find("model_type");
  if (type == json.end() || !type->is_string())
    throw InputError("{}: has no model_type, which names the model's family\n  known families: {}", file,
                     fmt::join(models::model_types(), ", "));
  return type->get<std::string>();
}

config::Plan base_plan(const EstimateRequest& request) {
  config::Plan plan;
  plan.source = "estimate-memory";
  config::Config& c = plan.config;
  c.num_processes = 1;
  c.use_cpu = !request.on_gpus;
  c.model.path = request.folder;
  c.data.task = task_for(request, family_of_folder(request.folder));
  c.training.per_device_train_batch_size = request.batch_size;
  c.training.gradient_checkpointing = request.gradient_checkpointing;
  if (request.on_gpus) c.training.ddp_backend = config::DdpBackend::kNccl;
  return plan;
}

/// Sets the lengths of samples. Errors: ConfigError for more tokens than the model has positions.
void set_lengths(config::Plan& plan, const EstimateRequest& request, const models::Model& model, Estimate& estimate) {
  config::DataConfig& data = plan.config.data;
  if (data.task == config::Task::kImageClassification) return;
  const int64_t positions = most_tokens(plan, model), asked = request.sequence_length;
  if (positions > 0 && asked > positions)
    throw ConfigError("--sequence_length is {}, but {} has {} positions: {} or less", asked, model.class_name(),
                      positions, positions);
  const int64_t usual = positions > 0 ? std::min(kUsualLength, positions) : kUsualLength;
  estimate.source_length = asked > 0 ? asked : usual;
  data.max_source_length = data.max_length = estimate.source_length;
  if (data.task != config::Task::kSeq2SeqLm) return;
  estimate.target_length = std::min(kUsualTarget, estimate.source_length);
  data.max_target_length = estimate.target_length;
}

int64_t elements_below(nn::Module& module) {
  std::set<const nn::Parameter*> seen;
  int64_t elements = 0;
  module.visit([&](nn::Module& part) {
    for (const auto& [name, parameter] : part.parameters())
      if (seen.insert(parameter.get()).second) elements += parameter->numel();
  });
  return elements;
}

/// The module with the most parameters of those that are not split: transformer blocks, and modules without children,
/// as Accelerate's device maps take them.
std::pair<nn::Module*, int64_t> largest_layer(models::Model& model) {
  const std::vector<nn::Module*> blocks = model.blocks();
  std::pair<nn::Module*, int64_t> largest{&model, 0};
  const std::function<void(nn::Module&)> look = [&](nn::Module& module) {
    if (!module.children().empty() && std::find(blocks.begin(), blocks.end(), &module) == blocks.end()) {
      for (const nn::Module::Child& child : module.children()) look(*child.module);
      return;
    }
    if (const int64_t elements = elements_below(module); elements > largest.second) largest = {&module, elements};
  };
  look(model);
  return largest;
}

MemoryPlan memory_of(const config::Plan& plan, const EstimateRequest& request) {
  const Blueprint blueprint = make_blueprint(plan, {}, Weights::kMayLack);
  Workload workload = fullest_workload(plan, *blueprint.model);
  if (request.on_gpus) workload.transport = transport_of_gpus(plan.config);
  return plan_largest_memory(plan, {}, workload);
}

config::Plan in_dtype(config::Plan plan, const EstimateDtype& dtype) {
  plan.config.mixed_precision = dtype.precision.value_or(config::MixedPrecision::kBf16);
  return plan;
}

/// LoRA as it is usually trained in that dtype: the base model's weights are stored in it.
config::Plan with_lora(config::Plan plan, const EstimateDtype& dtype, const EstimateRequest& request, int64_t rank) {
  config::Config& c = plan.config;
  c.lora.emplace();
  c.lora->r = rank;
  if (request.targets == std::vector<std::string>{"all-linear"})
    c.lora->target_modules.pattern = "all-linear";
  else
    c.lora->target_modules.names = request.targets;
  if (dtype.precision) {
    c.model.dtype = dtype.name;
  } else {
    c.model.dtype = "bfloat16";
    c.model.quantization_config.load_in_4bit = true;
    c.model.quantization_config.bnb_4bit_quant_type = "nf4";
  }
  return plan;
}

std::string first_line_of(const Error& error) {
  const std::string why = error.what();
  return why.substr(0, why.find('\n'));
}

/// Plans the rows of a strategy, one for each dtype that it trains in.
class EstimatePlanner {
 public:
  EstimatePlanner(const EstimateRequest& request, const Estimate& estimate) : request_(request), estimate_(estimate) {}

  void add(EstimateRow& row, const config::Plan& plan) const {
    const EstimateDtype& dtype = dtype_called(row.dtype);
    if (dtype.precision) row.full = memory_of(in_dtype(plan, dtype), request_);
    if (estimate_.lora_rank == 0 || (!dtype.precision && dtype.bits != 4)) return;
    try {
      row.lora = memory_of(with_lora(in_dtype(plan, dtype), dtype, request_, estimate_.lora_rank), request_);
    } catch (const ConfigError& error) {  // layers whose sizes can't be quantized
      if (dtype.precision) throw;
      row.why_no_lora = first_line_of(error);
    }
  }

 private:
  const EstimateRequest& request_;
  const Estimate& estimate_;
};

/// Finds out whether the model can have the adapter, and with which targets.
void choose_lora(const config::Plan& plan, const EstimateRequest& request, models::Model& model, Estimate& estimate) {
  const bool asked = request.lora_rank > 0 || !request.targets.empty();
  const int64_t rank = request.lora_rank > 0 ? request.lora_rank : kUsualRank;
  try {
    make_blueprint(with_lora(plan, dtype_called("float32"), request, rank), {}, Weights::kMayLack);
  } catch (const ConfigError& error) {
    if (asked) throw;
    estimate.why_no_lora = first_line_of(error);
    return;
  }
  estimate.lora_rank = rank;
  estimate.lora_targets = request.targets.empty() ? model.default_lora_targets() : request.targets;
}

}  // namespace

const std::vector<std::string>& estimate_dtypes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const EstimateDtype& dtype : kDtypes) all.emplace_back(dtype.name);
    return all;
  }();
  return names;
}

Estimate estimate_memory(const EstimateRequest& request) {
  config::Plan plan = base_plan(request);
  const Blueprint blueprint = make_blueprint(plan, {}, Weights::kMayLack);
  models::Model& model = *blueprint.model;
  Estimate estimate;
  estimate.class_name = model.class_name();
  estimate.task = config::name_of(plan.config.data.task);
  for (const nn::ParameterPtr& parameter : model.all_parameters()) estimate.parameters += parameter->numel();
  set_lengths(plan, request, model, estimate);
  choose_lora(plan, request, model, estimate);
  const auto [layer, elements] = largest_layer(model);
  estimate.largest_layer = fmt::format("{} ({})", layer->path(), layer->class_name());
  const EstimatePlanner planner(request, estimate);
  for (const std::string& name : request.dtypes) {
    const int64_t bits = dtype_called(name).bits;
    estimate.alone.push_back(
        {name, "one rank", {"one rank"}, elements * bits / 8, estimate.parameters * bits / 8, {}, {}});
    planner.add(estimate.alone.back(), plan);
  }
  for (const EstimateStrategy& strategy : strategies_of(request)) {
    config::Plan spread = plan;
    spread.config.num_processes = request.ranks;
    spread.config.distributed_type = strategy.type;
    spread.config.fsdp_config.sharding_strategy = strategy.sharding;
    for (const std::string& name : request.dtypes) {
      if (name == "int8") continue;
      estimate.sharded.push_back(
          {name, fmt::format("{}", fmt::join(strategy.names, ", ")), strategy.names, 0, 0, {}, {}});
      planner.add(estimate.sharded.back(), spread);
    }
  }
  return estimate;
}

}  // namespace trainer::train
