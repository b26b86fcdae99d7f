// A queue of collectives among some ranks, which run one after the other on a stream of their own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/simulated/timeline.h"

namespace trainer::simulated {

class Lane {
 public:
  using Gloo = c10::intrusive_ptr<c10d::Backend>;
  using Transfer = std::function<void(c10d::Backend&)>;

  /// The ranks rendezvous through `store` when the first collective runs.
  Lane(std::string name, c10::intrusive_ptr<c10d::Store> store, int rank, int size, int device,
       std::chrono::milliseconds timeout);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Adds a collective, which `transfer` performs. `writes` are its results.
  c10::intrusive_ptr<c10d::Work> add(c10d::OpType kind, const std::vector<at::Tensor>& reads,
                                     const std::vector<at::Tensor>& writes, Transfer transfer);
  /// Ends the watchdog: from now on, a failed collective doesn't end the process.
  void abort();

 private:
  struct Job {
    c10::intrusive_ptr<c10::ivalue::Future> done;
    std::vector<at::Tensor> results;
    uint64_t number;
    std::string what;
    Transfer transfer;
  };
  void work_through();
  void run(Job& job);
  void fail(Job& job, const std::string& reason);

  const std::string name_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, size_, device_;
  const std::chrono::milliseconds timeout_;
  const StreamNumber stream_;
  Gloo gloo_;
  uint64_t number_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool ends_ = false, aborted_ = false;
  std::thread thread_;
};

}  // namespace trainer::simulated
