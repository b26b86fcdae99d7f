#include "engine/train/memory_fit.h"

#include <algorithm>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/config/tables.h"
#include "engine/prepare/run_length.h"
#include "engine/train/longest_batches.h"

namespace trainer::train {
namespace {

using config::DistributedType;

constexpr int64_t kMostRanks = 64;

config::Plan with_recomputation(config::Plan plan) {
  plan.config.training.gradient_checkpointing = true;
  return plan;
}

config::Plan with_length(config::Plan plan, int64_t tokens) {
  config::DataConfig& data = plan.config.data;
  const std::string option = length_option(data).name;
  (option == "data.max_length"          ? data.max_length
   : option == "data.max_source_length" ? data.max_source_length
                                        : data.megatron.sequence_length) = tokens;
  return plan;
}

config::Plan with_fsdp(config::Plan plan, int64_t ranks) {
  plan.config.distributed_type = DistributedType::kFsdp;
  plan.config.num_processes = ranks;
  return plan;
}

/// Whether adding ranks would shard the weights further: the configured mesh doesn't fix their number.
bool can_grow(const config::Config& c) {
  const bool sharded = c.distributed_type == DistributedType::kFsdp;
  if (c.training.local_sgd_steps > 0 || c.num_machines > 1) return false;
  if (sharded) return !c.parallelism_config || c.parallelism_config->dp_shard_size <= 1;
  return !c.parallelism_config;
}

/// The lengths of other samples, truncated to `tokens`.
class ShortenedSamples : public data::Samples {
 public:
  ShortenedSamples(std::shared_ptr<const data::Samples> whole, int64_t tokens)
      : whole_(std::move(whole)), tokens_(tokens) {}

  int64_t size() const override { return whole_->size(); }
  void read(int64_t, data::Sample&) const override { throw InternalError("shortened samples cannot be read"); }
  data::Lengths lengths(int64_t index) const override {
    data::Lengths l = whole_->lengths(index);
    const int64_t first = std::min(l.source - l.rejected, tokens_);  // of a pair, each text is truncated
    l.rejected = std::min(l.rejected, tokens_);
    l.source = first + l.rejected;
    if (label_kind() == data::LabelKind::kNext)
      l.labels = std::min(l.labels, l.source), l.learned = std::min(l.learned, l.source);
    return l;
  }
  int64_t source_length(int64_t index) const override {
    return are_pairs() ? lengths(index).source : std::min(whole_->source_length(index), tokens_);
  }
  std::vector<int64_t> sources() const override { return whole_->sources(); }
  int64_t features() const override { return whole_->features(); }
  data::LabelKind label_kind() const override { return whole_->label_kind(); }
  bool are_pairs() const override { return whole_->are_pairs(); }
  bool ordered() const override { return whole_->ordered(); }

 private:
  std::shared_ptr<const data::Samples> whole_;
  int64_t tokens_;
};

/// Tries changes to a plan and keeps those that fit.
class Search {
 public:
  Search(const PeakOf& peak_of, int64_t usable) : peak_of_(peak_of), usable_(usable) {}

  /// `also`: earlier changes to `plan`.
  void try_all(const config::Plan& plan, const std::string& also) {
    also_ = also;
    if (!config::recomputes(plan.config)) keep("training.gradient_checkpointing: true", with_recomputation(plan));
    try_batches(plan);
    try_lengths(plan);
    if (plan.config.mixed_precision == config::MixedPrecision::kNo) {
      config::Plan half = plan;
      half.config.mixed_precision = config::MixedPrecision::kBf16;
      keep("mixed_precision: bf16", half);
    }
    if (can_grow(plan.config)) try_ranks(plan);
  }

  std::vector<Alternative> found;

 private:
  /// An invalid plan never fits.
  int64_t peak(const config::Plan& plan) const {
    try {
      return peak_of_(plan);
    } catch (const ConfigError&) {
      return std::numeric_limits<int64_t>::max();
    }
  }

  bool keep(const std::string& change, const config::Plan& plan) {
    const int64_t needed = peak(plan);
    if (needed <= usable_) found.push_back({change + also_, needed});
    return needed <= usable_;
  }

