#include "data/sampler/shares.h"

#include <algorithm>
#include <cmath>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Range share_of(Range whole, int64_t index, int64_t parts) {
  require(parts > 0 && index >= 0 && index < parts, "slice {} of {}", index, parts);
  int64_t floor = whole.size() / parts, larger = whole.size() % parts;
  int64_t begin = whole.begin + index * floor + std::min(index, larger);
  return {begin, begin + floor + (index < larger ? 1 : 0)};
}

int64_t micro_batch_count(int64_t samples, int64_t ranks, int64_t per_device) {
  require(ranks > 0 && per_device > 0, "{} ranks of {} samples", ranks, per_device);
  return ceil_divide(ceil_divide(samples, ranks), per_device);
}

std::vector<Range> micro_batches(Range samples, int64_t rank, int64_t ranks, int64_t per_device) {
  Range share = share_of(samples, rank, ranks);
  int64_t count = micro_batch_count(samples.size(), ranks, per_device);
  std::vector<Range> result;
  result.reserve(count);
  for (int64_t i = 0; i < count; ++i) result.push_back(share_of(share, i, count));
  return result;
}

Updates::Updates(int64_t samples, int64_t global_batch) : samples_(samples), global_batch_(global_batch) {
  require(samples > 0 && global_batch > 0, "{} samples in batches of {}", samples, global_batch);
}

int64_t Updates::per_epoch() const {
  return ceil_divide(samples_, global_batch_);
}

Range Updates::at(int64_t index) const {
  return next(index / per_epoch() * samples_ + index % per_epoch() * global_batch_);
}

Range Updates::next(int64_t cursor) const {
  int64_t epoch_end = (cursor / samples_ + 1) * samples_;
  return {cursor, std::min(cursor + global_batch_, epoch_end)};
}

int64_t Updates::done_at(int64_t cursor) const {
  return cursor / samples_ * per_epoch() + cursor % samples_ / global_batch_;
}

int64_t Updates::left(int64_t cursor, double epochs) const {
  // 1.1 epochs of 10 updates are 11 updates, although 1.1 * 10 is slightly more in floating point.
  auto total = static_cast<int64_t>(std::ceil(epochs * static_cast<double>(per_epoch()) - 1e-9));
  int64_t end = total / per_epoch() * samples_ + total % per_epoch() * global_batch_;
  if (cursor >= end) return 0;
  int64_t epoch_end = (cursor / samples_ + 1) * samples_;
  if (end <= epoch_end) return ceil_divide(end - cursor, global_batch_);
  return ceil_divide(epoch_end - cursor, global_batch_) + total - epoch_end / samples_ * per_epoch();
}

double Updates::epochs_at(int64_t cursor) const {
  return static_cast<double>(cursor) / static_cast<double>(samples_);
}

}  // namespace trainer::data
