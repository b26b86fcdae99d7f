// The self-test of checkpoints: any strategy can resume a checkpoint of any other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/dist/comm.h"
#include "engine/selftest/setting.h"

namespace trainer::selftest {

struct ResumeCase {
  TinyModel model;
  bool lora = false;
  Strategy from, to;

  /// "GPT-2 full TP 2 -> PP 3"
  std::string name() const;
};

/// Every pair of strategies that `ranks` ranks can run, for a model that all of them support, with a tied embedding and
/// fused projections. `all_models`: for every such model, with full training and with LoRA.
std::vector<ResumeCase> resume_cases(int ranks, bool all_models, bool on_devices = false);
/// `count` of `cases`, drawn from `seed`, in their original order.
std::vector<ResumeCase> drawn(const std::vector<ResumeCase>& cases, uint64_t seed, int64_t count);

struct Resumed {
  ResumeCase which;
  std::string problem;  // "": none
  double losses = 0;    // largest relative difference
  double seconds = 0;
};

/// Collective over `world`. For each case, in folders below `folder`: the first strategy trains, saves and continues;
/// the second one loads this checkpoint, saves it elsewhere, loads its own and continues. The second checkpoint must
/// equal the first bit for bit, and the updates after it must match. Rank 0 passes every result to `done` and returns
/// all results.
std::vector<Resumed> resume(const std::vector<ResumeCase>& cases, const std::filesystem::path& folder,
                            dist::Comm& world, const std::function<void(const Resumed&)>& done);

/// A row per saving strategy, a column per resuming one; then one line per mismatch, and the verdict.
std::string table(const std::vector<Resumed>& results);

}  // namespace trainer::selftest
