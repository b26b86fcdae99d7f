// What a rank does about other programs on its cores: it computes with fewer threads, and warns once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "engine/config/sections.h"
#include "engine/train/fair_threads.h"
#include "engine/train/shared_cores.h"

namespace trainer::train {

class CoreSharing {
 public:
  /// `warns`: of this rank alone among all.
  CoreSharing(const config::Config& config, const at::Device& device, bool warns);

  /// Both are called by the thread that computes, around each update.
  void begin_update();
  void end_update(int64_t step);

 private:
  using Clock = std::chrono::steady_clock;

  void warn_once(double seconds, double waited);
  void choose_threads(int64_t step);

  const int64_t most_threads_;
  const bool warns_;
  SharedCores shared_cores_{};
  std::optional<FairThreads> fair_threads_{};  // where no bit depends on it
  bool has_used_fewer_ = false;
  Clock::time_point begin_{};
  double waited_before_ = 0;
};

}  // namespace trainer::train
