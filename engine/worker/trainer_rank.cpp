// A rank that trains.
#include <filesystem>

#include "engine/base/files.h"
#include "engine/base/folder_lock.h"
#include "engine/base/log.h"
#include "engine/config/machine/device.h"
#include "engine/dist/accelerator.h"
#include "engine/metrics/start_panel.h"
#include "engine/parallel/wrap_policy.h"
#include "engine/train/batch_size.h"
#include "engine/train/shown_source.h"
#include "engine/worker/commands.h"
#include "engine/worker/environment.h"
#include "engine/worker/meeting.h"
#include "engine/worker/rank.h"

namespace trainer::worker {
namespace {

/// What the report shows of a model before it is parallelized.
metrics::StartRecord start_record(const config::Config& config, models::Model& model) {
  metrics::StartRecord record;
  for (const nn::ParameterPtr& parameter : model.all_parameters()) {
    record.parameters += parameter->numel();
    if (parameter->trainable) record.trained += parameter->numel();
  }
  if (config.distributed_type != config::DistributedType::kFsdp) return record;
  for (const auto& [module, parameters] : parallel::plan_units(model, config.fsdp_config)) {
    record.units.push_back({module->path(), module->class_name()});
    for (const nn::ParameterPtr& parameter : parameters) record.units.back().parameters += parameter->numel();
  }
  return record;
}

/// What the screen shows of it.
metrics::StartFacts start_facts(const metrics::StartRecord& record, const models::Model& model,
                                const dist::Comm& comm) {
  metrics::StartFacts facts;
  facts.model_class = model.class_name();
  facts.parameters = record.parameters;
  facts.trained = record.trained;
  facts.units = std::ssize(record.units);
  facts.device = comm.device().is_cpu() ? "the CPU" : dist::find_accelerator()->facts(comm.device().index()).name;
  return facts;
}

/// Collective. Finds the batch size, or checks that the configured one fits.
void fit_memory(Rank& rank) {
  config::Plan& plan = rank.plan;
  if (plan.config.training.auto_find_batch_size) {
    rank.report(-1, "finding the batch size");
    const int64_t mine = free_bytes(*rank.comm, environment_number("LOCAL_WORLD_SIZE"));
    rank.comm->barrier();  // all ranks measure before one of them allocates memory
    train::find_batch_size(plan, rank.setup.inputs, *rank.comm, mine);
  } else if (!rank.comm->device().is_cpu()) {
    rank.report(-1, "planning memory");
    train::check_memory(plan, rank.setup.inputs, free_bytes(*rank.comm, environment_number("LOCAL_WORLD_SIZE")));
  }
}

train::Ending train_rank(Rank& rank, const TrainerWork& work) {
  const bool is_first = rank.comm->rank() == 0;
  config::Plan& plan = rank.plan;
  train::Blueprint& blueprint = rank.setup.blueprint;
  Link& link = rank.link;
  if (plan.config.training.cuda_graphs && is_first && rank.comm->device().is_cpu() &&
      config::asks_for_gpus(plan.config))
    log::warning("training.cuda_graphs has no effect: this run trains on the CPU");
  fit_memory(rank);
  if (rank.fault)
    if (const auto of_files = dist::file_fault(*rank.fault, rank.comm->rank())) file_operations::plan_fault(*of_files);
  rank.report(-1, "loading the weights");
  config::LoraConfig lora = blueprint.lora;
  metrics::StartRecord record;
  metrics::StartFacts facts;
  if (is_first) {
    if (const std::string why = train::keep_encoder_output(plan, *blueprint.model); !why.empty())
      log::warning("training.encoder_cache_mb has no effect: {}", why);
    record = start_record(plan.config, *blueprint.model);
    facts = start_facts(record, *blueprint.model, *rank.comm);
  }
  const bool shows_loading = sees_output() && is_first;
  if (shows_loading)
    blueprint.sources.push_back(std::make_unique<train::ShownSource>(blueprint.source(), *blueprint.model));
  auto model = train::make_parallel(plan, blueprint, *rank.comm);
  if (shows_loading) blueprint.sources.pop_back();  // and its line
  if (plan.config.distributed_type == config::DistributedType::kDataParallel)
    log::info(
        "DATA_PARALLEL: {0} devices in one process. Every update sums {1} KiB of gradients on the first device after "
        "the backward pass; MULTI_CPU with num_processes: {0} would send them during it.",
        plan.config.devices.size(), model->copied_gradient_bytes() >> 10);
  train::Trainer::Published published;
  if (is_first && plan.config.logging.metrics_port > 0)
    published = {[&link](const std::string& line) { link.report_metrics(line); },
                 [&link](bool saved) { link.report_save(saved); }};
  train::Trainer trainer(plan, rank.setup.inputs, std::move(lora), std::move(model),
                         meet_for_checkpoints(link, plan.config), rank.report, std::move(published));
  // Only now: a run that cannot be resumed must leave the earlier run's file unchanged.
  if (is_first) {
    FolderOwner::from_environment(plan.config.output_dir).require();
    const std::string resolved = config::resolved_text(plan);
    publish_file(std::filesystem::path(plan.config.output_dir) / "config.resolved.yaml", resolved);
    trainer.report_configuration(resolved);
    trainer.report_start(std::move(record));
    trainer.describe_start(facts);
    for (const std::string& line : metrics::start_panel(plan.config, facts)) log::info("{}", line);
  }
  return work(trainer, *rank.comm);
}

}  // namespace

int rank_command(const std::vector<std::string>& args) {
  return run_trainer([&](train::Trainer& trainer, dist::Comm&) {
    return trainer.run(args.empty() ? std::nullopt : std::optional<int64_t>(std::stoll(args.front())));
  });
}

int run_trainer(const TrainerWork& work) {
  return run_rank([&](Rank& rank) { return train_rank(rank, work); });
}

}  // namespace trainer::worker
