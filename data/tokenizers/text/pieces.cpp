#include "data/tokenizers/text/pieces.h"

namespace trainer::data {

void Splitter::push(size_t begin, size_t end) {
  pieces_.push_back({static_cast<uint32_t>(start_ + begin), static_cast<uint32_t>(start_ + end)});
}

bool Splitter::extend_last(size_t end) {
  if (pieces_.size() == first_) return false;
  pieces_.back().end = static_cast<uint32_t>(start_ + end);
  return true;
}

void Splitter::add(size_t begin, size_t end, bool match) {
  switch (behavior_) {
    case SplitBehavior::kRemoved:
      if (!match) push(begin, end);
      break;
    case SplitBehavior::kIsolated:
      push(begin, end);
      break;
    case SplitBehavior::kContiguous:
      if (match != after_match_ || !extend_last(end)) push(begin, end);
      break;
    case SplitBehavior::kMergedWithPrevious:
      if (!match || after_match_ || !extend_last(end)) push(begin, end);
      break;
    case SplitBehavior::kMergedWithNext:
      if (after_match_ && match) push(waiting_begin_, waiting_end_);
      if (!match) push(after_match_ ? waiting_begin_ : begin, end);
      waiting_begin_ = begin;
      waiting_end_ = end;
      break;
  }
  after_match_ = match;
}

void Splitter::finish() {
  if (behavior_ == SplitBehavior::kMergedWithNext && after_match_) push(waiting_begin_, waiting_end_);
  auto keep = pieces_.begin() + static_cast<ptrdiff_t>(first_);
  for (auto piece = keep; piece != pieces_.end(); ++piece) {
    if (piece->begin < piece->end) *keep++ = *piece;
  }
  pieces_.erase(keep, pieces_.end());
}

void split_by(const Pattern& pattern, bool invert, std::string_view text, Splitter& splitter) {
  size_t rest = 0;
  pattern.for_each_match(text, [&](size_t begin, size_t end) {
    if (rest != begin) splitter.add(rest, begin, invert);
    splitter.add(begin, end, !invert);
    rest = end;
  });
  if (rest != text.size()) splitter.add(rest, text.size(), invert);
}

}  // namespace trainer::data
