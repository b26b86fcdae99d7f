#include "engine/batching/token_batch.h"

#include <numeric>

#include "data/samples/samples.h"
#include "engine/batching/collate.h"

namespace trainer::batching {
namespace {

class TokenLists : public data::Samples {
 public:
  TokenLists(std::vector<std::vector<int32_t>> sources, std::vector<std::vector<int32_t>> labels, models::Task task)
      : sources_(std::move(sources)), labels_(std::move(labels)), task_(task) {}
  int64_t size() const override { return static_cast<int64_t>(sources_.size()); }
  void read(int64_t index, data::Sample& sample) const override {
    const auto i = static_cast<size_t>(index);
    sample = {};
    sample.source = sources_[i];
    if (task_ == models::Task::kSeq2SeqLm)
      sample.labels = i < labels_.size() ? labels_[i] : std::vector<int32_t>(1, 0);
    else
      sample.labels.assign(task_ == models::Task::kCausalLm ? sample.source.size() : 1, 0);
  }
  data::Lengths lengths(int64_t) const override { return {}; }
  data::LabelKind label_kind() const override {
    if (task_ == models::Task::kCausalLm) return data::LabelKind::kNext;
    return task_ == models::Task::kSeq2SeqLm ? data::LabelKind::kTarget : data::LabelKind::kClass;
  }

 private:
  std::vector<std::vector<int32_t>> sources_, labels_;
  models::Task task_;
};

}  // namespace

models::Batch token_batch(std::vector<std::vector<int32_t>> sources, std::vector<std::vector<int32_t>> labels,
                          models::Task task, int64_t first) {
  std::vector<int64_t> positions(sources.size());
  std::iota(positions.begin(), positions.end(), first);
  return collate(TokenLists(std::move(sources), std::move(labels), task), positions,
                 [first](int64_t position) { return position - first; });
}

}  // namespace trainer::batching
