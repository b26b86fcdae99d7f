// WordLevel: looks up whole words.
#include "data/tokenizers/models/token_model.h"
#include "data/tokenizers/models/vocabulary.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

class WordLevel final : public TokenModel {
 public:
  explicit WordLevel(const WordLevelOptions& options)
      : vocab_(options.vocab), unk_token_(options.unk_token), unk_id_(vocab_.find(options.unk_token)) {}

  void encode(std::string_view text, std::vector<Token>& out) const override {
    std::optional<int32_t> id = vocab_.find(text);
    if (!id) id = unk_id_;
    if (!id) throw InputError("'{}' is not in the vocabulary, nor is unk_token '{}'.", text, unk_token_);
    out.push_back({*id, 0, static_cast<uint32_t>(text.size())});
  }
  std::optional<int32_t> id_of(std::string_view piece) const override { return vocab_.find(piece); }
  std::string_view piece_of(int32_t id) const override { return vocab_.piece_of(id); }
  int64_t size() const override { return static_cast<int64_t>(vocab_.entries().size()); }

 private:
  Vocabulary vocab_;
  std::string unk_token_;
  std::optional<int32_t> unk_id_;
};

}  // namespace

std::unique_ptr<TokenModel> make_word_level(WordLevelOptions options) {
  return std::make_unique<WordLevel>(options);
}

}  // namespace trainer::data
