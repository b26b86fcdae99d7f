// The parts of a run that a resumed run must match: its checkpoint, and its updates after that.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace trainer::selftest {

struct SavedRun {
  struct Update {
    std::string order_digest;  // of its samples
    double learning_rate = 0, loss = 0;
  };
  std::map<std::string, at::Tensor> tensors;  // "exp_avg/model.norm.weight": whole, gathered from all ranks
  std::string progress;                       // the manifest's progress: position in the data, schedule, loss watch
  std::map<int64_t, Update> updates;          // after the checkpoint, by step
};

/// Reads `folder`/checkpoint-`step` and `folder`/metrics.jsonl. Errors: InputError.
SavedRun read_saved_run(const std::filesystem::path& folder, int64_t step);

/// Maximum relative difference of losses between strategies: fp32 with another summation order.
inline constexpr double kLossTolerance = 1e-5;

/// The first difference of `found` from `expected`, in one line: any bit of a tensor, the progress, an update's samples
/// or learning rate, or losses beyond `tolerance`. "" if there is none.
std::string difference(const SavedRun& found, const SavedRun& expected, double tolerance);
/// The largest relative difference of a loss.
double loss_difference(const SavedRun& found, const SavedRun& expected);
/// The largest relative distance of a tensor in `found`, trained by another strategy, from that in `expected`.
/// Misplaced values are about 1 apart.
double distance(const SavedRun& found, const SavedRun& expected);

}  // namespace trainer::selftest
