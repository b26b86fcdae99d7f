// Finds all pieces that are prefixes of a text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::data {

/// A trie over bytes. A node's children are contiguous and sorted by label, so that a step touches one or two cache
/// lines; the first byte is looked up directly.
class ByteTrie {
 public:
  /// Pieces and their values (not negative), in any order; the last of equal pieces wins. Empty pieces are never found.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> pieces);

  /// Calls `found(length, value)` for each piece that is a prefix of `text`, the shortest first.
  template <class Found>
  void for_each_prefix(std::string_view text, Found&& found) const {
    if (text.empty()) return;
    uint32_t node = roots_[static_cast<unsigned char>(text[0])];
    for (size_t length = 1; node != kNone; ++length) {
      if (nodes_[node].value >= 0) found(length, nodes_[node].value);
      if (length == text.size()) return;
      node = child(nodes_[node], static_cast<unsigned char>(text[length]));
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t children = 0;  // their start in nodes_ and labels_
    uint32_t count = 0;
    int32_t value = -1;
  };

  uint32_t child(const Node& node, unsigned char label) const {
    for (uint32_t i = node.children; i < node.children + node.count; ++i) {
      if (labels_[i] == label) return i;
    }
    return kNone;
  }

  std::array<uint32_t, 256> roots_;
  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // of the edge that leads to a node
};

}  // namespace trainer::data
