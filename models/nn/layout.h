// Where the samples of a batch lie in a row of tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace trainer::nn {

/// One sample's tokens in a row: rows [begin, begin + length).
struct Span {
  int64_t begin, length;
};

/// Tokens of many samples in one row `[tokens, ...]`, without padding.
struct Layout {
  std::vector<Span> spans;
  std::vector<int64_t> positions;  // of each sample in the whole run: the counter of its random draws

  int64_t samples() const { return static_cast<int64_t>(spans.size()); }
  int64_t tokens() const { return spans.empty() ? 0 : spans.back().begin + spans.back().length; }
  int64_t longest() const {
    int64_t longest = 0;
    for (const Span& span : spans) longest = std::max(longest, span.length);
    return longest;
  }
  void append(int64_t length, int64_t position) {
    spans.push_back({tokens(), length});
    positions.push_back(position);
  }
};

/// Shared by every operation of a pass, and kept by their backwards.
using LayoutPtr = std::shared_ptr<const Layout>;

}  // namespace trainer::nn
