#include "engine/train/peak_share.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "engine/base/usable_cpus.h"
#include "engine/dist/dry_memory.h"
#include "engine/dist/dry_trace.h"
#include "engine/train/dry_model.h"
#include "engine/train/profile/known_peak.h"
#include "engine/train/profile/machine_peak.h"
#include "engine/train/roofline/step_trace.h"
#include "engine/train/sample_lengths.h"

namespace trainer::train {
namespace {

config::Plan on_one_rank(config::Plan plan) {
  config::Config& c = plan.config;
  c.distributed_type = config::DistributedType::kNo;
  c.num_processes = c.num_machines = 1;
  c.parallelism_config.reset();
  c.devices.clear();
  c.training.local_sgd_steps = 0;
  c.training.cuda_graphs = c.training.activation_offloading = false;
  return plan;
}

BatchLengths sample_of_mean_length(const data::Samples& samples) {
  constexpr int64_t kLookedAt = 1000;
  const SampleLengths lengths = sample_lengths(samples, kLookedAt);
  const auto mean = [](const LengthReport& report) { return std::max<int64_t>(1, std::llround(report.mean)); };
  BatchLengths batch{{mean(lengths.source)}, {}, 1};
  if (samples.label_kind() == data::LabelKind::kTarget) batch.target = {mean(lengths.target)};
  if (samples.label_kind() != data::LabelKind::kClass) batch.learned = mean(lengths.target);  // rows of the head
  if (samples.label_kind() == data::LabelKind::kClass) batch.target = {1};
  return batch;
}

/// The CPUs that the ranks of this machine share. Not usable_cpus(): a rank may be bound to its own.
int64_t cpus_of_machine() {
  const int64_t online = sysconf(_SC_NPROCESSORS_ONLN), quota = cpu_quota();
  return std::max<int64_t>(1, quota > 0 ? std::min(online, quota) : online);
}

}  // namespace

double flops_per_token(const config::Plan& plan, const data::Datasets& datasets) {
  const data::Samples& samples = *datasets.train;
  const config::Plan alone = on_one_rank(plan);
  const BatchLengths lengths = sample_of_mean_length(samples);
  dist::count_dry_memory();  // also the shapes of operators that libtorch has none for
  const DryModel model(alone, make_blueprint(alone, datasets.labels, Weights::kMayLack),
                       transport_of_gpus(alone.config), 0);
  const models::Batch batch = dry_batch(lengths, samples.label_kind(), model->model().features());
  dist::DryRecorder recorder;
  model->evaluate(batch, {});
  double linear = 0, attention = 0;
  for (const auto& event : recorder.take())
    if (const auto* const op = std::get_if<dist::DryOperator>(&event))
      (op->attention != 0 ? attention : linear) += static_cast<double>(op->flops);
  const int64_t tokens =
      lengths.source.front() + (samples.label_kind() == data::LabelKind::kTarget ? lengths.target.front() : 0);
  return (linear * (2 + trained_part(model->model())) + 3 * attention) / static_cast<double>(tokens);
}

double peak_of_run(double one, int64_t ranks, int64_t machines, int64_t threads, int64_t cpus) {
  const auto of_ranks = static_cast<double>(ranks);
  if (cpus == 0) return one * of_ranks;
  return one * std::min(of_ranks, std::max(1.0, static_cast<double>(machines * cpus) / static_cast<double>(threads)));
}

double run_peak(const config::Plan& plan, at::ScalarType dtype, const dist::Comm& comm) {
  const at::Device device = comm.device();
  const std::string key = peak_key(dtype, device);
  double one = known_peak(key).value_or(0);
  if (one == 0) try {
      one = measure_products(dtype, device);
      remember_peak(key, one);
    } catch (const c10::OutOfMemoryError&) {
      return 0;
    }
  return peak_of_run(one, comm.size(), std::max<int64_t>(1, plan.config.num_machines), at::get_num_threads(),
                     device.is_cpu() ? cpus_of_machine() : 0);
}

}  // namespace trainer::train
