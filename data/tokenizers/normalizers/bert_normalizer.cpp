#include <optional>

#include "data/tokenizers/normalizers/filter.h"
#include "data/tokenizers/normalizers/normalizer.h"

namespace trainer::data {
namespace {

/// The ideographs that BERT tokenizes one by one.
bool is_ideograph(char32_t code) {
  if (code < 0x3400) return false;
  return code <= 0x4DBF || (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B81F) ||
         (code >= 0x2B920 && code <= 0x2CEAF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

bool is_control(char32_t code) {
  return code == 0 || code == 0xFFFD || (is_other(code) && code != '\t' && code != '\n' && code != '\r');
}

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const JsonView& view)
      : clean_text_(view.at("clean_text").flag()),
        ideographs_(view.at("handle_chinese_chars").flag()),
        lowercase_(view.at("lowercase").flag()),
        strip_accents_(view.at("strip_accents").flag(lowercase_)),
        lower_(make_lowercase()) {}

  void apply(AlignedText& text) const override {
    if (clean_text_) {
      keep_chars(text, [](char32_t code) { return !is_control(code); });
      map_chars(text, [](char32_t code) { return is_white_space(code) ? U' ' : code; });
    }
    if (ideographs_ && !is_ascii(text.view())) set_ideographs_apart(text);
    if (strip_accents_) {
      decompose(text);
      keep_chars(text, [](char32_t code) { return !is_nonspacing_mark(code); });
    }
    if (lowercase_) lower_->apply(text);
  }

 private:
  static void set_ideographs_apart(AlignedText& text) {
    Rewrite out(text);
    for_each_char(text.view(), [&](char32_t code) {
      if (is_ideograph(code)) {
        out.put(U' ', 0);
        out.put(code, 1);
        out.put(U' ', 1);
      } else {
        out.put(code, 0);
      }
    });
    out.finish(text);
  }

  bool clean_text_, ideographs_, lowercase_, strip_accents_;
  std::unique_ptr<Normalizer> lower_;
};

}  // namespace

std::unique_ptr<Normalizer> read_bert_normalizer(const JsonView& view) {
  return std::make_unique<BertNormalizer>(view);
}

}  // namespace trainer::data
