#include "engine/train/rank_memory.h"

#include <ATen/ops/zeros.h>

#include "engine/dist/accelerator.h"
#include "engine/dist/memory.h"

namespace trainer::train {

RankMemory rank_memory(dist::Comm& comm) {
  const int ranks = comm.size();
  const at::Tensor shared = at::zeros({2 * ranks}, at::kDouble);  // holds integers up to 2^53 exactly
  double* const values = shared.mutable_data_ptr<double>();
  values[comm.rank()] = static_cast<double>(dist::peak_resident_bytes());
  values[ranks + comm.rank()] = static_cast<double>(dist::peak_tensor_bytes(comm.device()));
  comm.all_reduce(shared);
  return {{values, values + ranks}, {values + ranks, values + 2 * ranks}};
}

}  // namespace trainer::train
