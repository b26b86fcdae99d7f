#pragma once

#include <algorithm>

#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// One id per byte: 'a' is 97; </s> is 1.
class ByteTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, bool add_eos) const override {
    std::vector<int32_t> ids(text.begin(), text.end());
    if (add_eos) ids.push_back(1);
    return ids;
  }
  TokenOffsets encode_with_offsets(std::string_view text, bool add_special) const override {
    TokenOffsets tokens{encode(text, add_special), {}, {}};
    for (size_t i = 0; i < tokens.ids.size(); ++i) {
      tokens.begins.push_back(std::min(i, text.size()));
      tokens.ends.push_back(std::min(i + 1, text.size()));
    }
    return tokens;
  }
  std::string decode(std::span<const int32_t> ids, bool) const override { return {ids.begin(), ids.end()}; }
  int64_t size() const override { return 256; }
  std::optional<int32_t> id_of(std::string_view) const override { return {}; }
  std::string piece_of(int32_t id) const override { return std::string(1, static_cast<char>(id)); }
  int32_t pad_id() const override { return 0; }
  int32_t eos_id() const override { return 1; }
  int32_t unk_id() const override { return 2; }
  const std::vector<std::filesystem::path>& files() const override { return files_; }

 private:
  std::vector<std::filesystem::path> files_;
};

}  // namespace trainer::data
