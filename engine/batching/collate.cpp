#include "engine/batching/collate.h"

#include <algorithm>

#include <ATen/ops/empty.h>

namespace trainer::batching {
namespace {

/// To a model, the documents packed into one sample are separate samples: their positions must differ, so that their
/// dropout differs.
constexpr int64_t kPartStride = int64_t{1} << 40;

void append_source(const data::Sample& sample, int64_t position, nn::Layout& layout) {
  const auto length = static_cast<int64_t>(sample.source.size());
  if (sample.parts.size() < 2) return layout.append(length, position);
  for (size_t i = 0; i < sample.parts.size(); ++i) {
    const int64_t end = i + 1 < sample.parts.size() ? sample.parts[i + 1] : length;
    layout.append(end - sample.parts[i], position + static_cast<int64_t>(i) * kPartStride);
  }
}

template <class T>
at::Tensor to_tensor(const std::vector<T>& values, at::ScalarType type, bool pinned) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::TensorOptions(type).pinned_memory(pinned));
  std::copy(values.begin(), values.end(), tensor.data_ptr<T>());
  return tensor;
}

/// Scales bytes to [0, 1].
at::Tensor to_pixels(const std::vector<uint8_t>& bytes, int64_t features, bool pinned) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size()) / features, features},
                                at::TensorOptions(at::kFloat).pinned_memory(pinned));
  std::transform(bytes.begin(), bytes.end(), tensor.data_ptr<float>(),
                 [](uint8_t byte) { return static_cast<float>(byte) / 255.0F; });
  return tensor;
}

}  // namespace

models::Batch collate(const data::Samples& samples, std::span<const int64_t> positions,
                      const std::function<int64_t(int64_t)>& index_of, bool pinned) {
  auto source = std::make_shared<nn::Layout>(), target = std::make_shared<nn::Layout>();
  const bool next = samples.label_kind() == data::LabelKind::kNext;
  std::vector<int64_t> ids, labels;
  std::vector<uint8_t> pixels;
  std::vector<double> reference;
  data::Sample sample;
  for (const int64_t position : positions) {
    samples.read(index_of(position), sample);
    pixels.insert(pixels.end(), sample.pixels.begin(), sample.pixels.end());
    ids.insert(ids.end(), sample.source.begin(), sample.source.end());
    labels.insert(labels.end(), sample.labels.begin(), sample.labels.end());
    reference.insert(reference.end(), sample.reference.begin(), sample.reference.end());
    if (samples.features() > 0)
      source->append(1, position);
    else
      append_source(sample, position, *source);
    if (!next) target->append(static_cast<int64_t>(sample.labels.size()), position);
  }
  const auto learned = std::count_if(labels.begin(), labels.end(), [](int64_t label) { return label != -100; });
  models::Batch batch{to_tensor(ids, at::kLong, pinned), to_tensor(labels, at::kLong, pinned), source,
                      next ? source : target, learned};
  if (!reference.empty()) batch.reference = to_tensor(reference, at::kDouble, false).view({-1, 2});
  if (samples.features() > 0) batch.pixels = to_pixels(pixels, samples.features(), pinned);
  return batch;
}

int64_t loss_terms(const models::Batch& batch) {
  return batch.reference.defined() ? batch.reference.size(0) : batch.target_tokens;
}

int64_t sample_count(const nn::Layout& layout) {
  return std::count_if(layout.sample_index.begin(), layout.sample_index.end(),
                       [](int64_t position) { return position < kPartStride; });
}

}  // namespace trainer::batching
