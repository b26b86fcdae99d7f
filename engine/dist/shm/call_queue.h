#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace trainer::dist::shm {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// Calls that run in wait(), on the caller's thread, after all that were added before them. It must outlive them.
class CallQueue {
 public:
  explicit CallQueue(int rank) : rank_(rank) {}

  /// `results`: the tensors that `run` writes.
  WorkPtr add(c10d::OpType kind, std::vector<at::Tensor> results, std::function<void()> run);

 private:
  class Call;
  void run_until(const Call& last);

  const int rank_;
  std::mutex mutex_;
  std::deque<c10::intrusive_ptr<Call>> waiting_;  // not run yet
};

}  // namespace trainer::dist::shm
