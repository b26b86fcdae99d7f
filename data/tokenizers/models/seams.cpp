#include "data/tokenizers/models/seams.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainer::data {
namespace {

constexpr size_t kManyWays = 4;

/// The initial symbols that a piece can begin or end with.
struct Ways {
  std::array<int32_t, kManyWays> ids;
  size_t count = 0;

  const int32_t* begin() const { return ids.data(); }
  const int32_t* end() const { return ids.data() + count; }

  /// False when there are too many.
  bool add(const Ways& others) {
    for (const int32_t id : others) {
      if (std::find(begin(), end(), id) != end()) continue;
      if (count == kManyWays) return false;
      ids[count++] = id;
    }
    return true;
  }
};

/// The index of the piece `id`.
size_t place_of(std::span<const Seams::Piece> pieces, int32_t id) {
  // Most vocabularies have no gaps.
  if (static_cast<size_t>(id) < pieces.size() && pieces[static_cast<size_t>(id)].id == id)
    return static_cast<size_t>(id);
  return static_cast<size_t>(std::ranges::lower_bound(pieces, id, {}, &Seams::Piece::id) - pieces.begin());
}

}  // namespace

Seams::Seams(std::span<const Piece> pieces, const Merges& merges) : Seams() {
  std::vector<Ways> begins(pieces.size()), ends(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].is_first) begins[i] = ends[i] = {{pieces[i].id}, 1};
  // Parts are shorter than their result, so in order of length every part is complete before it is used.
  std::vector<std::pair<size_t, const Merges::Rule*>> rules;
  rules.reserve(merges.rules().size());
  for (const Merges::Rule& rule : merges.rules())
    rules.emplace_back(pieces[place_of(pieces, rule.result)].bytes, &rule);
  std::ranges::stable_sort(rules, {}, &std::pair<size_t, const Merges::Rule*>::first);
  std::vector<uint64_t> seams(kBits / 64, 0);
  for (const auto& [bytes, rule] : rules) {
    const size_t left = place_of(pieces, rule->left), right = place_of(pieces, rule->right);
    const size_t result = place_of(pieces, rule->result);
    if (!begins[result].add(begins[left]) || !ends[result].add(ends[right])) return;
    for (const int32_t end : ends[left]) {
      for (const int32_t begin : begins[right]) {
        const uint64_t bit = place(end, begin);
        seams[bit / 64] |= uint64_t{1} << (bit % 64);
      }
    }
  }
  can_join_ = std::move(seams);
}

}  // namespace trainer::data
