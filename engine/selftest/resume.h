// The self-test of checkpoints: what any strategy has saved, any other goes on from.
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

/// Every strategy that `ranks` ranks can run, to every one: of a model that both can spread, with a tied embedding and
/// fused projections. `all_models`: of each such model, and of its adapters.
std::vector<ResumeCase> resume_cases(int ranks, bool all_models);
/// `count` of `cases`, drawn by `seed`, in their order.
std::vector<ResumeCase> drawn(const std::vector<ResumeCase>& cases, uint64_t seed, int64_t count);

struct Resumed {
  ResumeCase which;
  std::string problem;  // "" when there is none
  double losses = 0;    // largest relative difference
  double seconds = 0;
};

/// Collective over `world`. For each case, in folders below `folder`: the one strategy trains, saves and goes on; the
/// other one loads that, saves it elsewhere, loads that, and goes on. What the second has saved must be what the first
/// has, bit for bit, and its updates those of the first. `done` is told every result, on rank 0. Returns the results on
/// rank 0.
std::vector<Resumed> resume(const std::vector<ResumeCase>& cases, const std::filesystem::path& folder,
                            dist::Comm& world, const std::function<void(const Resumed&)>& done);

/// A row for each strategy that saves, a column for each that resumes; what does not fit, one line each; the verdict.
std::string table(const std::vector<Resumed>& results);

}  // namespace trainer::selftest
