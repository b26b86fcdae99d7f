#include "engine/dist/comm.h"

#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "engine/base/errors.h"

namespace trainer::dist {
namespace {

struct Done : Pending {
  void wait() override {}
};

class SoloComm : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    full.copy_(shard);
    return std::make_unique<Done>();
  }
  void all_reduce(const at::Tensor&, Reduce) override {}
  void barrier() override {}
  std::unique_ptr<Pending> send(const at::Tensor&, int) override { throw alone(); }
  std::unique_ptr<Pending> receive(const at::Tensor&, int) override { throw alone(); }
  at::Tensor shared_memory(int64_t bytes) override { return at::zeros({bytes}, at::kByte); }
  std::unique_ptr<Comm> group(const std::string&, const std::vector<int>&) override { return solo_comm(); }

 private:
  static InternalError alone() { return InternalError("a single rank has no peer to send to or receive from"); }
};

}  // namespace

Comm::Scattered Comm::start_reduce_scatter(const at::Tensor&) {
  throw InternalError("this communicator has no reduce-scatter of its own");
}

Comm::Scattered Comm::reduce_scatter(const at::Tensor& full) {
  if (has_reduce_scatter()) return start_reduce_scatter(full);
  all_reduce(full);
  const int64_t share = full.numel() / size();
  return {full.narrow(0, rank() * share, share), std::make_unique<Done>()};
}

void Comm::broadcast(const at::Tensor& tensor, int from) {
  if (rank() != from) tensor.zero_();
  // Summed as integers: all others hold zeroes, and float arithmetic would change values (-0.0 + 0.0 loses its sign).
  all_reduce(tensor.view(tensor.element_size() == 8 ? at::kLong : tensor.element_size() == 4 ? at::kInt : at::kByte));
}

double Comm::sum(double value) {
  const at::Tensor one = at::full({1}, value, at::kDouble);
  all_reduce(one);
  return one.item<double>();
}

double Comm::max(double value) {
  const at::Tensor one = at::full({1}, value, at::kDouble);
  all_reduce(one, Reduce::kMax);
  return one.item<double>();
}

std::vector<std::string> Comm::gather_text(const std::string& mine) {
  const auto longest = static_cast<int64_t>(max(static_cast<double>(mine.size())));
  const int64_t row = longest + static_cast<int64_t>(sizeof(int64_t));
  const at::Tensor shard = at::zeros({row}, at::kByte), full = at::empty({row * size()}, at::kByte);
  const auto length = static_cast<int64_t>(mine.size());
  std::memcpy(shard.data_ptr<uint8_t>(), &length, sizeof length);
  std::memcpy(shard.data_ptr<uint8_t>() + sizeof length, mine.data(), mine.size());
  all_gather(full, shard)->wait();
  std::vector<std::string> all;
  for (int r = 0; r < size(); ++r) {
    const auto* const at = full.const_data_ptr<uint8_t>() + r * row;
    int64_t n = 0;
    std::memcpy(&n, at, sizeof n);
    all.emplace_back(reinterpret_cast<const char*>(at + sizeof n), static_cast<size_t>(n));
  }
  return all;
}

std::unique_ptr<Comm> solo_comm() {
  return std::make_unique<SoloComm>();
}

}  // namespace trainer::dist
