#include "data/tokenizers/special_tokens.h"

#include "data/tokenizers/text/characters.h"

namespace trainer::data {
namespace {

std::string_view strip_left(std::string_view text) {
  while (!text.empty() && is_white_space(char_at(text, 0).code)) text.remove_prefix(char_at(text, 0).length);
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty() && is_white_space(char_before(text, text.size()).code)) {
    text.remove_suffix(char_before(text, text.size()).length);
  }
  return text;
}

}  // namespace

void SpecialTokens::add(const std::string& text, SpecialToken token) {
  if (text.empty() || !tokens_.emplace(text, token).second) return;
  texts_.emplace(token.id, text);
  lengths_.insert(text.size());
  first_bytes_.insert(text[0]);
}

std::vector<SpecialTokens::Part> SpecialTokens::split(std::string_view text) const {
  std::vector<Part> parts;
  auto add_text = [&](std::string_view piece) {
    if (!piece.empty()) parts.push_back({piece, -1});
  };
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    const SpecialToken* token = match_at(text.substr(at), length);
    if (token) {
      std::string_view before = text.substr(0, at);
      add_text(token->strip_left ? strip_right(before) : before);
      parts.push_back({text.substr(at, length), token->id});
      text.remove_prefix(at + length);
      if (token->strip_right) text = strip_left(text);
      at = 0;
    } else {
      ++at;
    }
  }
  add_text(text);
  return parts;
}

const SpecialToken* SpecialTokens::match_at(std::string_view text, size_t& length) const {
  if (!first_bytes_.contains(text[0])) return nullptr;
  for (size_t candidate : lengths_) {
    if (candidate > text.size()) continue;
    if (const SpecialToken* token = find(text.substr(0, candidate))) {
      length = candidate;
      return token;
    }
  }
  return nullptr;
}

const SpecialToken* SpecialTokens::find(std::string_view text) const {
  auto found = tokens_.find(text);
  return found == tokens_.end() ? nullptr : &found->second;
}

const std::string* SpecialTokens::text_of(int32_t id) const {
  auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : &found->second;
}

}  // namespace trainer::data
