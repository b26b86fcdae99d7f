#include "data/tokenizers/charsmap_check.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "data/tokenizers/wire_format.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

constexpr size_t kBlock = 256;  // the builder allocates units in whole blocks, so that `base ^ byte` is in bounds
constexpr size_t kMaxTrieBytes = 8u << 20;  // the NFKC table takes 0.3 MB
constexpr size_t kMaxReplacement = 1024;    // bytes; NFKC's longest takes 33
constexpr int kMaxDepth = 128;              // bytes of a replaced character sequence
constexpr int kMaxMatches = 32;             // SentencePiece's buffer for the matching prefixes of one sequence

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

/// One word of the double array. A node's children are at `base ^ byte`, its value at `base`.
struct Unit {
  uint32_t bits;
  bool has_value() const { return bits >> 8 & 1; }
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200) >> 6); }
  uint32_t label() const { return bits & 0x800000FF; }  // bit 31 marks a value, which never equals a byte
  uint32_t value() const { return bits & 0x7FFFFFFF; }
};

/// Walks all paths from the root, visiting each node once.
class TrieWalk {
 public:
  TrieWalk(std::string_view trie, std::string_view replacements)
      : units_(trie.size() / 4), matches_(trie.size() / 4, kUnseen), replacements_(replacements) {
    for (size_t i = 0; i < units_.size(); ++i) units_[i].bits = little_endian(trie.substr(4 * i));
    find_children();
  }

  void check() { visit(0, 0); }

 private:
  static constexpr int kUnseen = -1, kOnPath = -2;

  /// Sorts the units by the base of which they are children. (Trying 256 bytes at each node takes ten times as long.)
  void find_children() {
    const auto base_of = [&](size_t child) -> size_t {
      const uint32_t label = units_[child].label();
      return label < kBlock ? child ^ label : units_.size();  // units_.size(): no child, but a value
    };
    first_child_.resize(units_.size() + 2);
    for (size_t i = 0; i < units_.size(); ++i) ++first_child_[base_of(i) + 1];
    std::partial_sum(first_child_.begin(), first_child_.end(), first_child_.begin());
    children_.resize(units_.size());
    auto next = first_child_;
    for (size_t i = 0; i < units_.size(); ++i) children_[next[base_of(i)]++] = static_cast<uint32_t>(i);
  }

  /// The maximum number of values on a path from `node` downward.
  int visit(uint32_t node, int depth) {
    if (matches_[node] >= 0) return matches_[node];
    if (matches_[node] == kOnPath) throw Malformed{"its normalization table has a cycle"};
    if (depth > kMaxDepth) throw Malformed{"its normalization table is nested too deeply"};
    matches_[node] = kOnPath;
    Unit unit = units_[node];
    size_t base = node ^ unit.offset();
    if ((base | (kBlock - 1)) >= units_.size()) throw Malformed{"its normalization table points out of bounds"};
    int below = 0;
    for (uint32_t i = first_child_[base]; i < first_child_[base + 1]; ++i)
      below = std::max(below, visit(children_[i], depth + 1));
    if (unit.has_value()) check_replacement(units_[base].value());
    int matches = below + (unit.has_value() ? 1 : 0);
    if (matches > kMaxMatches) throw Malformed{"its normalization table has too many nested rules"};
    return matches_[node] = matches;
  }

  void check_replacement(uint32_t start) const {
    if (start >= replacements_.size()) throw Malformed{"its normalization table has a rule without a replacement"};
    size_t length = replacements_.find('\0', start) - start;
    if (length > kMaxReplacement)
      throw Malformed{fmt::format("its normalization table replaces a character by {} bytes", length)};
    if (!is_utf8(replacements_.substr(start, length)))
      throw Malformed{"its normalization table replaces a character by invalid UTF-8"};
  }

  std::vector<Unit> units_;
  std::vector<uint32_t> first_child_, children_;  // children_[first_child_[base]], …: all children at `base`
  std::vector<int> matches_;
  std::string_view replacements_;
};

}  // namespace

void check_charsmap(std::string_view charsmap) {
  if (charsmap.size() <= 4) throw Malformed{"its normalization table is truncated"};
  size_t trie_size = little_endian(charsmap);
  charsmap.remove_prefix(4);
  if (trie_size >= charsmap.size()) throw Malformed{"its normalization table is truncated"};
  if (trie_size == 0 || trie_size % (4 * kBlock) != 0 || trie_size > kMaxTrieBytes) {
    throw Malformed{fmt::format("its normalization table has an invalid size of {} bytes", trie_size)};
  }
  std::string_view replacements = charsmap.substr(trie_size);
  if (replacements.back() != '\0') throw Malformed{"the last replacement of its normalization table is not terminated"};
  TrieWalk(charsmap.substr(0, trie_size), replacements).check();
}

}  // namespace trainer::data
