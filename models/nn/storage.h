// How the values of a weight are stored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/nn/part.h"
#include "models/nn/stored_rows.h"

namespace trainer::nn {

/// A format in which a few bytes hold a block of values. Formats are constants: a Storage refers to one by its address.
/// Each block stands by itself, unless blocks have groups: see Note [Groups of blocks].
struct PackedFormat {
  std::string name;
  int64_t block;      // values of a block
  int64_t bytes;      // bytes of an encoded block
  int64_t alignment;  // bytes: a shard begins at a multiple of this
  /// values [n, block] fp32 on the CPU → [n, bytes] uint8. `shared` [n, 2] fp32: what each block's group shares;
  /// undefined without groups.
  at::Tensor (*encode)(const at::Tensor& values, const at::Tensor& shared);
  /// blocks [n, bytes] uint8 → [n, block], in `dtype`.
  at::Tensor (*decode)(const at::Tensor& blocks, at::ScalarType dtype, const at::Tensor& shared);

  /// What decode() reads of blocks [rows, n * bytes], for products; null: they need the decoded values. `shared`: what
  /// each `group` of blocks shares.
  std::unique_ptr<StoredRows> (*rows)(const at::Tensor& blocks, const at::Tensor& shared, int64_t group) = nullptr;

  int64_t group = 0;  // blocks of a group; 0: no groups
  /// values [n, block] fp32 → [n] fp32, which `share` needs of each block.
  at::Tensor (*summary)(const at::Tensor& values) = nullptr;
  /// The summaries of all blocks of a tensor → what each group shares, [groups, 2] fp32.
  at::Tensor (*share)(const at::Tensor& summaries) = nullptr;

  int64_t groups_of(int64_t values) const { return group > 0 ? (values / block + group - 1) / group : 0; }
};

// Note [Groups of blocks]
// The scales of blocks can be quantized too: consecutive blocks of the flattened tensor, across its rows, then share a
// scale of their scales. Such a group may lie in the shards or slices of several ranks. So what groups share, 8 bytes
// per 16,384 values, isn't part of the blocks: every rank that has a part of the tensor computes it from the whole
// tensor before it encodes its own blocks, and keeps all of it. So the values don't depend on the ranks.

// Note [Blocks along the inputs]
// bitsandbytes' blocks run along a layer's inputs, the last axis of nn.Linear's weight. GPT-2's Conv1D has its inputs
// first, so transformers transposes its weight before it is quantized. Ours stays transposed while it is packed: its
// blocks, shards and groups are those of the transpose. Only decode() turns it back, without a copy.

/// What the groups of one tensor share, and which slice of that tensor is stored.
struct BlockGroups {
  at::Tensor shared;  // [groups, 2] fp32
  Part part;
  Shape whole;
};

/// How a weight is stored: in a dtype, or packed in blocks along its last axis. A packed tensor holds bytes; its last
/// axis, which must be whole blocks, has the bytes of these blocks. If it is `transposed`, the axes are those of its
/// transpose.
struct Storage {
  at::ScalarType dtype = at::kFloat;     // of the tensor that holds the weight: uint8 if it is packed
  const PackedFormat* packed = nullptr;  // null: not packed
  bool transposed = false;               // packed as its transpose: see Note [Blocks along the inputs]
  std::shared_ptr<const BlockGroups> groups = nullptr;

  Storage() = default;
  Storage(at::ScalarType plain) : dtype(plain) {}                             // NOLINT: a dtype is a storage
  Storage(const PackedFormat& format) : dtype(at::kByte), packed(&format) {}  // NOLINT
  /// Whether tensors have the same layout.
  bool operator==(const Storage& other) const {
    return dtype == other.dtype && packed == other.packed && transposed == other.transposed;
  }

  /// Values: a parameter and a shard begin at a multiple of this.
  int64_t grain() const;
  /// The elements of a flat tensor that holds `values`, which are whole blocks.
  int64_t elements(int64_t values) const { return packed ? values / packed->block * packed->bytes : values; }
  int64_t values(int64_t elements) const { return packed ? elements / packed->bytes * packed->block : elements; }
  int64_t bytes(int64_t values) const { return elements(values) * static_cast<int64_t>(c10::elementSize(dtype)); }
  /// The shape and the slice of a weight as it is stored: its own, or those of its transpose.
  Shape order(Shape values) const;
  Part order(const Part& part) const { return transposed ? nn::transposed(part) : part; }
  /// The shape of a tensor that holds values of shape `values`.
  std::vector<int64_t> shape(std::vector<int64_t> values) const;
  /// The same for the whole tensor, if this one is of a slice.
  Storage of_whole() const;

  /// `values`, in this storage and its order; of any shape if not packed, else with a last axis of whole blocks.
  /// `begin`: the index, in the flattened tensor, of the first one.
  at::Tensor encode(const at::Tensor& values, int64_t begin = 0) const;
  /// What `stored` holds, in `dtype`: a matrix in the weight's own order, a flat tensor in the stored one. A copy only
  /// if it is packed or its dtype differs.
  at::Tensor decode(const at::Tensor& stored, at::ScalarType as, int64_t begin = 0) const;
  /// Whether products can read a stored matrix as it is, and how. Its rows must outlive what is returned.
  bool has_rows(const at::Tensor& stored) const;
  std::unique_ptr<StoredRows> rows(const at::Tensor& stored) const;

 private:
  /// What the groups of `count` blocks share, [count, 2]; undefined without groups.
  at::Tensor shared_by(int64_t first, int64_t count, at::Device device) const;
};

}  // namespace trainer::nn
