#include "data/order.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr uint64_t kOrderPurpose = 1;
// The paper asks for about 6 log2(size) rounds; a draw takes well under a microsecond, so there is no need to save.
constexpr uint64_t kRounds = 128;
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: consecutive multiples spread evenly

/// A bijective 64-bit mix in which each input bit flips each output bit half of the time (splitmix64's finaliser).
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

}  // namespace

int64_t Permutation::operator()(int64_t index) const {
  auto x = static_cast<uint64_t>(index);
  require(x < size_, "element {} of a permutation of {}", index, size_);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    uint64_t round_key = mix(key_ + round * kGolden);
    uint64_t pivot = scale(round_key, size_);
    uint64_t partner = pivot >= x ? pivot - x : pivot + size_ - x;
    // The pair {x, partner} is swapped or not: both ask the same bit, so a round is a bijection.
    if (mix(std::max(x, partner) ^ mix(~round_key)) >> 63) x = partner;
  }
  return static_cast<int64_t>(x);
}

Order::Order(int64_t seed, int64_t size, bool shuffle) : seed_(seed), size_(size), shuffle_(shuffle) {
  require(size > 0, "an order of {} samples", size);
}

int64_t Order::sample(int64_t position) const {
  require(position >= 0, "position {} of a run", position);
  int64_t offset = position % size_;
  if (!shuffle_) return offset;
  return Permutation(derive_key(seed_, kOrderPurpose, static_cast<uint64_t>(epoch(position))), size_)(offset);
}

std::string order_digest(const Order& order, Range positions) {
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
