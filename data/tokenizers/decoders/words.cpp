// The decoders that add or remove spaces between words.
#include "data/tokenizers/decoders/decoder.h"
#include "data/tokenizers/metaspace_options.h"
#include "data/tokenizers/text/characters.h"
#include "data/tokenizers/text/read_pattern.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

void replace_all(std::string& text, std::string_view old, std::string_view with) {
  if (old.empty() || text.find(old) == std::string::npos) return;
  std::string result;
  size_t rest = 0;
  for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, rest)) {
    result.append(text, rest, at - rest);
    result += with;
    rest = at + old.size();
  }
  result.append(text, rest);
  text = std::move(result);
}

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const JsonView& view) : options_(read_metaspace_options(view)) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      bool first = i == 0 && options_.prepend != PrependScheme::kNever;
      replace_all(pieces[i], options_.replacement, first ? "" : " ");
    }
  }

 private:
  MetaspaceOptions options_;
};

class WordPieceDecoder : public Decoder {
 public:
  explicit WordPieceDecoder(const JsonView& view)
      : prefix_(view.at("prefix").text("##")), cleanup_(view.at("cleanup").flag(true)) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) {
        if (pieces[i].starts_with(prefix_)) {
          pieces[i].erase(0, prefix_.size());
        } else {
          pieces[i].insert(0, " ");
        }
      }
      if (cleanup_) clean(pieces[i]);
    }
  }

 private:
  /// Removes the spaces before English punctuation and contractions, in this order.
  static void clean(std::string& text) {
    static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [old, with] : kRules) replace_all(text, old, with);
  }

  std::string prefix_;
  bool cleanup_;
};

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(const JsonView& view) : suffix_(view.at("suffix").text("</w>")) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (size_t i = 0; i < pieces.size(); ++i) replace_all(pieces[i], suffix_, i + 1 == pieces.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class ReplaceDecoder : public Decoder {
 public:
  explicit ReplaceDecoder(const JsonView& view)
      : pattern_(read_pattern(view.at("pattern"))), content_(view.at("content").text()) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) {
      if (piece.empty()) continue;
      std::string result;
      size_t rest = 0;
      pattern_.for_each_match(piece, [&](size_t begin, size_t end) {
        result.append(piece, rest, begin - rest);
        result += content_;
        rest = end;
      });
      result.append(piece, rest);
      piece = std::move(result);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripDecoder : public Decoder {
 public:
  explicit StripDecoder(const JsonView& view)
      : start_(view.at("start").integer(0, INT32_MAX)), stop_(view.at("stop").integer(0, INT32_MAX)) {
    append_character(content_, view.at("content").character());
  }
  void apply(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) {
      size_t front = 0;
      for (int64_t i = 0; i < start_ && piece.compare(front, content_.size(), content_) == 0; ++i) {
        front += content_.size();
      }
      piece.erase(0, front);
      for (int64_t i = 0; i < stop_ && piece.ends_with(content_); ++i) piece.resize(piece.size() - content_.size());
    }
  }

 private:
  int64_t start_, stop_;
  std::string content_;
};

}  // namespace

std::unique_ptr<Decoder> read_metaspace_decoder(const JsonView& view) {
  return std::make_unique<MetaspaceDecoder>(view);
}

std::unique_ptr<Decoder> read_word_piece_decoder(const JsonView& view) {
  return std::make_unique<WordPieceDecoder>(view);
}

std::unique_ptr<Decoder> read_bpe_decoder(const JsonView& view) {
  return std::make_unique<BpeDecoder>(view);
}

std::unique_ptr<Decoder> read_replace_decoder(const JsonView& view) {
  return std::make_unique<ReplaceDecoder>(view);
}

std::unique_ptr<Decoder> read_strip_decoder(const JsonView& view) {
  return std::make_unique<StripDecoder>(view);
}

}  // namespace trainer::data
