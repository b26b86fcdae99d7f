// The pre-tokenizers that split at a class of characters.
#include "data/tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "data/tokenizers/pre_tokenizers/split_behavior.h"

namespace trainer::data {
namespace {

template <class IsDelimiter>
void split_at(Pieces& pieces, SplitBehavior behavior, IsDelimiter&& is_delimiter) {
  split_pieces(pieces, behavior,
               [&](std::string_view text, Splitter& splitter) { split_at_chars(text, splitter, is_delimiter); });
}

class WhitespaceSplit : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override { split_at(pieces, SplitBehavior::kRemoved, is_white_space); }
};

class BertPreTokenizer : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    split_at(pieces, SplitBehavior::kRemoved, is_white_space);
    split_at(pieces, SplitBehavior::kIsolated, is_punctuation);
  }
};

class Punctuation : public PreTokenizer {
 public:
  explicit Punctuation(const JsonView& view) {
    JsonView behavior = view.at("behavior");
    if (!behavior.is_null()) behavior_ = read_split_behavior(behavior);
  }
  void apply(Pieces& pieces) const override { split_at(pieces, behavior_, is_punctuation); }

 private:
  SplitBehavior behavior_ = SplitBehavior::kIsolated;
};

class Digits : public PreTokenizer {
 public:
  explicit Digits(const JsonView& view) : single_(view.at("individual_digits").flag()) {}
  void apply(Pieces& pieces) const override {
    split_at(pieces, single_ ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, is_numeric);
  }

 private:
  bool single_;
};

class CharDelimiter : public PreTokenizer {
 public:
  explicit CharDelimiter(const JsonView& view) : delimiter_(view.at("delimiter").character()) {}
  void apply(Pieces& pieces) const override {
    split_at(pieces, SplitBehavior::kRemoved, [&](char32_t code) { return code == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

/// Runs of word characters and runs of anything else; white space is dropped.
class Whitespace : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    split_pieces(pieces, SplitBehavior::kIsolated, [](std::string_view text, Splitter& splitter) {
      enum Kind { kSpace, kWord, kMark } run = kSpace;
      size_t begin = 0;
      for (size_t at = 0; at < text.size();) {
        Char c = char_at(text, at);
        Kind kind = is_word_char(c.code) ? kWord : is_white_space(c.code) ? kSpace : kMark;
        if (kind != run) {
          if (run != kSpace) splitter.add(begin, at, true);
          begin = at;
          run = kind;
        }
        at += c.length;
      }
      if (run != kSpace) splitter.add(begin, text.size(), true);
    });
  }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(const JsonView& view) : length_(view.at("length").integer(1, INT32_MAX, 5)) {}
  void apply(Pieces& pieces) const override {
    split_pieces(pieces, SplitBehavior::kIsolated, [&](std::string_view text, Splitter& splitter) {
      for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
        for (int64_t i = 0; i < length_ && end < text.size(); ++i) end += char_length(text, end);
        splitter.add(begin, end, true);
      }
    });
  }

 private:
  int64_t length_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_whitespace() {
  return std::make_unique<Whitespace>();
}

std::unique_ptr<PreTokenizer> make_whitespace_split() {
  return std::make_unique<WhitespaceSplit>();
}

std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer() {
  return std::make_unique<BertPreTokenizer>();
}

std::unique_ptr<PreTokenizer> read_punctuation(const JsonView& view) {
  return std::make_unique<Punctuation>(view);
}

std::unique_ptr<PreTokenizer> read_digits(const JsonView& view) {
  return std::make_unique<Digits>(view);
}

std::unique_ptr<PreTokenizer> read_char_delimiter(const JsonView& view) {
  return std::make_unique<CharDelimiter>(view);
}

std::unique_ptr<PreTokenizer> read_fixed_length(const JsonView& view) {
  return std::make_unique<FixedLength>(view);
}

}  // namespace trainer::data
