#include "engine/parallel/shared_gradients.h"

#include <algorithm>

#include "engine/dist/dry_memory.h"
#include "engine/dist/shared_sum.h"

namespace trainer::parallel {

SharedGradients::SharedGradients(dist::Comm& comm, int64_t of_root, int64_t of_unit) : comm_(comm) {
  const dist::CommunicationMemory communication;
  for (const int64_t bytes : {of_unit, of_unit, of_root})
    if (bytes > 0) slots_.push_back({comm.shared_memory(bytes * comm.size()).view({comm.size(), bytes})});
  std::stable_sort(slots_.begin(), slots_.end(),
                   [](const Slot& a, const Slot& b) { return a.memory.size(1) < b.memory.size(1); });
}

at::Tensor SharedGradients::take(int64_t bytes) {
  for (Slot& slot : slots_) {
    if (slot.taken || slot.read_before > collectives_ || slot.memory.size(1) < bytes) continue;
    slot.taken = true;
    return slot.memory.narrow(1, 0, bytes);
  }
  return {};
}

void SharedGradients::sum(const at::Tensor& rows, const at::Tensor& to, bool add) {
  dist::sum_shared(comm_, rows, to, add);
  ++collectives_;
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.taken && s.memory.is_alias_of(rows); });
  slot->taken = false;
  slot->read_before = collectives_ + 1;
}

}  // namespace trainer::parallel