  void try_batches(const config::Plan& plan) {
    const config::TrainingConfig& t = plan.config.training;
    if (t.max_tokens > 0) {
      config::Plan less = plan;
      int64_t& tokens = less.config.training.max_tokens;
      do tokens /= 2;
      while (tokens > 0 && !keep(fmt::format("training.max_tokens: {}", tokens), less));
      return;
    }
    const int64_t size = largest_that_fits(t.per_device_train_batch_size - 1, [&](int64_t per_device) {
      return peak(with_batch_size(plan, per_device)) <= usable_;
    });
    if (size == 0) return;
    const config::Plan less = with_batch_size(plan, size);
    const int64_t evaluated = less.config.training.per_device_eval_batch_size;
    std::string change = fmt::format("training.per_device_train_batch_size: {}", size);
    if (config::validates(plan.config) && evaluated < t.per_device_eval_batch_size)
      change += fmt::format(", per_device_eval_batch_size: {}", evaluated);
    keep(change, less);
  }

  void try_lengths(const config::Plan& plan) {
    const LengthOption option = length_option(plan.config.data);
    const int64_t step = option.tokens > 512 ? 128 : 16;
    const int64_t steps = largest_that_fits(
        (option.tokens - 1) / step, [&](int64_t count) { return peak(with_length(plan, count * step)) <= usable_; });
    if (!option.name.empty() && steps > 0)
      keep(fmt::format("{}: {}", option.name, steps * step), with_length(plan, steps * step));
  }

  void try_ranks(const config::Plan& plan) {
    const bool sharded = plan.config.distributed_type == DistributedType::kFsdp;
    const int64_t now = plan.config.num_processes;
    for (int64_t ranks = sharded ? 2 * now : std::max<int64_t>(2, now); ranks <= std::max(kMostRanks, 8 * now);
         ranks *= 2)
      if (keep(fmt::format("{}num_processes: {}", sharded ? "" : "distributed_type: FSDP, ", ranks),
               with_fsdp(plan, ranks)))
        return;
  }

  const PeakOf& peak_of_;
  int64_t usable_;
  std::string also_;
};

}  // namespace

int64_t usable_bytes(int64_t bytes) {
  return static_cast<int64_t>(0.9 * static_cast<double>(bytes));
}

int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits) {
  if (most < 1) return 0;
  if (fits(most)) return most;
  int64_t good = 0, bad = most;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

config::Plan with_batch_size(config::Plan plan, int64_t per_device) {
  config::TrainingConfig& t = plan.config.training;
  t.global_batch_size = prepare::global_batch(t, plan.data_ranks());
  // Evaluation gives the same numbers for every batch size, so it can use the smaller one too.
  if (per_device < t.per_device_train_batch_size)
    t.per_device_eval_batch_size = std::min(t.per_device_eval_batch_size, per_device);
  t.per_device_train_batch_size = per_device;
  return plan;
}

data::Datasets shortened(const data::Datasets& datasets, const config::DataConfig& read_as,
                         const config::DataConfig& planned) {
  const int64_t tokens = length_option(planned).tokens;
  data::Datasets all = datasets;
  if (tokens >= length_option(read_as).tokens) return all;
  for (auto* const samples : {&all.train, &all.validation})
    *samples = std::make_shared<ShortenedSamples>(*samples, tokens);
  return all;
}

std::vector<Alternative> what_fits(const config::Plan& plan, const PeakOf& peak_of, int64_t usable, size_t most) {
  Search search(peak_of, usable);
  search.try_all(plan, "");
  const config::Plan again = with_recomputation(plan);
  if (search.found.empty() && !config::recomputes(plan.config))
    search.try_all(again, ", training.gradient_checkpointing: true");
  if (search.found.empty() && plan.config.training.max_tokens == 0)
    search.try_all(with_batch_size(again, 1),
                   ", training.gradient_checkpointing: true, training.per_device_train_batch_size: 1");
  search.found.resize(std::min(search.found.size(), most));
  return std::move(search.found);
}

std::string what_fits_text(const std::vector<Alternative>& alternatives) {
  if (alternatives.empty())
    return "nothing fits: smaller batches, shorter samples, gradient_checkpointing, bf16 and FSDP over more ranks were "
           "tried, also together";
  std::string text = "each of these changes makes it fit:";
  for (const Alternative& other : alternatives)
    text += fmt::format("\n    {} ({})", other.change, gibibytes(other.peak));
  return text;
}

std::string gibibytes(int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30));
}

}  // namespace trainer::train
