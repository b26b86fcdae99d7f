#include "engine/train/profile/profile.h"

#include <chrono>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>

#include "engine/base/bounded_json.h"
#include "engine/dist/accelerator.h"
#include "engine/dist/memory.h"
#include "engine/train/parallelism.h"
#include "engine/train/profile/known_peak.h"

namespace trainer::train {
namespace {

using Clock = std::chrono::steady_clock;

/// The mean of rank 0's phases, and the slowest rank of each.
void summarize(const PhaseSeconds& mine, dist::Comm& comm, Profile& profile) {
  const std::vector<std::string> all = comm.gather_text(nlohmann::json(mine).dump());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto phases = bounded_json(all[rank]).get<PhaseSeconds>();
    for (size_t i = 0; i < kPhases; ++i)
      if (phases[i] > profile.slowest[i].seconds) profile.slowest[i] = {static_cast<int64_t>(rank), phases[i]};
    if (rank == 0) profile.phases = phases;
  }
  profile.seconds = 0;
  for (const double seconds : profile.phases) profile.seconds += seconds;
}

/// Makes `count` updates, each followed by `after`. Returns their tokens; nothing when the run was asked to stop.
template <class After>
std::optional<int64_t> updates(Trainer& trainer, int64_t count, const After& after) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Trainer::Update update = trainer.update();
    if (update.stop) return std::nullopt;
    tokens += update.tokens;
    after();
  }
  return tokens;
}

bool time_phases(Trainer& trainer, dist::Comm& comm, int64_t steps, Profile& profile) {
  PhaseSeconds sum{};
  PhaseClock clock(comm.device());
  const auto tokens = updates(trainer, steps, [&] {
    const PhaseSeconds one = clock.lap();
    for (size_t k = 0; k < kPhases; ++k) sum[k] += one[k] / static_cast<double>(steps);
  });
  if (!tokens) return false;
  summarize(sum, comm, profile);
  profile.tokens_per_second = static_cast<double>(*tokens) / (profile.seconds * static_cast<double>(steps));
  return true;
}

bool time_operators(Trainer& trainer, dist::Comm& comm, const ProfileRequest& request, Profile& profile) {
  std::optional<OperatorRecorder> recorder;
  if (comm.rank() == 0) recorder.emplace(!comm.device().is_cpu());
  const auto steps = static_cast<double>(request.steps);
  const auto start = Clock::now();
  if (!updates(trainer, request.steps, [] {})) return false;
  profile.recorded_seconds = std::chrono::duration<double>(Clock::now() - start).count() / steps;
  if (!recorder) return true;
  recorder->stop();
  profile.operators = recorder->operators();
  for (OperatorTime& one : profile.operators) one.calls /= steps, one.seconds /= steps, one.flops /= steps;
  if (!request.trace.empty()) recorder->write_trace(request.trace);
  return true;
}

/// Collective.
int64_t most_of_ranks(int64_t bytes, dist::Comm& comm) {
  return static_cast<int64_t>(comm.max(static_cast<double>(bytes)));
}

}  // namespace

double Profile::share_of(Work work) const {
  double seconds = 0;
  for (const OperatorTime& one : operators)
    if (one.work == work) seconds += one.seconds;
  return recorded_seconds > 0 ? seconds / recorded_seconds : 0;
}

double Profile::flops() const {
  double sum = 0;
  for (const OperatorTime& one : operators) sum += one.flops;
  return sum;
}

std::optional<Profile> profile(Trainer& trainer, dist::Comm& comm, const ProfileRequest& request) {
  Profile profile;
  profile.request = request;
  profile.ranks = comm.size();
  profile.threads = at::get_num_threads();
  profile.device = comm.device().is_cpu() ? "the CPU" : dist::find_accelerator()->facts(comm.device().index()).name;
  profile.dtype = name_of(trainer.compute_dtype());
  if (!updates(trainer, request.warmup, [] {})) return std::nullopt;
  if (!time_phases(trainer, comm, request.steps, profile)) return std::nullopt;
  // Before what only a profile does: it takes memory, too.
  profile.resident_bytes = most_of_ranks(dist::peak_resident_bytes(), comm);
  profile.tensor_bytes = most_of_ranks(dist::peak_tensor_bytes(comm.device()), comm);
  if (!time_operators(trainer, comm, request, profile)) return std::nullopt;
  comm.barrier();  // all ranks measure together: they share the machine in training, too
  profile.peak = measure_peak(trainer.compute_dtype(), comm.device());
  if (comm.size() == 1) remember_peak(peak_key(trainer.compute_dtype(), comm.device()), profile.peak.flops);
  return profile;
}

}  // namespace trainer::train
