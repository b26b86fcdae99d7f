#include "data/sampler/sample_order.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr uint64_t kOrderPurpose = 1, kBlockPurpose = 3, kRunPurpose = 4,
                   kSourcePurpose = 1000;     // 2: validation, 5: subset
constexpr int64_t kBlock = 4096;              // sample indices with the same mixture
constexpr int64_t kStride = 1237;             // odd: prime to kBlock
constexpr int64_t kWindow = 4096, kRun = 64;  // sample indices sorted by length, and those that stay together
// The paper asks for about 6 log2(size) rounds; a draw takes well under a microsecond, so extra rounds are cheap.
constexpr uint64_t kRounds = 128;
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: consecutive multiples spread evenly

/// A bijective 64-bit mix in which each input bit flips each output bit half of the time (splitmix64's finalizer).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// `x` scaled from [0, 2^64) to [0, size).
uint64_t scale(uint64_t x, uint64_t size) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(x) * size) >> 64);
}

/// The number of draws of each source in a block of kBlock, by the largest-remainder method. A source without samples
/// is never drawn.
std::vector<int64_t> quotas_of(const std::vector<double>& weights, const std::vector<int64_t>& sources) {
  require(weights.size() == sources.size(), "{} weights for {} sources", weights.size(), sources.size());
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += sources[i] > 0 ? weights[i] : 0;
  std::vector<int64_t> quotas;
  std::vector<std::pair<double, size_t>> rest;
  int64_t left = kBlock;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = sources[i] > 0 ? weights[i] / sum * static_cast<double>(kBlock) : 0;
    quotas.push_back(static_cast<int64_t>(share));
    left -= quotas.back();
    rest.emplace_back(static_cast<double>(quotas.back()) - share, i);  // the most negative first
  }
  std::stable_sort(rest.begin(), rest.end());
  for (int64_t i = 0; i < left; ++i) ++quotas[rest[static_cast<size_t>(i) % rest.size()].second];
  return quotas;
}

}  // namespace

int64_t Permutation::operator()(int64_t index) const {
  auto x = static_cast<uint64_t>(index);
  require(x < size_, "element {} of a permutation of {}", index, size_);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    uint64_t round_key = mix(key_ + round * kGolden);
    uint64_t pivot = scale(round_key, size_);
    uint64_t partner = pivot >= x ? pivot - x : pivot + size_ - x;
    // The pair {x, partner} is swapped or not: both use the same bit, so a round is a bijection.
    if (mix(std::max(x, partner) ^ mix(~round_key)) >> 63) x = partner;
  }
  return static_cast<int64_t>(x);
}

SampleOrder::SampleOrder(SampleOrderOptions options) : options_(std::move(options)) {
  for (const int64_t source : options_.sources) samples_ += source;
  size_ = samples_ - options_.left_out;
  require(size_ > 0, "an order of {} samples without {}", samples_, options_.left_out);
  if (!options_.weights.empty()) quotas_ = quotas_of(options_.weights, options_.sources);
}

int64_t SampleOrder::sample(int64_t position) const {
  require(position >= 0, "sample index {} of a run", position);
  return options_.length ? by_length(position) : plain(position);
}

int64_t SampleOrder::plain(int64_t position) const {
  if (!quotas_.empty()) return mixed(position);
  const int64_t offset = position % size_;
  if (!options_.shuffle) return offset;
  return Permutation(derive_key(options_.seed, kOrderPurpose, static_cast<uint64_t>(epoch(position))),
                     samples_)(offset);
}

/// Every block of kBlock sample indices has the same number of draws from a source, in shuffled order.
int64_t SampleOrder::mixed(int64_t position) const {
  const int64_t block = position / kBlock;
  int64_t place = position % kBlock;
  if (options_.shuffle)
    place = Permutation(derive_key(options_.seed, kBlockPurpose, static_cast<uint64_t>(block)), kBlock)(place);
  else
    place = place * kStride % kBlock;  // sources take turns
  int64_t first = 0;
  for (size_t source = 0; source < quotas_.size(); ++source) {
    const int64_t quota = quotas_[source], samples = options_.sources[source];
    if (place >= quota) {
      place -= quota;
      first += samples;
      continue;
    }
    const int64_t draw = block * quota + place;  // of this source, counted over the whole run
    const int64_t offset = draw % samples;
    if (!options_.shuffle) return first + offset;
    const uint64_t purpose = kSourcePurpose + source;
    return first +
           Permutation(derive_key(options_.seed, purpose, static_cast<uint64_t>(draw / samples)), samples)(offset);
  }
  throw InternalError("the draws of a block do not add up");
}

/// Each window of kWindow sample indices is sorted by length and split into runs, which are shuffled: the lengths in a
/// run are similar for any batch size. The last window of an epoch is shorter.
int64_t SampleOrder::by_length(int64_t position) const {
  const int64_t in_epoch = position % size_, start = position - in_epoch;
  const int64_t begin = in_epoch / kWindow * kWindow, count = std::min(kWindow, size_ - begin);
  if (window_ != start + begin) {
    sorted_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) sorted_[static_cast<size_t>(i)] = plain(start + begin + i);
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [&](int64_t a, int64_t b) { return options_.length(a) > options_.length(b); });
    window_ = start + begin;
  }
  const int64_t place = in_epoch - begin, runs = count / kRun;
  if (place >= runs * kRun) return sorted_[static_cast<size_t>(place)];  // the remainder
  const Permutation order(derive_key(options_.seed, kRunPurpose, static_cast<uint64_t>(window_)), runs);
  return sorted_[static_cast<size_t>(order(place / kRun) * kRun + place % kRun)];
}

std::string order_digest(const SampleOrder& order, Range positions) {
  uint64_t digest = 0;
  for (int64_t p = positions.begin; p < positions.end; ++p) {
    digest = mix(digest * kGolden + static_cast<uint64_t>(order.sample(p)) + 1);
  }
  return fmt::format("{:016x}", digest);
}

uint64_t derive_key(int64_t seed, uint64_t purpose, uint64_t number) {
  return mix(mix(mix(static_cast<uint64_t>(seed) + kGolden) + purpose * kGolden) + number * kGolden);
}

}  // namespace trainer::data
