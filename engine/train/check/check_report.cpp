#include "engine/train/check/check_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/adapters/inject.h"
#include "engine/base/gpu_faults.h"
#include "engine/config/machine/device.h"
#include "engine/config/tables.h"
#include "engine/optim/schedule.h"
#include "engine/parallel/wrap_policy.h"
#include "engine/train/build.h"
#include "engine/train/parallelism.h"
#include "models/nn/linear.h"

namespace trainer::train {
namespace {

ModelReport model_report(models::Model& model, const nn::PackedFormat* format) {
  ModelReport report{model.class_name(), 0, 0, {}};
  if (format != nullptr) report.packed_as = format->name;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    report.parameters += p->numel();
    if (p->trainable) report.trained += p->numel();
    if (format != nullptr && p->packable()) ++report.packed_layers, report.packed += p->numel();
    if (p->aliases.empty() || adapters::is_adapter(p->name)) continue;  // an adapter's layers may share a matrix
    report.tied.push_back({p->name});
    report.tied.back().insert(report.tied.back().end(), p->aliases.begin(), p->aliases.end());
  }
  return report;
}

std::vector<LoraTarget> lora_report(models::Model& model) {
  std::vector<LoraTarget> targets;
  model.visit([&](nn::Module& module) {
    const auto* const linear = dynamic_cast<const nn::Linear*>(&module);
    if (linear == nullptr) return;
    LoraTarget target{module.path(), linear->in(), linear->out(), 0};
    bool adapted = false;
    for (const auto& [name, parameter] : module.parameters()) {
      adapted = adapted || adapters::is_adapter("." + name);
      if (parameter->trainable) target.trained += parameter->numel();
    }
    if (adapted) targets.push_back(std::move(target));
  });
  return targets;
}

std::vector<UnitReport> unit_report(const config::Plan& plan, Blueprint& blueprint) {
  if (plan.config.distributed_type != config::DistributedType::kFsdp) return {};
  const parallel::Precision precision = precision_of(plan);
  std::vector<UnitReport> units;
  for (const auto& [module, parameters] : parallel::plan_units(*blueprint.model, plan.config.fsdp_config)) {
    UnitReport unit{module->path(), module->class_name(), 0, 0};
    for (const nn::ParameterPtr& p : parameters) {
      unit.parameters += p->numel();
      unit.bytes += precision.storage(*p, blueprint.source().storage(*p)).bytes(p->numel());
    }
    units.push_back(std::move(unit));
  }
  units.back().name = "the root";
  return units;
}

DataReport data_report(const data::Datasets& datasets) {
  const data::Samples& train = *datasets.train;
  SampleLengths lengths = sample_lengths(train);
  return {train.size(),
          data::token_count(train),
          train.cut(),
          datasets.validation->size(),
          std::move(lengths.source),
          std::move(lengths.target),
          datasets.labels};
}

RunReport run_report(const config::Plan& plan, int64_t samples) {
  const config::TrainingConfig& t = plan.config.training;
  RunReport run;
  run.ranks = plan.world_size();
  run.data_ranks = plan.data_ranks();
  run.degrees = degrees_of(plan);
  run.per_device = t.per_device_train_batch_size;
  run.length = prepare::run_length(plan.config, samples, run.data_ranks);
  run.accumulation = data::micro_batch_count(run.length.global_batch, run.data_ranks, run.per_device);
  if (run.length.updates == 0) return run;
  if (samples > 0)
    run.epochs = static_cast<double>(run.length.updates) / static_cast<double>(run.length.updates_per_epoch);
  const optim::LearningRate schedule(t.lr_scheduler_type, t.learning_rate, t.warmup_steps, run.length.updates,
                                     t.lr_scheduler_kwargs);
  for (const int64_t percent : {0, 25, 50, 75, 100}) {
    const int64_t update = (run.length.updates - 1) * percent / 100;
    run.learning_rate.push_back({percent, update + 1, schedule.at(update)});
  }
  return run;
}

/// The pairs that the run reads: those of an epoch, unless max_steps ends it within the first one.
ReferenceReport reference_report(const RunReport& run, const data::Datasets* datasets, const Roofline* roofline) {
  ReferenceReport found;
  if (datasets == nullptr) return found;
  const data::Samples &train = *datasets->train, &validation = *datasets->validation;
  const bool within_epoch = run.length.updates < run.length.updates_per_epoch;
  const int64_t read = within_epoch ? run.length.updates * run.length.global_batch : train.size();
  const double part = static_cast<double>(read) / static_cast<double>(std::max<int64_t>(1, train.size()));
  constexpr int64_t kBytesOfPair = 2 * sizeof(double);
  found.pairs = read + validation.size();
  found.tokens = std::llround(part * static_cast<double>(data::token_count(train))) + data::token_count(validation);
  found.bytes = kBytesOfPair * (train.size() + validation.size());
  if (roofline == nullptr) return found;
  const int64_t passes = roofline->micro_batches;  // of a rank in an update, whose tokens are those of all ranks
  found.seconds = static_cast<double>(found.tokens) / static_cast<double>(roofline->tokens) *
                  static_cast<double>(passes) * roofline->forward;
  return found;
}

/// The assumed length of samples when none are known.
std::string assumed_lengths(const config::Plan& plan, const models::Model& model) {
  const LengthOption option = length_option(plan.config.data);
  const int64_t most = most_tokens(plan, model);
  if (most == 0 || option.tokens <= most) return "every sample is assumed to be as long as the options allow.";
  return fmt::format(
      "every sample is assumed to have {} tokens, the most that {} has positions for. {} is {}: a longer sample ends "
      "the run.",
      most, model.class_name(), option.name, option.tokens);
}

std::vector<VisibleGpu> gpus_of_ranks(const config::Config& config) {
  return config::gpus_of_ranks(config, gpus_here(), cuda_visible_devices());
}

/// Why the GPUs of this machine's ranks can't be used, on one line.
std::string fault_of_gpus(const config::Config& config) {
  std::string fault = gpu_fault(gpus_here(), gpus_of_ranks(config));
  if (const size_t end = fault.find("\n  "); end != std::string::npos) fault.replace(end, 3, ": ");
  return fault;
}

std::vector<std::string> device_report(const config::Config& config) {
  if (const std::string why = config::why_on_cpu(config); !why.empty()) return {"training on the CPU: " + why};
  if (!config::trains_on_gpus(config) || !config::lacking_for_gpus(config).empty()) return {};
  const std::vector<VisibleGpu> gpus = gpus_of_ranks(config);
  std::vector<std::string> lines{config::gpus_text(config, gpus_here(), gpus)};
  for (std::string& warning : gpu_warnings(gpus_here(), gpus, config.mixed_precision == config::MixedPrecision::kBf16))
    lines.push_back(std::move(warning));
  return lines;
}

std::vector<std::string> missing(const config::Plan& plan, const Blueprint& blueprint, bool on_gpus) {
  std::vector<std::string> all;
  if (const std::string lacking = config::lacking_for_gpus(plan.config); on_gpus && !lacking.empty())
    all.push_back(
        fmt::format("GPUs: use_cpu is false, and {}. The memory is that of the GPU layers; --cpu rehearses the run on "
                    "this machine.",
                    lacking));
  else if (const std::string fault = on_gpus ? fault_of_gpus(plan.config) : ""; !fault.empty())
    all.push_back(fmt::format("usable GPUs: {}", fault));
  if (plan.config.num_machines > 1 && plan.config.main_process_ip.empty())
    all.push_back(
        fmt::format("main_process_ip: the address of machine 0, as num_machines is {}.", plan.config.num_machines));
  if (blueprint.without_weights)
    all.push_back(fmt::format("the weights of {}: their size is derived from config.json.", plan.config.model.path));
  if (plan.config.data.train.path.empty()) all.push_back("data.train.path: " + assumed_lengths(plan, *blueprint.model));
  return all;
}

/// Plans the memory of a configuration and its variants.
class Planner {
 public:
  /// `datasets`: null when unknown.
  Planner(const config::Plan& base, const data::Datasets* datasets, const std::vector<std::string>& labels,
          const models::Model& model, bool on_gpus)
      : base_(base), datasets_(datasets), labels_(labels), model_(model), on_gpus_(on_gpus) {}

