// Shared by all communicators over a collectives library; c10d::Backend is the interface to the library.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// A communicator over a c10d backend. Derived classes differ in how they create it; docs/backends.md describes the
/// requirements.
class BackendComm : public Comm {
 public:
  /// `devices`: where the tensors are that the backend takes. `share_memory`: the ranks are on one machine.
  BackendComm(c10::intrusive_ptr<c10d::Backend> backend, c10d::ProcessGroup::BackendType type,
              const std::vector<c10::DeviceType>& devices, bool share_memory);

  int rank() const override { return backend_->getRank(); }
  int size() const override { return backend_->getSize(); }
  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override;
  void all_reduce(const at::Tensor& tensor, Reduce op) override;
  bool runs_beside() const override { return runs_beside_; }
  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) override;
  void barrier() override;
  at::Tensor shared_memory(int64_t bytes) override;
  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override;

  /// Whether a collective runs in wait(), by the caller itself, rather than beside it.
  virtual bool runs_in_wait() const { return false; }
  /// For c10d's own Reducer.
  c10d::ProcessGroup& process_group() { return *group_; }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override;
  /// group(), for several ranks; `mine` is this rank's index among them.
  virtual std::unique_ptr<Comm> make_group(const std::string& name, const std::vector<int>& ranks, int mine) = 0;

  static std::unique_ptr<Pending> pending(c10::intrusive_ptr<c10d::Work> work);
  c10d::Backend& backend() { return *backend_; }
  bool shares_memory() const { return share_memory_; }

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  bool share_memory_, runs_beside_;
};

/// The c10d group of a communicator. Errors: InternalError when it has none.
c10d::ProcessGroup& process_group(Comm& comm);

}  // namespace trainer::dist
