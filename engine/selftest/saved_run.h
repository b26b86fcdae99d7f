// What a run has left that another one is to go on from: its checkpoint, and its updates after that.
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
  std::map<std::string, at::Tensor> tensors;  // "exp_avg/model.norm.weight": whole, of all ranks
  std::string progress;                       // the manifest's: the place in the data, the schedule's, the loss watch's
  std::map<int64_t, Update> updates;          // after the checkpoint, by step
};

/// Of `folder`/checkpoint-`step` and `folder`/metrics.jsonl. Errors: InputError.
SavedRun read_saved_run(const std::filesystem::path& folder, int64_t step);

/// Losses of one strategy and another, fp32 in another order of sums: relative, at most.
inline constexpr double kLossTolerance = 1e-5;

/// What `found` has otherwise than `expected`, in one line: any bit of a tensor, the progress, any update's samples or
/// learning rate, a loss by more than `tolerance`. "" when there is nothing.
std::string difference(const SavedRun& found, const SavedRun& expected, double tolerance);
/// The largest relative difference of a loss.
double loss_difference(const SavedRun& found, const SavedRun& expected);
/// How far the tensors of `found`, which another strategy has trained, are from those of `expected`: the largest
/// relative distance. Values at the wrong places are about 1 apart.
double distance(const SavedRun& found, const SavedRun& expected);

}  // namespace trainer::selftest
