#include "data/chat/turn_ends.h"

#include <algorithm>
#include <optional>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr const char *kAsked = "Zaskedz", *kReply = "Zrepliedz", *kMore = "Zfurtherz";

/// A special token in a text.
struct Special {
  size_t begin = 0;
  std::string text;
  size_t end() const { return begin + text.size(); }
};

std::vector<Special> specials_in(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<Special> out;
  const TokenOffsets tokens = tokenizer.encode_with_offsets(text, false);
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::span<const int32_t> id(&tokens.ids[i], 1);
    if (!tokenizer.decode(id, true).empty()) continue;
    std::string piece = tokenizer.piece_of(tokens.ids[i]);
    const size_t begin = text.find(piece, tokens.begins[i]);  // the token may include preceding white space
    if (!piece.empty() && begin < tokens.ends[i]) out.push_back({begin, std::move(piece)});
  }
  return out;
}

std::optional<std::string> rendered(const ChatTemplate& chat, size_t turns, bool prompt) {
  Conversation probe;
  const char* const contents[] = {kAsked, kReply, kMore};
  for (size_t i = 0; i < turns; ++i)
    probe.turns.push_back({{"role", i == 1 ? "assistant" : "user"}, {"content", contents[i]}});
  try {
    return chat.render(probe, turns, prompt, {}).text;
  } catch (const InputError&) {
    return {};
  }
}

/// The text after the reply.
std::string tail_of(const std::string& text) {
  const size_t at = text.rfind(kReply);
  return at == std::string::npos ? "" : text.substr(at + std::string_view(kReply).size());
}

/// The special tokens at the beginning of a text: they begin turns and never end one.
std::vector<std::string> openers_of(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<std::string> out;
  size_t at = 0;
  for (const Special& special : specials_in(text, tokenizer)) {
    if (special.begin != at) break;
    out.push_back(special.text);
    at = special.end();
  }
  return out;
}

/// The last of the consecutive special tokens at the beginning of `tail`, within `limit` bytes and before a token that
/// begins the next turn.
std::string closer_in(const std::string& tail, size_t limit, const std::vector<std::string>& openers,
                      const Tokenizer& tokenizer) {
  std::string closer;
  size_t at = std::min(tail.find_first_not_of(" \n\t\r"), tail.size());
  for (const Special& special : specials_in(tail, tokenizer)) {
    const bool opens = std::find(openers.begin(), openers.end(), special.text) != openers.end();
    if (special.begin != at || special.end() > limit || opens) break;
    closer = special.text;
    at = special.end();
  }
  return closer;
}

}  // namespace

size_t common_length(std::string_view left, std::string_view right) {
  const size_t size = std::min(left.size(), right.size());
  return static_cast<size_t>(std::mismatch(left.begin(), left.begin() + size, right.begin()).first - left.begin());
}

TurnEnds find_turn_ends(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  TurnEnds ends;
  const auto text = rendered(chat, 2, false), asking = rendered(chat, 2, true), longer = rendered(chat, 3, false);
  if (!text || text->find(kReply) == std::string::npos) return ends;
  const size_t asked = text->find(kAsked);
  if (asked != std::string::npos) ends.header = text->find(kReply) - asked - std::string_view(kAsked).size();
  for (const Special& special : specials_in(*text, tokenizer)) ends.specials.push_back(special.text);
  const std::vector<std::string> openers = openers_of(*text, tokenizer);
  const std::string tail = tail_of(*text);
  ends.last = closer_in(tail, tail.size(), openers, tokenizer);
  if (!asking || !longer) return ends;
  // The common prefix of the prompt and of a further turn ends the reply; where they differ, the next turn has begun.
  const std::string prompt_tail = tail_of(*asking);
  ends.inner = closer_in(prompt_tail, common_length(prompt_tail, tail_of(*longer)), openers, tokenizer);
  return ends;
}

}  // namespace trainer::data
