#include "data/tokenizers/text/aligned_text.h"
#include "engine/base/utf8.h"

#include <algorithm>

namespace trainer::data {

Origin AlignedText::origin(size_t at) const {
  if (changed_) return origins_[at];
  const size_t begin = character_begin(source_, at);
  auto first = static_cast<uint32_t>(start_ + begin);
  return {first, first + char_length(source_, begin)};
}

void Rewrite::put(char32_t code, int change) {
  size_t before = text_.size();
  append_character(text_, code);
  if (!old_.aligned()) return;
  std::string_view old = old_.view();
  Origin origin{0, 0};
  if (change > 0) {
    if (at_ > 0) origin = old_.origin(at_ - 1);
  } else if (!old.empty()) {
    origin = old_.origin(std::min(at_, old.size() - 1));
    skip_chars(1 + static_cast<uint32_t>(-change));
  }
  origins_.insert(origins_.end(), text_.size() - before, origin);
}

void Rewrite::skip_chars(uint32_t count) {
  std::string_view old = old_.view();
  for (; count > 0 && at_ < old.size(); --count) at_ += char_length(old, at_);
}

void Rewrite::copy(size_t begin, size_t end) {
  text_ += old_.view().substr(begin, end - begin);
  if (!old_.aligned()) return;
  for (size_t at = begin; at < end; ++at) origins_.push_back(old_.origin(at));
}

void Rewrite::append(const AlignedText& part) {
  text_ += part.view();
  if (!old_.aligned()) return;
  for (size_t at = 0; at < part.view().size(); ++at) origins_.push_back(part.origin(at));
}

void Rewrite::insert(std::string_view content, Origin origin) {
  text_ += content;
  if (old_.aligned()) origins_.insert(origins_.end(), content.size(), origin);
}

void Rewrite::insert_for(std::string_view content, size_t at) {
  insert(content, old_.aligned() ? old_.origin(at) : Origin{0, 0});
}

void Rewrite::finish(AlignedText& into) {
  bool aligned = old_.aligned();
  into.text_ = std::move(text_);
  into.origins_ = std::move(origins_);
  into.source_ = {};
  into.changed_ = true;
  into.aligned_ = aligned;
}

}  // namespace trainer::data
