#pragma once

#include <memory>
#include <vector>

#include "engine/dist/comm.h"
#include "engine/dist/side_stream.h"

namespace trainer::parallel {

// Note [Offload]
// Shards of values, gradients and optimizer state stay in pinned memory of the host, and updates run there. A shard is
// copied to the device before each gather, and a shard of gradients to the host after each reduction. The copies of
// either direction have a stream of their own, so they overlap with computation and with each other. The host never
// waits for one of them, except once at the end of an update, before it reads gradients and writes values.
//   - Memory of the device that a copy uses is allocated and freed on the stream that computes, which waits for the copy
//     before it frees it. So memory is reused in a known order, and a memory plan counts it.
//   - Copies don't convert: those of libtorch that do are made by the host, which would wait. Dtypes are converted on
//     the device.
//   - The gradients of later micro-batches are added on the device, to the sum that is brought back from the host. So
//     results are, bit for bit, those without offload, as far as the optimizer's arithmetic is the same.
/// The copies of a model's shards between the memory of the host and a device.
class HostOffload {
 public:
  /// `device`: that computes; the meta device in a dry run. `pinned`: the host's memory is, without which the host
  /// waits for every copy.
  HostOffload(at::Device device, bool pinned);

  /// The host, or the meta device in a dry run.
  at::Device home() const;
  /// A tensor [n] of zeros in the host's memory.
  at::Tensor zeros(int64_t n, at::ScalarType dtype) const;

  /// A gather whose shard is on its way.
  struct Gather {
    std::vector<at::Tensor> memory;  // of the device, until the end
    std::unique_ptr<dist::Pending> pending;  // null for a single rank with offload
    dist::Moment started;

    /// Operators of the current stream that follow can use what was gathered.
    void wait();
  };
  /// Collective. Copies `shard` [n] of the host to the device, and gathers it in the dtype of `full` [n * size()], which
  /// is on the device.
  Gather gather(const at::Tensor& full, const at::Tensor& shard, dist::Comm& comm);

  /// Copies `shard` [n] of gradients on the device to `sum` [n] fp32 of the host, or adds it there.
  void send_gradient(const at::Tensor& shard, const at::Tensor& sum, bool add);
  /// Collective. Sums `sum` [n] fp32 of the host over `comm` in the dtype `as`.
  void all_reduce(const at::Tensor& sum, at::ScalarType as, dist::Comm& comm);

  /// Returns when the host can read all gradients, and write all shards.
  void wait();

 private:
  /// Starts `work` on the stream of copies to the host, which uses `memory` of the device.
  template <class F>
  void start(std::vector<at::Tensor> memory, const F& work);

  at::Device device_;
  bool pinned_;
  dist::SideStream to_device_, to_host_;
  // The copy to the host that began last: its memory is freed when the next one begins, so that at most one waits.
  std::vector<at::Tensor> leaving_;
  dist::Moment left_;
};

}  // namespace trainer::parallel
