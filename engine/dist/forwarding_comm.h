#pragma once

#include <utility>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// A communicator that forwards to another one; derived classes extend it.
class ForwardingComm : public Comm {
 public:
  explicit ForwardingComm(std::unique_ptr<Comm> inner) : inner_(std::move(inner)) {}

  Comm& inner() const { return *inner_; }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  at::Device device() const override { return inner_->device(); }

  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    return inner_->all_gather(full, shard);
  }
  void all_reduce(const at::Tensor& tensor, Reduce op) override { inner_->all_reduce(tensor, op); }
  bool runs_beside() const override { return inner_->runs_beside(); }
  bool has_reduce_scatter() const override { return inner_->has_reduce_scatter(); }
  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override { return inner_->send(tensor, to); }
  std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) override {
    return inner_->receive(tensor, from);
  }
  void barrier() override { inner_->barrier(); }
  at::Tensor shared_memory(int64_t bytes) override { return inner_->shared_memory(bytes); }
  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    return inner_->group(name, ranks);
  }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override { return inner_->reduce_scatter(full); }

 private:
  std::unique_ptr<Comm> inner_;
};

/// The communicator of class T that `comm` is or forwards to; null when there is none.
template <class T>
T* beneath(Comm& comm) {
  for (Comm* c = &comm;;) {
    if (auto* const found = dynamic_cast<T*>(c)) return found;
    auto* const forwarding = dynamic_cast<ForwardingComm*>(c);
    if (forwarding == nullptr) return nullptr;
    c = &forwarding->inner();
  }
}

}  // namespace trainer::dist
