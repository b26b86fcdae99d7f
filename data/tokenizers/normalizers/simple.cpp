// The simple normalizers.
#include "data/tokenizers/normalizers/filter.h"
#include "data/tokenizers/normalizers/normalizer.h"
#include "data/tokenizers/text/spell_bytes.h"

namespace trainer::data {
namespace {

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    keep_chars(text, [](char32_t code) { return !is_mark(code); });
  }
};

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    Rewrite out(text);
    std::string lower;
    for_each_char(text.view(), [&](char32_t code) {
      lower.clear();
      append_lower(lower, code);
      int change = 0;
      for_each_char(lower, [&](char32_t each) { out.put(each, change++ > 0); });
    });
    out.finish(text);
  }
};

class Strip : public Normalizer {
 public:
  explicit Strip(const JsonView& view) : left_(view.at("strip_left").flag()), right_(view.at("strip_right").flag()) {}

  void apply(AlignedText& text) const override {
    std::string_view view = text.view();
    size_t begin = 0, end = view.size();
    while (left_ && begin < end && is_white_space(char_at(view, begin).code)) begin += char_at(view, begin).length;
    while (right_ && begin < end && is_white_space(char_before(view, end).code)) end -= char_before(view, end).length;
    if (begin == 0 && end == view.size()) return;
    Rewrite out(text);
    out.copy(begin, end);
    out.finish(text);
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(const JsonView& view) : prefix_(view.at("prepend").text()) {}

  void apply(AlignedText& text) const override {
    if (text.view().empty()) return;
    Rewrite out(text);
    out.insert_for(prefix_, 0);
    out.copy(0, text.view().size());
    out.finish(text);
  }

 private:
  std::string prefix_;
};

/// The rules of SentencePiece's nmt_nfkc in addition to NFKC.
class Nmt : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    keep_chars(text, [](char32_t code) {
      return !((code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
               code == 0x8F || code == 0x9F);
    });
    map_chars(text, [](char32_t code) { return is_space(code) ? U' ' : code; });
  }

 private:
  static bool is_space(char32_t code) {
    return code == 9 || code == 10 || code == 12 || code == 13 || code == 0x1680 ||
           (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xFEFF ||
           code == 0xFFFD;
  }
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    if (text.view().empty()) return;
    Rewrite out(text);
    spell_bytes(text, 0, text.view().size(), out);
    out.finish(text);
  }
};

}  // namespace

std::unique_ptr<Normalizer> make_strip_accents() {
  return std::make_unique<StripAccents>();
}

std::unique_ptr<Normalizer> make_lowercase() {
  return std::make_unique<Lowercase>();
}

std::unique_ptr<Normalizer> make_nmt() {
  return std::make_unique<Nmt>();
}

std::unique_ptr<Normalizer> make_byte_level_normalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}

std::unique_ptr<Normalizer> read_strip(const JsonView& view) {
  return std::make_unique<Strip>(view);
}

std::unique_ptr<Normalizer> read_prepend(const JsonView& view) {
  return std::make_unique<Prepend>(view);
}

}  // namespace trainer::data
