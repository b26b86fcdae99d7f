#include "models/nn/reference/rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/nn/device/layout_tensors.h"

namespace trainer::nn::reference {

at::Tensor numbers(const std::vector<int64_t>& values, at::Device to) {
  const at::Tensor all = device::host_memory({static_cast<int64_t>(values.size())}, at::kLong, to);
  if (!all.is_meta()) std::copy(values.begin(), values.end(), all.data_ptr<int64_t>());
  return all;
}

RowNumbers row_numbers(const Layout& layout, at::Device to) {
  const device::LayoutTensors& tensors = device::tensors_of(layout, to);
  return {tensors.sample_index, tensors.token};
}

PaddedRows padded_rows(const Layout& layout, int64_t count, at::Device device) {
  PaddedRows padded;
  padded.samples = layout.samples(), padded.longest = layout.longest();
  std::vector<int64_t> rows, lengths, places;
  for (int64_t s = 0; s < padded.samples; ++s) {
    const Span span = layout.spans[s];
    lengths.push_back(span.length);
    for (int64_t i = 0; i < padded.longest; ++i) {
      rows.push_back(std::min(span.begin + std::min(i, std::max<int64_t>(span.length - 1, 0)), count - 1));
      if (i < span.length) places.push_back(s * padded.longest + i);
    }
  }
  const auto on_device = [&](const std::string& name, const std::vector<int64_t>& values) {
    return device::tensor_of_spans(layout, name, device, [&] { return numbers(values, device); });
  };
  padded.rows = on_device(fmt::format("padded rows of {}", count), rows).view({padded.samples, padded.longest});
  padded.lengths = on_device("padded lengths", lengths).unsqueeze(1);
  padded.places = on_device("padded places", places);
  return padded;
}

}  // namespace trainer::nn::reference
