#include "engine/worker/token_batch.h"

#include <array>

#include "data/samples/samples.h"
#include "engine/batching/collate.h"

namespace trainer::worker {
namespace {

class OneSample : public data::Samples {
 public:
  OneSample(data::Sample sample, models::Task task) : sample_(std::move(sample)), task_(task) {}
  int64_t size() const override { return 1; }
  void read(int64_t, data::Sample& sample) const override { sample = sample_; }
  data::Lengths lengths(int64_t) const override { return {}; }
  data::LabelKind label_kind() const override {
    if (task_ == models::Task::kCausalLm) return data::LabelKind::kNext;
    return task_ == models::Task::kSeq2SeqLm ? data::LabelKind::kTarget : data::LabelKind::kClass;
  }

 private:
  data::Sample sample_;
  models::Task task_;
};

}  // namespace

models::Batch token_batch(std::vector<int32_t> source, std::vector<int32_t> labels, models::Task task) {
  data::Sample sample;
  if (task == models::Task::kSeq2SeqLm)
    sample.labels = std::move(labels);
  else
    sample.labels.assign(task == models::Task::kCausalLm ? source.size() : 1, 0);
  sample.source = std::move(source);
  return batching::collate(OneSample(std::move(sample), task), std::array<int64_t, 1>{0}, [](int64_t i) { return i; });
}

}  // namespace trainer::worker