  Workload workload(const config::Plan& plan) const {
    Workload found = datasets_ == nullptr
                         ? fullest_workload(plan, model_)
                         : workload_of(plan, shortened(*datasets_, base_.config.data, plan.config.data));
    if (on_gpus_) found.transport = transport_of_gpus(plan.config);
    return found;
  }
  int64_t peak(const config::Plan& plan) const { return plan_largest_memory(plan, labels_, workload(plan)).peak(); }

 private:
  const config::Plan& base_;
  const data::Datasets* datasets_;
  const std::vector<std::string>& labels_;
  const models::Model& model_;
  bool on_gpus_;
};

GpuReport gpu_report(const config::Plan& plan, const config::GpuMemory& memory, int64_t needed,
                     const Planner& planner) {
  constexpr size_t kMost = 4;  // an error has at most six lines, and two come first
  GpuReport report{memory, usable_bytes(memory.bytes), true, {}};
  report.fits = needed <= report.usable;
  const auto peak_of = [&](const config::Plan& other) { return planner.peak(other); };
  if (!report.fits) report.alternatives = what_fits(plan, peak_of, report.usable, kMost);
  return report;
}

}  // namespace

CheckReport check_report(const config::Plan& plan, const std::optional<config::GpuMemory>& gpu,
                         const std::optional<Cluster>& cluster) {
  const bool has_data = !plan.config.data.train.path.empty();
  prepare::Inputs inputs;
  if (has_data) inputs = prepare::load_inputs(plan);
  const std::vector<std::string>& labels = has_data ? inputs.datasets.labels : plan.config.data.labels;
  Blueprint blueprint = make_blueprint(plan, labels, Weights::kMayLack);
  if (has_data)
    check_inputs(plan, *blueprint.model, inputs);
  else
    check_length_option(plan, *blueprint.model);
  CheckReport report;
  report.on_gpus = gpu || config::trains_on_gpus(plan.config);
  report.devices = device_report(plan.config);
  report.missing = missing(plan, blueprint, report.on_gpus);
  report.model = model_report(*blueprint.model, precision_of(plan).packed);
  report.warning = overflow_warning(plan, *blueprint.model);
  report.lora_options = blueprint.lora;
  report.lora = lora_report(*blueprint.model);
  report.units = unit_report(plan, blueprint);
  if (has_data) report.data = data_report(inputs.datasets);
  report.run = run_report(plan, has_data ? inputs.datasets.train->size() : 0);
  const Planner planner(plan, has_data ? &inputs.datasets : nullptr, labels, *blueprint.model, report.on_gpus);
  Workload workload = planner.workload(plan);
  report.memory = plan_largest_memory(plan, labels, workload);
  if (cluster && !config::offloads(plan.config) && !plan.config.training.activation_offloading)
    report.roofline = roofline_of(plan, labels, workload, *cluster);
  else if (cluster)
    report.warning += fmt::format(
        "{}--device: no speed is predicted for runs with offload, because the copies and the "
        "host's update are not modeled.",
        report.warning.empty() ? "" : " ");
  if (plan.config.dpo)
    report.reference = reference_report(report.run, has_data ? &inputs.datasets : nullptr,
                                        report.roofline ? &*report.roofline : nullptr);
  report.longest = std::move(workload.training);
  if (gpu) report.gpu = gpu_report(plan, *gpu, report.memory.peak(), planner);
  return report;
}

std::string too_much_memory(const CheckReport& report, const config::Plan& plan) {
  const GpuReport& gpu = *report.gpu;
  return fmt::format("{}: a rank needs {}, but its tensors can use only {} of {} ({} in total)\n  {}", plan.source,
                     gibibytes(report.memory.peak()), gibibytes(gpu.usable), gpu.memory.name,
                     gibibytes(gpu.memory.bytes), what_fits_text(gpu.alternatives));
}

}  // namespace trainer::train
