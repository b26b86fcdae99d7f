// What every communicator over a library of collectives shares: c10d::Backend is the seam between them.
#pragma once

#include <stdexcept>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "engine/base/errors.h"
#include "engine/dist/comm.h"

namespace trainer::dist {

/// Runs a collective; a library's exceptions become ours. A lost connection is the only thing that fails in practice.
template <class F>
auto translated(const char* what, const F& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw PeerError("{} failed: another rank was lost.\n  {}", what, text.substr(0, text.find('\n')));
  }
}

/// A communicator over a backend of c10d, which differ in how they are made. docs/backends.md tells what one must do.
class BackendComm : public Comm {
 public:
  /// `share_memory`: the ranks are on one machine.
  BackendComm(c10::intrusive_ptr<c10d::Backend> backend, c10d::ProcessGroup::BackendType type, bool share_memory);

  int rank() const override { return backend_->getRank(); }
  int size() const override { return backend_->getSize(); }
  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override;
  void all_reduce(const at::Tensor& tensor, Reduce op) override;
  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override;
  std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) override;
  void barrier() override;
  at::Tensor shared_memory(int64_t bytes) override;
  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override;

  /// For c10d's own Reducer.
  c10d::ProcessGroup& process_group() { return *group_; }

 protected:
  /// group(), for several ranks; `mine` is this one's number among them.
  virtual std::unique_ptr<Comm> make_group(const std::string& name, const std::vector<int>& ranks, int mine) = 0;

  c10d::Backend& backend() { return *backend_; }
  bool shares_memory() const { return share_memory_; }

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  bool share_memory_;
};

/// c10d's group behind a communicator; throws InternalError when there is none.
c10d::ProcessGroup& process_group(Comm& comm);

}  // namespace trainer::dist
