#include "engine/train/roofline/roofline.h"

#include <algorithm>
#include <numeric>

#include "data/sampler/shares.h"
#include "engine/prepare/run_length.h"
#include "engine/train/parallelism.h"
#include "engine/train/roofline/step_trace.h"

namespace trainer::train {
namespace {

int64_t sum_of(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

int64_t tokens_of(const BatchLengths& batch, data::LabelKind kind) {
  return sum_of(batch.source) + (kind == data::LabelKind::kTarget ? sum_of(batch.target) : 0);
}

const BatchLengths& largest(const LongestBatches& longest) {
  return *std::max_element(longest.batches.begin(), longest.batches.end(), [&](const auto& a, const auto& b) {
    return tokens_of(a, longest.kind) < tokens_of(b, longest.kind);
  });
}

int64_t micro_batches_of(const config::Plan& plan, const LongestBatches& longest, int64_t tokens) {
  const config::TrainingConfig& t = plan.config.training;
  const int64_t ranks = plan.data_ranks();
  if (t.max_tokens > 0) return std::max<int64_t>(1, longest.tokens_of_update / std::max<int64_t>(1, tokens));
  return data::micro_batch_count(prepare::global_batch(t, ranks), ranks, t.per_device_train_batch_size);
}

/// A rank's update: what it does, and what it waits for the pipeline.
struct Update {
  Cost cost;
  double bubble = 0;
  double seconds() const { return cost.seconds + bubble; }
};

Update update_of(const StepTrace& trace, int64_t micro_batches, const dist::Degrees& degrees, int64_t chunks,
                 const Cluster& cluster, const TimelineOptions& options) {
  Update update{time_of(trace.some, cluster, options)};
  Cost more = time_of(trace.twice, cluster, options);
  more.add(update.cost, -1);
  const auto per_micro_batch = 1 / static_cast<double>(trace.micro_batches);
  update.cost.add(more, static_cast<double>(micro_batches - trace.micro_batches) * per_micro_batch);
  TimelineOptions at_end = options;
  at_end.end_of_update = true;
  update.cost.add(time_of(trace.end, cluster, at_end));
  update.bubble = static_cast<double>(degrees.pipeline - 1) / static_cast<double>(chunks) * more.seconds *
                  per_micro_batch;
  return update;
}

double model_flops_of(const StepTrace& trace, const Cluster& cluster) {
  const Cost forward = time_of(trace.forward, cluster);
  return forward.part(Part::kLinear).flops * (2 + trace.trained) + forward.part(Part::kAttention).flops * 3;
}

}  // namespace

Roofline roofline_of(const config::Plan& plan, const std::vector<std::string>& labels, const Workload& workload,
                     const Cluster& cluster) {
  const dist::Degrees degrees = degrees_of(plan);
  const data::LabelKind kind = workload.training.kind;
  const BatchLengths& batch = largest(workload.training);
  Roofline found{.cluster = cluster, .gpus = plan.world_size()};
  found.micro_batches = micro_batches_of(plan, workload.training, tokens_of(batch, kind));
  found.tokens = tokens_of(batch, kind) * found.micro_batches * plan.data_ranks();
  found.peak = peak_flops(cluster.card, precision_of(plan).compute);
  TimelineOptions flash;
  flash.flash_attention = true;
  flash.causal = kind == data::LabelKind::kNext;
  const int64_t chunks = std::max<int64_t>(1, parallelism_of(plan).pipeline.shape.chunks);
  Update slowest, slowest_flash;
  for (int64_t stage = 0; stage < degrees.pipeline; ++stage) {
    const StepTrace trace =
        trace_step(plan, make_blueprint(plan, labels, Weights::kMayLack), workload, batch, stage);
    const Update update = update_of(trace, found.micro_batches, degrees, chunks, cluster, {});
    const Update with_flash = update_of(trace, found.micro_batches, degrees, chunks, cluster, flash);
    if (update.seconds() >= slowest.seconds()) slowest = update;
    if (with_flash.seconds() >= slowest_flash.seconds()) slowest_flash = with_flash;
    found.forward += time_of(trace.forward, cluster).seconds;
    found.model_flops += model_flops_of(trace, cluster) * static_cast<double>(found.micro_batches) /
                         static_cast<double>(degrees.pipeline);
  }
  const auto speed_of = [&](double seconds) {
    return Speed{seconds, static_cast<double>(found.tokens) / seconds, found.model_flops / seconds / found.peak};
  };
  found.speed = speed_of(slowest.seconds());
  found.with_flash_attention = speed_of(slowest_flash.seconds());
  found.update = std::move(slowest.cost);
  found.bubble = slowest.bubble;
  return found;
}

}  // namespace trainer::train
