// A tokenizer of bytes and special tokens.
#pragma once

#include "tests/data/byte_tokenizer.h"

namespace trainer::data {

/// Matches `specials` verbatim in a text; the first is the end-of-sequence token.
class SpecialTokenizer : public ByteTokenizer {
 public:
  explicit SpecialTokenizer(std::vector<std::string> specials, ChatTemplates templates = {})
      : specials_(std::move(specials)), templates_(std::move(templates)) {}

  TokenOffsets encode_with_offsets(std::string_view text, bool) const override {
    TokenOffsets out;
    for (size_t at = 0; at < text.size(); at = out.ends.back()) {
      out.ids.push_back(static_cast<unsigned char>(text[at]));
      out.begins.push_back(at);
      out.ends.push_back(at + 1);
      for (size_t i = 0; i < specials_.size(); ++i) {
        if (!text.substr(at).starts_with(specials_[i])) continue;
        out.ids.back() = kFirst + static_cast<int32_t>(i);
        out.ends.back() = at + specials_[i].size();
      }
    }
    return out;
  }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string out;
    for (const int32_t id : ids)
      if (id < kFirst || !skip_special) out += piece_of(id);
    return out;
  }
  std::string piece_of(int32_t id) const override {
    return id < kFirst ? std::string(1, static_cast<char>(id)) : specials_.at(static_cast<size_t>(id - kFirst));
  }
  int32_t eos_id() const override { return kFirst; }
  const ChatTemplates& chat_templates() const override { return templates_; }

 private:
  static constexpr int32_t kFirst = 256;
  std::vector<std::string> specials_;
  ChatTemplates templates_;
};

/// Adds no token to a text.
class PlainTokenizer : public SpecialTokenizer {
 public:
  using SpecialTokenizer::SpecialTokenizer;
  std::vector<int32_t> encode(std::string_view text, bool) const override {
    return encode_with_offsets(text, false).ids;
  }
};

}  // namespace trainer::data
