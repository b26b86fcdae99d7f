// The ranks a computation is spread over. Passed explicitly; there is no "current" world.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::dist {

/// A collective under way.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

enum class Reduce { kSum, kMax };

/// Every member that says "Collective" must be called by every rank, in the same order, with equal shapes and dtypes.
/// Errors: PeerError when a rank is lost.
class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Where the ranks' tensors live. The meta device: a dry run, in which tensors have no values and nothing is sent.
  virtual at::Device device() const { return at::kCPU; }

  /// Collective. Concatenates the ranks' `shard` [n] into `full` [n * size()].
  virtual std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) = 0;
  /// Collective. Reduces `tensor` in place, the same bits on every rank.
  virtual void all_reduce(const at::Tensor& tensor, Reduce op = Reduce::kSum) = 0;
  /// Sends `tensor` to the rank `to`, which calls receive() with as many elements of the same dtype. Between two ranks
  /// they are matched in the order of their calls. `tensor` must stay as it is until wait().
  virtual std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) = 0;
  virtual std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) = 0;
  /// Collective. Returns when every rank has called it.
  virtual void barrier() = 0;
  /// Collective. `bytes` of zeroed memory that every rank sees, as a flat byte tensor: what one rank writes, the others
  /// read after a barrier. Undefined when the ranks cannot share memory.
  virtual at::Tensor shared_memory(int64_t bytes) = 0;
  /// Collective, over the ranks named only, which all name the same. A communicator of their own, in which they are
  /// numbered in this order; it may live longer than this one. `name`: of the group, another one for each group that a
  /// rank is in.
  virtual std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) = 0;

  /// Collective. Gives every rank the `tensor` of the rank `from`.
  void broadcast(const at::Tensor& tensor, int from);
  /// Collective. This rank's part [n] of the sum over ranks of `full` [n * size()]; `full` is overwritten.
  /// (Over Gloo an all-reduce and a slice are twice as fast as its reduce-scatter.)
  at::Tensor reduce_scatter(const at::Tensor& full);
  /// Collective, for small host values.
  double sum(double value);
  double max(double value);
  std::vector<std::string> gather_text(const std::string& mine);
};

/// One rank alone: the same code without communication.
std::unique_ptr<Comm> solo_comm();

}  // namespace trainer::dist
