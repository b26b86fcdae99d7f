#include "engine/parallel/shared_values.h"

#include <algorithm>

#include "engine/base/round_up.h"
#include "engine/dist/shared_memory.h"

namespace trainer::parallel {
namespace {

constexpr int64_t kGrain = 1024;  // a part of a weight is whole vectors and whole lines of the cache

}  // namespace

SharedValues share_values(const std::vector<nn::ParameterPtr>& trained, dist::Comm& comm) {
  int64_t total = 0, at = 0;
  for (const nn::ParameterPtr& p : trained) total += p->numel();
  if (comm.size() == 1 || total == 0) return {};
  const at::Tensor memory = dist::shared_floats(comm, total);
  if (!memory.defined()) return {};
  SharedValues shared;
  for (const nn::ParameterPtr& p : trained) {
    const auto begin_of = [&](int64_t rank) {
      return std::clamp<int64_t>(round_up(total * rank / comm.size() - at, kGrain), 0, p->numel());
    };
    // variable_data: a version counter of its own, as weights have that aren't parts of one tensor.
    shared[p.get()] = {memory.narrow(0, at, p->numel()).view(p->shape).variable_data(), begin_of(comm.rank()),
                       begin_of(comm.rank() + 1)};
    at += p->numel();
  }
  return shared;
}

}  // namespace trainer::parallel
