#include "data/tokenizers/added_tokens.h"

#include <algorithm>

#include "data/tokenizers/text/characters.h"

namespace trainer::data {

void AddedTokens::add(const std::vector<AddedToken>& tokens, const TokenModel& model) {
  auto next = static_cast<int32_t>(std::max<int64_t>(model.size(), int64_t{largest_id()} + 1));
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    std::optional<int32_t> id = id_of(token.content);
    if (!id) id = model.id_of(token.content);
    if (!id) id = next++;
    ids_[token.content] = *id;
    if (token.special) specials_.insert(token.content);
    tokens_[*id] = token;
  }
}

void AddedTokens::prepare(const Normalizer* normalizer) {
  std::vector<std::pair<std::string_view, int32_t>> original, normalized;
  for (const auto& [id, token] : tokens_) {
    if (!token.normalized) {
      original.emplace_back(token.content, id);
      continue;
    }
    AlignedText text(token.content, 0, false);
    if (normalizer) normalizer->apply(text);
    if (text.view() != token.content) texts_[id] = text.view();
    normalized.emplace_back(text.view() == token.content ? token.content : texts_[id], id);
  }
  if (!original.empty()) original_ = std::make_unique<ByteTrie>(std::move(original));
  if (!normalized.empty()) normalized_ = std::make_unique<ByteTrie>(std::move(normalized));
}

void AddedTokens::split(const ByteTrie* trie, Pieces& pieces) const {
  if (!trie) return;
  std::vector<Piece> result;
  for (const Piece& piece : pieces.list) {
    if (piece.token >= 0) {
      result.push_back(piece);
    } else {
      split_piece(*trie, pieces.view(piece), piece.begin, result);
    }
  }
  pieces.list = std::move(result);
}

/// The leftmost token; of several, the longest.
std::optional<AddedTokens::Found> AddedTokens::find(const ByteTrie& trie, std::string_view text, size_t from) const {
  Found found{0, 0, -1};
  for (size_t at = from; at < text.size() && found.id < 0; ++at) {
    trie.for_each_prefix(text.substr(at), [&](size_t length, int32_t id) { found = {at, at + length, id}; });
  }
  return found.id < 0 ? std::nullopt : std::optional(found);
}

void AddedTokens::split_piece(const ByteTrie& trie, std::string_view text, uint32_t start,
                              std::vector<Piece>& result) const {
  size_t rest = 0;  // the text before it is already in pieces
  auto push = [&](size_t begin, size_t end, int32_t id) {
    if (begin < end) result.push_back({static_cast<uint32_t>(start + begin), static_cast<uint32_t>(start + end), id});
  };
  size_t from = 0;
  while (std::optional<Found> found = find(trie, text, from)) {
    auto [begin, end, id] = *found;
    from = end;
    const AddedToken& token = tokens_.at(id);
    if (token.single_word) {
      if (begin > 0 && is_word_char(char_before(text, begin).code)) continue;
      if (end < text.size() && is_word_char(char_at(text, end).code)) continue;
    }
    while (token.lstrip && begin > rest && is_white_space(char_before(text, begin).code)) {
      begin -= char_before(text, begin).length;
    }
    while (token.rstrip && end < text.size() && is_white_space(char_at(text, end).code))
      end += char_at(text, end).length;
    push(rest, begin, -1);
    push(begin, end, id);
    rest = end;
  }
  push(rest, text.size(), -1);
}

std::optional<int32_t> AddedTokens::id_of(std::string_view content) const {
  auto found = ids_.find(content);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const AddedToken* AddedTokens::token_of(int32_t id) const {
  auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const std::string* AddedTokens::text_of(int32_t id) const {
  auto changed = texts_.find(id);
  if (changed != texts_.end()) return &changed->second;
  const AddedToken* token = token_of(id);
  return token ? &token->content : nullptr;
}

AddedToken read_added_token(const JsonView& view) {
  AddedToken token;
  token.content = view.at("content").text();
  token.single_word = view.at("single_word").flag(false);
  token.lstrip = view.at("lstrip").flag(false);
  token.rstrip = view.at("rstrip").flag(false);
  token.special = view.at("special").flag(false);
  token.normalized = view.at("normalized").flag(!token.special);
  return token;
}

}  // namespace trainer::data
