// The ranks that a computation is distributed over. Passed explicitly; there is no "current" world.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::dist {

/// A collective in progress.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

enum class Reduce { kSum, kMax };

/// Every rank must call each member marked "Collective" in the same order, with equal shapes and dtypes.
/// Errors: PeerError when a rank is lost.
class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The device of the ranks' tensors. The meta device means a dry run: tensors have no values and nothing is sent.
  virtual at::Device device() const { return at::kCPU; }

  /// Collective. Concatenates the ranks' `shard` [n] into `full` [n * size()].
  virtual std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) = 0;
  /// Collective. Reduces `tensor` in place; the result is bitwise equal on every rank.
  virtual void all_reduce(const at::Tensor& tensor, Reduce op = Reduce::kSum) = 0;
  /// A reduce_scatter() in progress: `shard` has its values after wait().
  struct Scattered {
    at::Tensor shard;
    std::unique_ptr<Pending> pending;
  };
  /// Collective. This rank's shard [n] of the sum over ranks of `full` [n * size()], which may be overwritten and must
  /// stay until wait(). (Over Gloo, an all-reduce and a slice are twice as fast as its reduce-scatter.)
  Scattered reduce_scatter(const at::Tensor& full);
  /// Whether reduce_scatter() is an operation of its own, rather than an all-reduce and a slice.
  virtual bool has_reduce_scatter() const { return runs_beside(); }
  /// Whether collectives run beside the operators that follow until wait(). If not, they may end before their calls
  /// return.
  virtual bool runs_beside() const { return false; }
  /// Sends `tensor` to the rank `to`, which calls receive() with the same number of elements and dtype. Between two
  /// ranks, calls are matched in order. `tensor` must not change until wait().
  virtual std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) = 0;
  virtual std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) = 0;
  /// Collective. Returns when every rank has called it.
  virtual void barrier() = 0;
  /// Collective. `bytes` of zeroed memory shared by all ranks, as a flat byte tensor: after a barrier, every rank reads
  /// what the others wrote. Undefined when the ranks cannot share memory.
  virtual at::Tensor shared_memory(int64_t bytes) = 0;
  /// Collective, over `ranks` only; all of them pass the same arguments. A communicator of these ranks, numbered in
  /// this order; it may outlive this one. `name` must be unique among the groups of a rank.
  virtual std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) = 0;

  /// Collective. Copies the `tensor` of the rank `from` to every rank.
  void broadcast(const at::Tensor& tensor, int from);
  /// Collective, for small values on the CPU.
  double sum(double value);
  double max(double value);
  std::vector<std::string> gather_text(const std::string& mine);

 protected:
  /// reduce_scatter() where has_reduce_scatter().
  virtual Scattered start_reduce_scatter(const at::Tensor& full);
};

/// A communicator of a single rank: no communication.
std::unique_ptr<Comm> solo_comm();

}  // namespace trainer::dist
