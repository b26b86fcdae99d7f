#include "engine/train/longest_batches.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "engine/prepare/run_length.h"
#include "engine/train/update_plan.h"

namespace trainer::train {
namespace {

constexpr int64_t kMostSamples = 2'000'000;  // to examine, which takes about a second

int64_t squares(int64_t a, int64_t b) {
  return a * a + b * b;
}

/// The largest micro-batch by each of several measures.
class Longest {
 public:
  explicit Longest(const data::Samples& samples) : samples_(samples) { found_.kind = samples.label_kind(); }

  /// Adds one update (or a whole evaluation) as planned for the ranks.
  void add(const data::PackingPlan& plan, const std::function<int64_t(int64_t)>& index_of) {
    ++found_.updates_seen;
    for (const auto& rank : plan) {
      int64_t tokens = 0;
      for (const auto& positions : rank) {
        std::vector<int64_t> indices;
        for (const int64_t position : positions) indices.push_back(index_of(position));
        tokens += add(indices);
      }
      found_.tokens_of_update = std::max(found_.tokens_of_update, tokens);
    }
  }

  LongestBatches found() {
    std::set<std::vector<int64_t>> different;  // usually one batch is the largest by every measure
    for (const Best& best : best_)
      if (best.measure > 0) different.insert(best.indices);
    for (const auto& indices : different) found_.batches.push_back(lengths_of(indices));
    return std::move(found_);
  }

 private:
  struct Best {
    int64_t measure = 0;
    std::vector<int64_t> indices;
  };

  /// Returns the number of ids and labels in the batch.
  int64_t add(const std::vector<int64_t>& indices) {
    int64_t source = 0, target = 0, pairs = 0, labels = 0;
    for (const int64_t index : indices) {
      const data::Lengths l = samples_.lengths(index);
      const int64_t s = l.source, t = samples_.label_kind() == data::LabelKind::kTarget ? l.labels : 0;
      const int64_t attending = l.rejected > 0 ? squares(s - l.rejected, l.rejected) : s * s;
      source += s, target += l.learned, pairs += attending + s * t + t * t, labels += l.labels;
    }
    // How much more a target token needs (it passes through the head and two attentions) depends on the model.
    const std::array<int64_t, kMeasures> measures{
        source, source + target, source + 4 * target, source + 16 * target, target, pairs};
    for (size_t i = 0; i < kMeasures; ++i)
      if (measures[i] > best_[i].measure) best_[i] = {measures[i], indices};
    return source + labels;
  }

  BatchLengths lengths_of(const std::vector<int64_t>& indices) const {
    BatchLengths lengths;
    for (const int64_t index : indices) {
      const data::Lengths l = samples_.lengths(index);
      lengths.source.push_back(l.source - l.rejected);
      if (l.rejected > 0) lengths.source.push_back(l.rejected);
      if (samples_.label_kind() != data::LabelKind::kNext) lengths.target.push_back(l.labels);
      lengths.learned += l.learned;
    }
    return lengths;
  }

  static constexpr size_t kMeasures = 6;
  const data::Samples& samples_;
  std::array<Best, kMeasures> best_;
  LongestBatches found_;
};

/// The longest sample that the options allow.
data::Lengths longest_sample(const config::DataConfig& c, int64_t most_tokens) {
  const int64_t allowed = length_option(c).tokens, length = most_tokens > 0 ? std::min(allowed, most_tokens) : allowed;
  switch (c.task) {
    case config::Task::kSeq2SeqLm:
      return {length, c.max_target_length, c.max_target_length};
    case config::Task::kSequenceClassification:
      return {length, 1, 1};
    case config::Task::kImageClassification:
      return {1, 1, 1};
    case config::Task::kCausalLm:
      break;
  }
  return {length, length, length};
}

data::LabelKind label_kind_of(config::Task task) {
  if (task == config::Task::kSeq2SeqLm) return data::LabelKind::kTarget;
  return task == config::Task::kCausalLm ? data::LabelKind::kNext : data::LabelKind::kClass;
}

/// The batches of a rank's `samples` samples, `at_a_time` in each micro-batch.
LongestBatches fullest_batches(const config::Config& config, const data::Lengths& sample, int64_t samples,
                               int64_t at_a_time) {
  LongestBatches found;
  found.kind = label_kind_of(config.data.task);
  found.tokens_of_update = samples * (sample.source + sample.labels);
  const auto count = static_cast<size_t>(std::min(samples, at_a_time));
  BatchLengths batch{std::vector<int64_t>(count, sample.source), {}, static_cast<int64_t>(count) * sample.learned};
  if (found.kind != data::LabelKind::kNext) batch.target.assign(count, sample.labels);
  found.batches.push_back(std::move(batch));
  return found;
}

}  // namespace

LengthOption length_option(const config::DataConfig& c) {
  if (c.task == config::Task::kImageClassification) return {"", 1};
  if (c.task == config::Task::kSeq2SeqLm) return {"data.max_source_length", c.max_source_length};
  if (c.task == config::Task::kCausalLm && c.train.format == config::DataFormat::kMegatron)
    return {"data.megatron.sequence_length", c.megatron.sequence_length};
  return {"data.max_length", c.max_length};
}

LongestBatches fullest_training_batches(const config::Config& config, int64_t most_tokens, int64_t ranks) {
  const config::TrainingConfig& t = config.training;
  const data::Lengths sample = longest_sample(config.data, most_tokens);
  const int64_t tokens = sample.source + (config.data.task == config::Task::kSeq2SeqLm ? sample.labels : 0);
  const int64_t at_a_time =
      t.max_tokens > 0 ? std::max<int64_t>(1, t.max_tokens / tokens) : t.per_device_train_batch_size;
  const int64_t samples = (prepare::global_batch(t, ranks) + ranks - 1) / ranks;
  return fullest_batches(config, sample, samples, at_a_time);
}

LongestBatches fullest_evaluation_batches(const config::Config& config, int64_t most_tokens) {
  const int64_t samples = config.training.per_device_eval_batch_size;
  return fullest_batches(config, longest_sample(config.data, most_tokens), samples, samples);
}

LongestBatches longest_training_batches(const config::Config& config, const data::Samples& samples, int64_t ranks) {
  const prepare::RunLength length = prepare::run_length(config, samples.size(), ranks);
  const data::SampleOrder order = order_of(config, samples, length.global_batch);
  const data::Updates updates(order.size(), length.global_batch);
  Longest longest(samples);
  const auto index_of = [&](int64_t position) { return order.sample(position); };
  const auto tokens_of = [&](int64_t position) { return samples.tokens(index_of(position)); };
  for (int64_t i = 0; i < length.updates && i * length.global_batch < kMostSamples; ++i)
    longest.add(plan_update(config.training, tokens_of, updates.at(i), ranks), index_of);
  return longest.found();
}

LongestBatches longest_evaluation_batches(const config::Config& config, const data::Samples& samples, int64_t ranks) {
  Longest longest(samples);
  longest.add(data::plan_by_samples({0, samples.size()}, ranks, config.training.per_device_eval_batch_size),
              [](int64_t position) { return position; });
  return longest.found();
}

}  // namespace trainer::train
