// How the values of a weight are stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// A format in which a few bytes hold a block of values, each block by itself. Formats are constants: a Storage refers
/// to one by its address.
struct PackedFormat {
  std::string name;
  int64_t block;      // values of a block
  int64_t bytes;      // bytes of an encoded block
  int64_t alignment;  // bytes: a shard begins at a multiple of this
  /// values [n, block] fp32 → [n, bytes] uint8.
  at::Tensor (*encode)(const at::Tensor& values);
  /// blocks [n, bytes] uint8 → [n, block], in `dtype`.
  at::Tensor (*decode)(const at::Tensor& blocks, at::ScalarType dtype);
};

/// How a weight is stored: in a dtype, or packed in blocks along its last axis. A packed tensor holds bytes; its last
/// axis, which must be whole blocks, has the bytes of these blocks.
struct Storage {
  at::ScalarType dtype = at::kFloat;     // of the tensor that holds the weight: uint8 if it is packed
  const PackedFormat* packed = nullptr;  // null: not packed

  Storage() = default;
  Storage(at::ScalarType plain) : dtype(plain) {}                             // NOLINT: a dtype is a storage
  Storage(const PackedFormat& format) : dtype(at::kByte), packed(&format) {}  // NOLINT
  bool operator==(const Storage&) const = default;

  /// Values: a parameter and a shard begin at a multiple of this.
  int64_t grain() const;
  /// The elements of a flat tensor that holds `values`, which are whole blocks.
  int64_t elements(int64_t values) const { return packed ? values / packed->block * packed->bytes : values; }
  int64_t bytes(int64_t values) const { return elements(values) * static_cast<int64_t>(c10::elementSize(dtype)); }
  /// The shape of a tensor that holds values of shape `values`.
  std::vector<int64_t> shape(std::vector<int64_t> values) const;

  /// `values`, in this storage; of any shape if not packed, else with a last axis of whole blocks.
  at::Tensor encode(const at::Tensor& values) const;
  /// What `stored` holds, in `dtype`. A copy only if it is packed or its dtype differs.
  at::Tensor decode(const at::Tensor& stored, at::ScalarType as) const;
};

}  // namespace trainer::nn
