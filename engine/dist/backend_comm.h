// Shared by all communicators over a collectives library; c10d::Backend is the interface to the library.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "engine/base/errors.h"
#include "engine/dist/comm.h"

namespace trainer::dist {

/// Throws what `error`, of a collectives library, means: that memory is exhausted, a mistake of ours, or that another
/// rank was lost. All of its lines are kept, because NCCL's last line is often the reason.
[[noreturn]] void throw_translated(const char* what, const std::exception& error);

/// Runs a collective and translates the library's exceptions into ours.
template <class F>
auto translated(const char* what, const F& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw_translated(what, error);
  }
}

/// True when an exception's message shows that the library lost its connection to another rank. Needed where no code of
/// ours is in between to translate exceptions: in the collectives of c10d's own Reducer, and in NCCL's watchdog.
bool tells_of_lost_rank(const std::string& message);
/// What such a message means: "another rank was lost", or that its connection was tampered with.
const char* meaning_of(const std::string& message);

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
