// How the samples of a batch are packed into rows of tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::nn {

/// One sample's tokens: rows [begin, begin + length).
struct Span {
  int64_t begin, length;
};

/// The tokens of its sample that a span covers: those from index `start`, of `of` tokens in total.
struct SampleSlice {
  int64_t start, of;
};

class SplitRows;

namespace device {
struct LayoutTensors;
}

struct Layout;

/// What was made of a layout: its tensors on a device (models/nn/device/layout_tensors.h), and other layouts. A copy of
/// a layout, which may be changed, begins without any.
struct LayoutCache {
  LayoutCache() = default;
  LayoutCache(const LayoutCache&) {}
  LayoutCache& operator=(const LayoutCache&) {
    tensors.reset();
    others.clear();
    layouts.clear();
    return *this;
  }

  std::shared_ptr<const device::LayoutTensors> tensors;
  std::map<std::string, at::Tensor> others;  // of a layout that is only a shape: what layers make of it, by name
  std::map<std::string, std::shared_ptr<const Layout>> layouts;  // by name
  std::mutex mutex;
};

/// Tokens of many samples in one tensor `[tokens, ...]`, without padding.
struct Layout {
  std::vector<Span> spans;
  std::vector<int64_t> sample_index;  // sample index in the run, the counter of the sample's random draws

  // With sequence or context parallelism (models/nn/split_rows.h), a span covers a slice of a sample.
  std::vector<SampleSlice> slices;          // per span; empty: spans are whole samples
  std::shared_ptr<const Layout> whole;      // the rows of all ranks of the group; null: these are all rows
  std::shared_ptr<const SplitRows> shared;  // which rank has which rows

  // With sequence parallelism (engine/parallel/sequence_parallel.h), rows change between this rank's slice, outside of
  // tensor-parallel regions, and all rows, within them.
  bool is_sequence_slice = false;                // this is the slice, of `whole`
  std::shared_ptr<const Layout> sequence_slice;  // the slice of these rows, which the region returns; null: no slices

  /// It stands for the rows of any batch with these spans: `sample_index` is empty, and only the tensors on the device
  /// have the samples of the batch at hand (Note [Shapes]).
  bool shape_only = false;

  mutable LayoutCache made;

  /// The index of a span's first token in its sample; the number of tokens of the sample.
  int64_t start(int64_t span) const { return slices.empty() ? 0 : slices[static_cast<size_t>(span)].start; }
  int64_t length_of_sample(int64_t span) const {
    return slices.empty() ? spans[static_cast<size_t>(span)].length : slices[static_cast<size_t>(span)].of;
  }
  /// The rows that a tensor-parallel region works on.
  const Layout& in_region() const { return is_sequence_slice ? *whole : *this; }
  int64_t samples() const { return static_cast<int64_t>(spans.size()); }
  int64_t tokens() const { return spans.empty() ? 0 : spans.back().begin + spans.back().length; }
  int64_t longest() const {
    int64_t longest = 0;
    for (const Span& span : spans) longest = std::max(longest, span.length);
    return longest;
  }
  /// Whether rows up to the last span's end belong to no span.
  bool has_gaps() const {
    int64_t next = 0;
    for (const Span& span : spans)
      if (std::exchange(next, span.begin + span.length) != span.begin) return true;
    return false;
  }
  /// What `make` makes for attention on these rows: later layers, for which it would be the same, get it by `name`, and
  /// with it its tensors on the device.
  template <class Make>
  std::shared_ptr<const Layout> derived(const std::string& name, const Make& make) const {
    const std::lock_guard lock(made.mutex);
    std::shared_ptr<const Layout>& held = made.layouts[name];
    if (held == nullptr) held = make();
    return held;
  }
  void append(int64_t length, int64_t index) {
    spans.push_back({tokens(), length});
    sample_index.push_back(index);
  }
};

/// Shared by all operations on the same rows and saved for their backward.
using LayoutPtr = std::shared_ptr<const Layout>;

/// A layout of one row per sample.
inline LayoutPtr one_row_each(const std::vector<int64_t>& sample_index) {
  auto rows = std::make_shared<Layout>();
  for (const int64_t index : sample_index) rows->append(1, index);
  return rows;
}

}  // namespace trainer::nn
