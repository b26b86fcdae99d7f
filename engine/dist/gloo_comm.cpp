// c10d hides its Gloo backend behind this; the wheel is built with it.
#define USE_C10D_GLOO

#include "engine/dist/gloo_comm.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "engine/base/errors.h"
#include "engine/dist/link_store.h"
#include "engine/dist/shared_memory.h"

namespace trainer::dist {
namespace {

/// Runs a collective; c10d's exceptions become ours. A lost connection is the only thing that fails here in practice.
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

class WorkPending : public Pending {
 public:
  explicit WorkPending(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  void wait() override {
    translated("a gather", [&] { return work_->wait(); });
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

class GlooComm : public Comm {
 public:
  GlooComm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, bool share_memory)
      : store_(store), rank_(rank), size_(size), share_memory_(share_memory) {
    translated("the meeting of the ranks", [&] {
      auto options = c10d::ProcessGroupGloo::Options::create();
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
      options->threads = 1;  // collectives run in the order they were called
      auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
      group_ = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
      group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
      gloo_ = gloo;
      return 0;
    });
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    return translated("a gather", [&] {
      at::Tensor to = full, from = shard;
      return std::make_unique<WorkPending>(gloo_->_allgather_base(to, from));
    });
  }

  void all_reduce(const at::Tensor& tensor, Reduce op) override {
    translated("a reduction", [&] {
      std::vector<at::Tensor> tensors{tensor};
      c10d::AllreduceOptions options;
      options.reduceOp = op == Reduce::kSum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
      return gloo_->allreduce(tensors, options)->wait();
    });
  }

  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override {
    return translated("a send", [&] {
      std::vector<at::Tensor> tensors{tensor};
      return std::make_unique<WorkPending>(gloo_->send(tensors, to, /*tag=*/0));
    });
  }

  std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) override {
    return translated("a receive", [&] {
      std::vector<at::Tensor> tensors{tensor};
      return std::make_unique<WorkPending>(gloo_->recv(tensors, from, /*tag=*/0));
    });
  }

  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    if (ranks.size() == 1) return solo_comm();
    const auto mine = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    const auto store =
        c10::make_intrusive<c10d::PrefixStore>(fmt::format("{}-{}-{}/", name, ranks.front(), groups_[name]++), store_);
    return gloo_comm(store, static_cast<int>(mine), static_cast<int>(ranks.size()), share_memory_);
  }

  void barrier() override {
    translated("a barrier", [&] { return gloo_->barrier()->wait(); });
  }

  at::Tensor shared_memory(int64_t bytes) override {
    return share_memory_ ? map_shared_memory(*this, bytes) : at::Tensor();
  }

  c10d::ProcessGroup& group() { return *group_; }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::map<std::string, int> groups_;  // made so far by each name: a later one must not find the keys of an earlier one
  int rank_, size_;
  bool share_memory_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

}  // namespace

std::unique_ptr<Comm> gloo_comm(Link& link, int rank, int size) {
  constexpr bool kOneMachine = true;  // a supervisor starts ranks on its own machine only
  return gloo_comm(c10::make_intrusive<LinkStore>(link, "gloo/"), rank, size, kOneMachine);
}

std::unique_ptr<Comm> gloo_comm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, bool share_memory) {
  return std::make_unique<GlooComm>(store, rank, size, share_memory);
}

c10d::ProcessGroup& process_group(Comm& comm) {
  auto* const gloo = dynamic_cast<GlooComm*>(&comm);
  if (gloo == nullptr) throw InternalError("this communicator has no c10d group");
  return gloo->group();
}

}  // namespace trainer::dist
