#include "models/nn/position_ids.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/self_attention.h"

namespace trainer::nn {

at::Tensor position_ids(const Layout& rows, const Pass& pass, int64_t count, const char* key, at::Device device) {
  const std::vector<int64_t> positions = row_positions(rows, pass);
  const auto last = std::max_element(positions.begin(), positions.end());
  if (last != positions.end() && *last >= count)
    throw InputError("a sample has {} tokens, but this model has {} positions ({}): shorten the sample.", *last + 1,
                     count, key);
  return device::tensor_of_spans(rows, "position ids", device, [&] {
    const at::Tensor ids = device::host_memory({static_cast<int64_t>(positions.size())}, at::kLong, device);
    if (!ids.is_meta()) std::copy(positions.begin(), positions.end(), ids.data_ptr<int64_t>());
    return ids;
  });
}

}  // namespace trainer::nn
