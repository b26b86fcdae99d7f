#include "models/nn/storage.h"

#include <numeric>
#include <utility>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor_divide.h>

#include "engine/base/errors.h"
#include "models/nn/half_rows.h"

namespace trainer::nn {
namespace {

/// The rows of `part`, [..]; `x` has the shape of the whole tensor.
at::Tensor slice_of(const at::Tensor& x, const Part& part, int64_t rows_per_index) {
  std::vector<at::Tensor> ranges;
  for (const Range& range : part.ranges)
    ranges.push_back(x.narrow(part.dim, range.begin / rows_per_index, (range.end - range.begin) / rows_per_index));
  return at::cat(ranges, part.dim);
}

}  // namespace

int64_t Storage::grain() const {
  return packed ? packed->block * (packed->alignment / std::gcd(packed->alignment, packed->bytes)) : 1;
}

Shape Storage::order(Shape values) const {
  if (transposed) std::swap(values.at(0), values.at(1));
  return values;
}

std::vector<int64_t> Storage::shape(std::vector<int64_t> values) const {
  values = order(std::move(values));
  if (packed) values.back() = elements(values.back());
  return values;
}

Storage Storage::of_whole() const {
  Storage whole = *this;
  if (groups) whole.groups = std::make_shared<BlockGroups>(BlockGroups{groups->shared, {}, groups->whole});
  return whole;
}

at::Tensor Storage::shared_by(int64_t first, int64_t count, at::Device device) const {
  if (packed->group == 0) return {};
  if (device.is_meta() || count == 0) return at::empty({count, 2}, at::TensorOptions(device).dtype(at::kFloat));
  if (!groups) throw InternalError("a weight stored as {} has no groups", packed->name);
  if (groups->part.whole() && first == 0) {
    const at::Tensor shared = groups->shared.to(device);
    return shared.unsqueeze(1).expand({-1, packed->group, 2}).reshape({-1, 2}).narrow(0, 0, count).contiguous();
  }
  const auto indices = at::TensorOptions(device).dtype(at::kInt);
  at::Tensor blocks;  // their indices in the whole tensor
  if (groups->part.whole()) {
    blocks = at::arange(first, first + count, indices);
  } else {
    Shape grid = groups->whole;
    grid.back() /= packed->block;
    const bool last = groups->part.dim + 1 == static_cast<int64_t>(grid.size());
    const int64_t all = std::accumulate(grid.begin(), grid.end(), int64_t{1}, std::multiplies<>());
    blocks = slice_of(at::arange(all, indices).view(grid), groups->part, last ? packed->block : 1)
                 .view(-1)
                 .narrow(0, first, count);
  }
  return groups->shared.to(device).index_select(0, at::floor_divide(blocks, packed->group));
}

at::Tensor Storage::encode(const at::Tensor& values, int64_t begin) const {
  if (!packed) return values.to(dtype);
  // A dry run counts the memory of decoding, but encodes nothing: not all operators accept tensors without values.
  std::vector<int64_t> bytes = values.sizes().vec();
  bytes.back() = elements(bytes.back());
  if (values.is_meta()) return at::empty(bytes, values.options().dtype(dtype));
  const at::Tensor blocks = values.to(at::kFloat).reshape({-1, packed->block});
  const at::Tensor shared = shared_by(begin / packed->block, blocks.size(0), blocks.device());
  return packed->encode(blocks, shared).view(bytes);
}

at::Tensor Storage::decode(const at::Tensor& stored, at::ScalarType as, int64_t begin) const {
  if (!packed) return stored.to(as);
  std::vector<int64_t> shape = stored.sizes().vec();
  shape.back() = values(shape.back());
  const at::Tensor blocks = stored.reshape({-1, packed->bytes});
  const at::Tensor shared = shared_by(begin / packed->block, blocks.size(0), stored.device());
  const at::Tensor decoded = packed->decode(blocks, as, shared).view(shape);
  return transposed && decoded.dim() == 2 ? decoded.t() : decoded;
}

bool Storage::has_rows(const at::Tensor& stored) const {
  if (stored.dim() != 2 || !stored.is_contiguous()) return false;
  return packed ? packed->rows != nullptr : dtype == at::kBFloat16 || dtype == at::kHalf;
}

std::unique_ptr<StoredRows> Storage::rows(const at::Tensor& stored) const {
  if (!packed) return half_rows(stored);
  if (packed->group == 0 || (groups && groups->part.whole()))
    return packed->rows(stored, groups ? groups->shared.contiguous() : at::Tensor(), packed->group);
  return packed->rows(stored, shared_by(0, stored.numel() / packed->bytes, stored.device()), 1);
}

}  // namespace trainer::nn
