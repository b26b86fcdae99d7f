#include "data/tokenizers/models/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

namespace trainer::data {
namespace {

constexpr size_t kFew = 40;

/// A linked list of symbols: the neighbors of each.
struct Links {
  uint32_t previous, next;
};
constexpr uint32_t kEnd = std::numeric_limits<uint32_t>::max();

}  // namespace

Merges::Merges(std::vector<Rule> rules) : rules_(std::move(rules)) {
  table_.assign(std::bit_ceil(rules_.size() * 2 + 2), Entry());
  mask_ = table_.size() - 1;
  for (size_t rank = 0; rank < rules_.size(); ++rank) {
    const uint64_t pair = key(rules_[rank].left, rules_[rank].right);
    size_t slot = fold(pair, 0) & mask_;
    while (table_[slot].pair != kEmpty && table_[slot].pair != pair) slot = (slot + 1) & mask_;
    table_[slot] = {pair, static_cast<uint32_t>(rank)};
  }
}

size_t Merges::apply(std::span<Symbol> symbols) const {
  return symbols.size() <= kFew ? apply_to_few(symbols) : apply_to_many(symbols);
}

size_t Merges::apply_to_few(std::span<Symbol> symbols) const {
  size_t count = symbols.size();
  std::array<uint32_t, kFew> ranks;  // rank of each symbol with the next
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank(symbols[i].id, symbols[i + 1].id);
  while (count > 1) {
    const size_t at = static_cast<size_t>(std::min_element(ranks.begin(), ranks.begin() + (count - 1)) - ranks.begin());
    if (ranks[at] == kNoRank) break;
    symbols[at] = {rules_[ranks[at]].result, symbols[at].length + symbols[at + 1].length};
    std::move(symbols.begin() + at + 2, symbols.begin() + count, symbols.begin() + at + 1);
    std::move(ranks.begin() + at + 1, ranks.begin() + (count - 1), ranks.begin() + at);
    --count;
    if (at > 0) ranks[at - 1] = rank(symbols[at - 1].id, symbols[at].id);
    if (at + 1 < count) ranks[at] = rank(symbols[at].id, symbols[at + 1].id);
  }
  return count;
}

size_t Merges::apply_to_many(std::span<Symbol> symbols) const {
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<Links> links(count);
  std::vector<uint64_t> heap;  // rank and position of the left symbol; entries become stale when a symbol changes
  for (uint32_t i = 0; i < count; ++i) links[i] = {i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1};
  auto entry = [](uint32_t rank, uint32_t place) { return static_cast<uint64_t>(rank) << 32 | place; };
  for (uint32_t i = 0; i + 1 < count; ++i) {
    if (uint32_t r = rank(symbols[i].id, symbols[i + 1].id); r != kNoRank) heap.push_back(entry(r, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  auto offer = [&](uint32_t left, uint32_t right) {
    uint32_t r = rank(symbols[left].id, symbols[right].id);
    if (r == kNoRank) return;
    heap.push_back(entry(r, left));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top), lowest = static_cast<uint32_t>(top >> 32);
    const uint32_t next = links[at].next;
    if (symbols[at].length == 0 || next == kEnd) continue;
    if (rank(symbols[at].id, symbols[next].id) != lowest) continue;
    symbols[at] = {rules_[lowest].result, symbols[at].length + symbols[next].length};
    symbols[next].length = 0;  // removed
    links[at].next = links[next].next;
    if (links[at].next != kEnd) links[links[at].next].previous = at;
    if (links[at].previous != kEnd) offer(links[at].previous, at);
    if (links[at].next != kEnd) offer(at, links[at].next);
  }
  auto gone = std::remove_if(symbols.begin(), symbols.end(), [](const Symbol& symbol) { return symbol.length == 0; });
  return static_cast<size_t>(gone - symbols.begin());
}

}  // namespace trainer::data
