#include "data/tokenizers/models/seams.h"

#include <algorithm>
#include <unordered_map>

namespace trainer::data {
namespace {

constexpr size_t kManyWays = 4;

/// The initial symbols that a piece can begin and end with.
struct Ways {
  size_t bytes = 0;
  std::vector<int32_t> begins, ends;
};

/// Adds `ids`; false when there are too many.
bool add(std::vector<int32_t>& to, const std::vector<int32_t>& ids) {
  for (int32_t id : ids) {
    if (std::find(to.begin(), to.end(), id) == to.end()) to.push_back(id);
  }
  return to.size() <= kManyWays;
}

}  // namespace

Seams::Seams(std::span<const Piece> pieces, const Merges& merges) : Seams() {
  std::unordered_map<int32_t, Ways> ways(pieces.size());
  for (const Piece& piece : pieces) {
    Ways& own = ways[piece.id];
    own.bytes = piece.bytes;
    if (piece.is_first) own.begins = own.ends = {piece.id};
  }
  // Parts are shorter than their result, so in order of length every part is complete before it is used.
  std::vector<const Merges::Rule*> rules;
  for (const Merges::Rule& rule : merges.rules()) rules.push_back(&rule);
  std::stable_sort(rules.begin(), rules.end(),
                   [&](const auto* a, const auto* b) { return ways[a->result].bytes < ways[b->result].bytes; });
  std::vector<uint64_t> seams(kBits / 64, 0);
  for (const Merges::Rule* rule : rules) {
    const Ways& left = ways[rule->left];
    const Ways& right = ways[rule->right];
    Ways& result = ways[rule->result];
    if (!add(result.begins, left.begins) || !add(result.ends, right.ends)) return;
    for (int32_t end : left.ends) {
      for (int32_t begin : right.begins) {
        const uint64_t bit = place(end, begin);
        seams[bit / 64] |= uint64_t{1} << (bit % 64);
      }
    }
  }
  can_join_ = std::move(seams);
}

}  // namespace trainer::data
