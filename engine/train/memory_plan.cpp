#include "engine/train/memory_plan.h"

#include <algorithm>
#include <optional>

#include <ATen/ops/empty.h>

#include "data/sampler/shares.h"
#include "engine/base/metrics.h"
#include "engine/checkpoint/snapshot.h"
#include "engine/config/machine/device.h"
#include "engine/config/tables.h"
#include "engine/dist/dry_memory.h"
#include "engine/dist/shared_memory.h"
#include "engine/evaluation/generate.h"
#include "engine/parallel/gather.h"
#include "engine/prepare/run_length.h"
#include "engine/train/divergence.h"
#include "engine/train/dry_model.h"
#include "engine/train/evaluation_request.h"
#include "engine/train/parallelism.h"
#include "engine/weights/export.h"

namespace trainer::train {
namespace {

bool on_devices(const Workload& workload) {
  return dist::on_devices(workload.transport);
}

template <class F>
dist::DryBytes peak_of(const F& work) {
  dist::reset_peak_dry_bytes();
  work();
  return dist::peak_dry_bytes();
}

/// Runs one update with each of the batches, since it isn't known in advance which one needs most.
dist::DryBytes training_peak(parallel::ParallelModel& model, const config::Config& config, const Workload& workload) {
  const LongestBatches& longest = workload.training;
  nn::Pass pass;
  pass.training = config.training.dropout;
  dist::DryBytes most = dist::dry_bytes();
  for (const BatchLengths& lengths : longest.batches) {
    const models::Batch batch = dry_batch(lengths, longest.kind, model.model().features());
    // All micro-batches of an update are in memory before the first one runs. (Not in a GPU's memory: ids are copied
    // there when they are used.)
    const int64_t mine = batch.source_ids.numel() + batch.labels.numel();
    const at::Tensor others = dry_ids(on_devices(workload) ? 0 : longest.tokens_of_update - mine);
    const std::vector<models::Batch> batches(static_cast<size_t>(workload.under_way), batch);
    const dist::DryBytes peak = peak_of([&] { model.update(batches, 1, pass); });
    if (peak.all > most.all) most = peak;
  }
  return most;
}

/// `lengths` of a batch with each sample `count` times, as a beam search has them.
BatchLengths repeated(const BatchLengths& lengths, int64_t count) {
  BatchLengths all = lengths;
  for (int64_t i = 1; i < count; ++i) {
    all.source.insert(all.source.end(), lengths.source.begin(), lengths.source.end());
    all.target.insert(all.target.end(), lengths.target.begin(), lengths.target.end());
  }
  return all;
}

int64_t evaluation_peak(parallel::ParallelModel& model, const Workload& workload) {
  int64_t most = 0;
  for (const BatchLengths& lengths : workload.evaluation.batches) {
    const models::Batch batch = dry_batch(lengths, workload.evaluation.kind, model.model().features());
    dist::DryBytes peak = peak_of([&] { model.evaluate(batch, {}); });
    most = std::max(most, peak.all);
    if (workload.new_tokens == 0) continue;
    const models::Batch beams = dry_batch(repeated(lengths, workload.beams), workload.evaluation.kind, 0);
    peak = peak_of([&] { evaluation::generate(model, beams, workload.new_tokens, {}); });
    most = std::max(most, peak.all);
  }
  return most;
}

/// A checkpoint writes shards in place; an export gathers one tensor at a time.
int64_t saving_peak(parallel::ParallelModel& model, bool adapters_only) {
  const auto peak = peak_of([&] {
    for (const parallel::LogicalTensor& tensor : model.logical_tensors())
      if (tensor.trainable || !adapters_only) parallel::gather(tensor, model.comm());
  });
  return peak.all;
}

/// Micro-batches in flight: as many as a pipeline has stages; 1 without a pipeline.
int64_t micro_batches_under_way(const config::Plan& plan) {
  const config::TrainingConfig& t = plan.config.training;
  const int64_t stages = degrees_of(plan).pipeline, ranks = plan.data_ranks();
  if (t.max_tokens > 0) return stages;  // the number of micro-batches depends on the samples
  return std::min(stages,
                  data::micro_batch_count(prepare::global_batch(t, ranks), ranks, t.per_device_train_batch_size));
}

/// Tokens to generate for each sample.
int64_t new_tokens_of(const config::Config& c, data::LabelKind kind) {
  if (kind == data::LabelKind::kClass) return 0;
  if (!c.evaluation.generate && !any_compares(c.evaluation.metrics)) return 0;
  return new_tokens(c);
}

Workload without_batches(const config::Plan& plan) {
  Workload workload;
  const bool one_machine = plan.config.num_machines == 1 && dist::may_share_memory();
  workload.transport = config::trains_on_gpus(plan.config) ? transport_of_gpus(plan.config)
                       : one_machine                       ? dist::Transport::kSharedMemory
                                                           : dist::Transport::kGloo;
  workload.under_way = micro_batches_under_way(plan);
  return workload;
}

}  // namespace

dist::Transport transport_of_gpus(const config::Config& config) {
  const bool over_gloo = config.training.ddp_backend == config::DdpBackend::kGloo;
  return over_gloo ? dist::Transport::kDevicesOverGloo : dist::Transport::kDevices;
}

Workload workload_of(const config::Plan& plan, const data::Datasets& datasets) {
  const config::Config& c = plan.config;
  Workload workload = without_batches(plan);
  workload.training = longest_training_batches(c, *datasets.train, plan.data_ranks());
  if (datasets.validation->empty()) return workload;
  workload.evaluation = longest_evaluation_batches(c, *datasets.validation, plan.data_ranks());
  workload.new_tokens = new_tokens_of(c, workload.evaluation.kind);
  workload.beams = c.evaluation.num_beams;
  return workload;
}

Workload fullest_workload(const config::Plan& plan, const models::Model& model) {
  const config::Config& c = plan.config;
  Workload workload = without_batches(plan);
  const int64_t most = most_tokens(plan, model);
  workload.training = fullest_training_batches(c, most, plan.data_ranks());
  if (!config::validates(c)) return workload;
  workload.evaluation = fullest_evaluation_batches(c, most);
  workload.new_tokens = new_tokens_of(c, workload.evaluation.kind);
  workload.beams = c.evaluation.num_beams;
  return workload;
}

MemoryPlan plan_memory(const config::Plan& plan, Blueprint blueprint, const Workload& workload, int64_t stage) {
  dist::count_dry_memory();
  dist::reset_peak_dry_bytes();
  const bool offloaded = on_devices(workload) && config::offloads(plan.config);
  const int64_t before = dist::dry_bytes().all, host_before = dist::dry_bytes().host;
  const auto held = [before] { return dist::dry_bytes().all - before; };
  const DryModel model(plan, std::move(blueprint), workload.transport, stage);
  dist::Comm& comm = model.comm();
  MemoryPlan memory;
  memory.stage = stage;
  for (const parallel::LogicalTensor& tensor : model->logical_tensors())
    if (tensor.grad.defined() && !offloaded) memory.gradients += static_cast<int64_t>(tensor.grad.nbytes());
  const int64_t shared_gradients = dist::dry_bytes().communication;  // nothing is communicated yet
  memory.gradients += shared_gradients;
  memory.weights = held() - memory.gradients;
  std::optional<dist::HostMemory> in_host(std::in_place, offloaded);
  const auto optimizer = optim::make_optimizer(plan.config.training, model->logical_tensors(), comm);
  Divergence divergence(plan.config.training);
  divergence.keep(*model, *optimizer, 0);
  in_host.reset();
  at::Tensor copy;  // the host copy that an asynchronous save writes
  if (plan.config.checkpoint.async_save) {
    const dist::HostMemory next_to_device(on_devices(workload));
    const checkpoint::Snapshot snapshot(checkpoint::live_tensors({*model, *optimizer}), comm.rank(), comm.size());
    copy = at::empty({snapshot.bytes()}, at::TensorOptions(at::kByte).device(comm.device()));
  }
  memory.optimizer = held() - memory.held();
  const nn::AttentionCount attention;
  const dist::DryBytes training = training_peak(*model, plan.config, workload);
  memory.attention = attention.text();
  memory.communication = training.communication - shared_gradients;
  memory.activations = training.all - before - memory.held() - memory.communication;
  const dist::DryBytes step = peak_of([&] {
    const dist::HostMemory where(offloaded);
    optimizer->step(model->logical_tensors(), 0);
  });
  memory.optimizer += std::max<int64_t>(0, step.all - training.all);
  memory.evaluation = workload.evaluation.batches.empty() ? 0 : evaluation_peak(*model, workload) - before;
  in_host.emplace(offloaded);
  memory.saving = saving_peak(*model, plan.config.lora.has_value()) - before;
  const auto hold_throughout = [&memory](int64_t bytes) {
    memory.activations += bytes;
    memory.saving += bytes;
    if (memory.evaluation > 0) memory.evaluation += bytes;
  };
  // Graphs keep theirs, and micro-batches of other shapes run besides them (Note [Graphs of micro-batches]).
  if (plan.config.training.cuda_graphs && on_devices(workload)) hold_throughout(memory.activations);
  hold_throughout(model->model().kept_encoder_bytes());  // the most, as the data may not be known
  memory.host = std::max({training.host, step.host, dist::peak_dry_bytes().host}) - host_before;
  return memory;
}

MemoryPlan plan_largest_memory(const config::Plan& plan, const std::vector<std::string>& labels,
                               const Workload& workload) {
  MemoryPlan largest;
  for (int64_t stage = 0; stage < degrees_of(plan).pipeline; ++stage) {
    const MemoryPlan memory = plan_memory(plan, make_blueprint(plan, labels, Weights::kMayLack), workload, stage);
    if (stage == 0 || memory.peak() > largest.peak()) largest = memory;
  }
  return largest;
}

}  // namespace trainer::train
