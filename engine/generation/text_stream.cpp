#include "engine/generation/text_stream.h"

#include <algorithm>

namespace trainer::generation {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD: a character whose bytes aren't all there

/// The length of the longest end of `text` that is the beginning of `stop`, but not all of it.
size_t beginning_at_end(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length)
    if (text.ends_with(stop.substr(0, length))) return length;
  return 0;
}

}  // namespace

TextStream::TextStream(const data::Tokenizer& tokenizer, std::vector<int32_t> before,
                       const std::vector<std::string>& stops)
    : tokenizer_(tokenizer), stops_(stops), ids_(std::move(before)), before_(tokenizer.decode(ids_)) {}

/// All text after `before_`.
std::string TextStream::decoded() const {
  std::string text = tokenizer_.decode(ids_);
  return text.starts_with(before_) ? text.substr(before_.size()) : text;
}

std::string TextStream::advance_to(const std::string& text, size_t end) {
  if (end <= text_.size()) return "";
  std::string added = text.substr(text_.size(), end - text_.size());
  text_ += added;
  return added;
}

std::string TextStream::add(int32_t token) {
  ids_.push_back(token);
  const std::string text = decoded();
  size_t certain = text.size();
  for (const std::string& stop : stops_)
    if (const size_t at = text.find(stop); at < certain) {
      certain = at;
      stopped_ = true;
    }
  if (stopped_) return advance_to(text, certain);
  while (std::string_view(text).substr(0, certain).ends_with(kReplacement)) certain -= kReplacement.size();
  for (const std::string& stop : stops_) certain = std::min(certain, text.size() - beginning_at_end(text, stop));
  return advance_to(text, certain);
}

std::string TextStream::finish() {
  if (stopped_) return "";
  const std::string text = decoded();
  return advance_to(text, text.size());
}

}  // namespace trainer::generation
