// Makes ranks of one machine behave as if they were on different ones: no shared memory, everything is sent.
#pragma once

#include "engine/dist/comm.h"

namespace trainer::selftest {

class UnsharedComm : public dist::Comm {
 public:
  explicit UnsharedComm(std::unique_ptr<dist::Comm> comm) : comm_(std::move(comm)) {}

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  at::Device device() const override { return comm_->device(); }
  std::unique_ptr<dist::Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    return comm_->all_gather(full, shard);
  }
  void all_reduce(const at::Tensor& tensor, dist::Reduce op) override { comm_->all_reduce(tensor, op); }
  std::unique_ptr<dist::Pending> send(const at::Tensor& tensor, int to) override { return comm_->send(tensor, to); }
  std::unique_ptr<dist::Pending> receive(const at::Tensor& tensor, int from) override {
    return comm_->receive(tensor, from);
  }
  void barrier() override { comm_->barrier(); }
  at::Tensor shared_memory(int64_t) override { return {}; }
  std::unique_ptr<dist::Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    return std::make_unique<UnsharedComm>(comm_->group(name, ranks));
  }

 private:
  std::unique_ptr<dist::Comm> comm_;
};

}  // namespace trainer::selftest
