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

/// Throws std::runtime_error with MPI's own message unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

/// An operation in progress. Keeps its tensors alive.
class MpiWork : public c10d::Work {
 public:
  MpiWork(int rank, c10d::OpType type, std::vector<at::Tensor> tensors);
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return tensors_; }
  /// `failure`: null on success.
  void complete(const std::exception_ptr& failure);

 private:
  std::vector<at::Tensor> tensors_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using MpiWorkPtr = c10::intrusive_ptr<MpiWork>;

/// A stage of an operation: returns the requests it starts. Begins when those of the previous stage are complete.
using MpiStage = std::function<std::vector<MPI_Request>()>;

/// Starts operations in the order of their calls, and completes them in any order: all MPI calls are non-blocking, so a
/// rank that waits in one group never blocks another group. MPI needs no thread support for this. It is initialized at
/// first use and finalized at exit(); a rank that fails exits by _Exit(), as finalizing would wait for the others.
class MpiThread {
 public:
  static MpiThread& instance();

  /// Runs `call` on the thread and waits for its end; rethrows its exceptions.
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

  // Used by the thread only.
  std::vector<MPI_Request> requests_;
  std::vector<std::shared_ptr<Operation>> operations_;  // of each request

  std::thread thread_;
};

}  // namespace trainer::dist
