#include <algorithm>

#include "data/tokenizers/pre_tokenizers/pre_tokenizer.h"

namespace trainer::data {
namespace {

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(const JsonView& view) {
    for (const JsonView& item : view.at("pretokenizers").items()) {
      if (auto stage = read_pre_tokenizer(item)) stages_.push_back(std::move(stage));
    }
  }
  void apply(Pieces& pieces) const override {
    for (const auto& stage : stages_) stage->apply(pieces);
  }
  bool needs_origins(bool changed) const override {
    return std::any_of(stages_.begin(), stages_.end(),
                       [&](const auto& stage) { return stage->needs_origins(changed || stage != stages_.front()); });
  }
  bool leave_bytes() override { return !stages_.empty() && stages_.back()->leave_bytes(); }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> stages_;
};

using PreTokenizerReader = std::unique_ptr<PreTokenizer> (*)(const JsonView&);

std::unique_ptr<PreTokenizer> read_pre_tokenizer_sequence(const JsonView& view) {
  return std::make_unique<PreTokenizerSequence>(view);
}

}  // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonView& view) {
  if (view.is_null()) return nullptr;
  auto read = view.at("type").choice<PreTokenizerReader>({
      {"ByteLevel", read_byte_level},
      {"Metaspace", read_metaspace},
      {"Split", read_split},
      {"Digits", read_digits},
      {"Punctuation", read_punctuation},
      {"CharDelimiterSplit", read_char_delimiter},
      {"FixedLength", read_fixed_length},
      {"Whitespace", [](const JsonView&) { return make_whitespace(); }},
      {"WhitespaceSplit", [](const JsonView&) { return make_whitespace_split(); }},
      {"BertPreTokenizer", [](const JsonView&) { return make_bert_pre_tokenizer(); }},
      {"Sequence", read_pre_tokenizer_sequence},
  });
  return read ? (*read)(view) : nullptr;
}

}  // namespace trainer::data
