#include "data/tokenizers/models/byte_trie.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// Pieces [begin, end), which share their first `depth` bytes: the subtree of one node.
struct Range {
  size_t begin, end, depth;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> pieces) {
  roots_.fill(kNone);
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.first.size();
  if (bytes >= kNone)
    throw InputError("The pieces of the vocabulary have {} bytes; at most 4 GB are supported.", bytes);
  std::stable_sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });

  // Level by level, without recursion: pieces may have any length. ranges[i + 1] belongs to nodes_[i].
  std::vector<Range> ranges = {{0, pieces.size(), 0}};
  for (size_t done = 0; done < ranges.size(); ++done) {
    auto [begin, end, depth] = ranges[done];
    int32_t value = -1;
    for (; begin < end && pieces[begin].first.size() == depth; ++begin) value = pieces[begin].second;
    const auto children = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const auto label = static_cast<unsigned char>(pieces[begin].first[depth]);
      size_t next = begin;
      while (next < end && static_cast<unsigned char>(pieces[next].first[depth]) == label) ++next;
      if (done == 0) roots_[label] = static_cast<uint32_t>(nodes_.size());
      ranges.push_back({begin, next, depth + 1});
      nodes_.emplace_back();
      labels_.push_back(label);
      begin = next;
    }
    if (done == 0) continue;
    nodes_[done - 1] = {children, static_cast<uint32_t>(nodes_.size()) - children, value};
  }
}

}  // namespace trainer::data
