// Samples held in memory.
#pragma once

#include <algorithm>
#include <vector>

#include "data/samples/samples.h"

namespace trainer::data {

class MemorySamples : public Samples {
 public:
  explicit MemorySamples(LabelKind kind = LabelKind::kTarget) : kind_(kind) {}

  void add(std::vector<int32_t> source, std::vector<int32_t> labels) {
    samples_.push_back({std::move(source), std::move(labels), {}, {}});
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  void read(int64_t index, Sample& sample) const override { sample = at(index); }
  Lengths lengths(int64_t index) const override {
    const auto& labels = at(index).labels;
    const auto learned = std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != -100; });
    return {static_cast<int64_t>(at(index).source.size()), static_cast<int64_t>(labels.size()), learned};
  }
  LabelKind label_kind() const override { return kind_; }

 private:
  const Sample& at(int64_t index) const { return samples_.at(static_cast<size_t>(index)); }

  LabelKind kind_;
  std::vector<Sample> samples_;
};

}  // namespace trainer::data
