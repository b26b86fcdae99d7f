#include "data/tokenizers/text/aligned_text.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

constexpr size_t kFree = 1 << 20;  // bytes that a text may always become
constexpr size_t kMostTimes = 32;  // how many times longer than the original it may become
constexpr size_t kMostBytes = 128 << 20;
constexpr size_t kSlack = 4;  // put() asks for the longest character
// Bytes that all changes together may write, a few seconds' worth, and how many for each of the original.
constexpr size_t kFreeWork = 16 << 20;
constexpr size_t kMostWork = 1024;

/// The most that `old`, of `original` bytes before any change, may become.
size_t largest(size_t old, size_t original) {
  return std::max(old + kSlack, std::min(kMostBytes, kFree + kMostTimes * original));
}

}  // namespace

Origin AlignedText::origin(size_t at) const {
  if (changed_) return origins_[at];
  const size_t begin = character_begin(source_, at);
  auto first = static_cast<uint32_t>(start_ + begin);
  return {first, first + char_length(source_, begin)};
}

Rewrite::Rewrite(const AlignedText& old)
    : old_(old),
      most_(std::min(largest(old.view().size(), old.original_size_),
                     kFreeWork + kMostWork * old.original_size_ - old.written_)) {
  text_.reserve(old.view().size() + old.view().size() / 8);
}

void Rewrite::refuse() const {
  throw InputError("its normalizer or pre-tokenizer makes more than {} bytes of a text of {}{}, which is too much.",
                   old_.written_ + most_, old_.original_size_, old_.written_ > 0 ? ", in several steps" : "");
}

void Rewrite::put(char32_t code, int change) {
  size_t before = text_.size();
  grow(4);
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
  grow(end - begin);
  text_ += old_.view().substr(begin, end - begin);
  if (!old_.aligned()) return;
  for (size_t at = begin; at < end; ++at) origins_.push_back(old_.origin(at));
}

void Rewrite::append(const AlignedText& part) {
  grow(part.view().size());
  text_ += part.view();
  if (!old_.aligned()) return;
  for (size_t at = 0; at < part.view().size(); ++at) origins_.push_back(part.origin(at));
}

void Rewrite::insert(std::string_view content, Origin origin) {
  grow(content.size());
  text_ += content;
  if (old_.aligned()) origins_.insert(origins_.end(), content.size(), origin);
}

void Rewrite::insert_for(std::string_view content, size_t at) {
  insert(content, old_.aligned() ? old_.origin(at) : Origin{0, 0});
}

void Rewrite::finish(AlignedText& into) {
  grow(0);
  bool aligned = old_.aligned();
  into.original_size_ = old_.original_size_;
  into.written_ = old_.written_ + text_.size();
  into.text_ = std::move(text_);
  into.origins_ = std::move(origins_);
  into.source_ = {};
  into.changed_ = true;
  into.aligned_ = aligned;
}

}  // namespace trainer::data
