// The one thread of a process that calls MPI.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace trainer::dist {

/// Throws std::runtime_error with MPI's own words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

/// An operation under way on some tensors, which it keeps.
class MpiWork : public c10d::Work {
 public:
  MpiWork(int rank, c10d::OpType type, std::vector<at::Tensor> tensors);
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return tensors_; }
  /// `failure`: null when all went well.
  void complete(const std::exception_ptr& failure);

 private:
  std::vector<at::Tensor> tensors_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using MpiWorkPtr = c10::intrusive_ptr<MpiWork>;

/// A step of an operation: the requests it makes. It begins when those of the step before are complete.
using MpiStage = std::function<std::vector<MPI_Request>()>;

/// Starts operations in the order they are asked for, and completes them in any: all of MPI's calls are non-blocking,
/// so a rank that waits in one group never holds up another. MPI needs no thread support for that. It is initialised
/// at first use and finalised at exit(); a rank that fails leaves by _Exit(), as finalising would wait for the others.
class MpiThread {
 public:
  static MpiThread& instance();

  /// Runs `call` on the thread and waits for its end; throws what it throws.
  void run(const std::function<void()>& call);
  /// Starts an operation, and completes `work` when its last stage is complete.
  void start(const MpiWorkPtr& work, std::vector<MpiStage> stages);

 private:
  MpiThread();
  struct Operation {
    MpiWorkPtr work;
    std::vector<MpiStage> stages;
    size_t begun = 0;    // stages
    size_t pending = 0;  // requests of the last one begun
  };

  void finish();
  void serve();
  void go_on(const std::shared_ptr<Operation>& operation);
  std::vector<std::function<void()>> take_jobs(int idle);
  bool complete_some();
  void fail_all(const std::exception_ptr& failure);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> jobs_;
  bool ending_ = false;

  // The thread's own.
  std::vector<MPI_Request> requests_;
  std::vector<std::shared_ptr<Operation>> operations_;  // of each request

  std::thread thread_;
};

}  // namespace trainer::dist
