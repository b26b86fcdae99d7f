#include "models/nn/storage.h"

#include <numeric>

#include <ATen/ops/empty.h>

namespace trainer::nn {

int64_t Storage::grain() const {
  return packed ? packed->block * (packed->alignment / std::gcd(packed->alignment, packed->bytes)) : 1;
}

std::vector<int64_t> Storage::shape(std::vector<int64_t> values) const {
  if (packed) values.back() = elements(values.back());
  return values;
}

at::Tensor Storage::encode(const at::Tensor& values) const {
  if (!packed) return values.to(dtype);
  // A dry run counts the memory of decoding, but encodes nothing: not all operators accept tensors without values.
  if (values.is_meta()) return at::empty(shape(values.sizes().vec()), values.options().dtype(dtype));
  return packed->encode(values.to(at::kFloat).reshape({-1, packed->block})).view(shape(values.sizes().vec()));
}

at::Tensor Storage::decode(const at::Tensor& stored, at::ScalarType as) const {
  if (!packed) return stored.to(as);
  std::vector<int64_t> values = stored.sizes().vec();
  values.back() = values.back() / packed->bytes * packed->block;
  return packed->decode(stored.reshape({-1, packed->bytes}), as).view(values);
}

}  // namespace trainer::nn
