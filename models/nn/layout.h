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

/// Which tokens of its sample a span is: from number `start` on, of `of` in all.
struct Stretch {
  int64_t start, of;
};

class SharedRows;

/// Tokens of many samples in one row `[tokens, ...]`, without padding.
struct Layout {
  std::vector<Span> spans;
  std::vector<int64_t> positions;  // of each sample in the whole run: the counter of its random draws

  // Where ranks share out the rows of samples (models/nn/shared_rows.h), a span is a stretch of a sample.
  std::vector<Stretch> stretches;            // by span; empty: spans are whole samples
  std::shared_ptr<const Layout> whole;       // the rows of all those ranks; null: these are all there are
  std::shared_ptr<const SharedRows> shared;  // who has which of them

  /// The number, within its sample, of a span's first token; how many tokens the sample has.
  int64_t start(int64_t span) const { return stretches.empty() ? 0 : stretches[static_cast<size_t>(span)].start; }
  int64_t length_of_sample(int64_t span) const {
    return stretches.empty() ? spans[static_cast<size_t>(span)].length : stretches[static_cast<size_t>(span)].of;
  }
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
