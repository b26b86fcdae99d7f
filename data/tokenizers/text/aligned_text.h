// A text on its way through a tokenizer, and where each of its bytes comes from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/characters.h"

namespace trainer::data {

/// The bytes [begin, end) of the original text that something stands for.
struct Origin {
  uint32_t begin, end;
  bool operator==(const Origin&) const = default;
};

/// A text that may have been changed since it was read. Until it is, it is a view of the original and costs nothing.
class AlignedText {
 public:
  AlignedText() = default;
  /// `source` begins at byte `start` of the original text. Origins are kept through changes only when `aligned`.
  AlignedText(std::string_view source, uint32_t start, bool aligned)
      : source_(source), start_(start), aligned_(aligned) {}

  std::string_view view() const { return changed_ ? std::string_view(text_) : source_; }
  bool aligned() const { return aligned_; }
  bool changed() const { return changed_; }

  /// Where the character of byte `at` comes from; not to be asked of a changed text that is not aligned.
  Origin origin(size_t at) const;
  /// Where [begin, end) comes from.
  Origin origin(size_t begin, size_t end) const { return {origin(begin).begin, origin(end - 1).end}; }

 private:
  friend class Rewrite;

  std::string_view source_;
  uint32_t start_ = 0;
  bool aligned_ = false, changed_ = false;
  std::string text_;
  std::vector<Origin> origins_;  // of each byte, when changed and aligned
};

/// Writes the next form of an AlignedText from its front to its end.
class Rewrite {
 public:
  explicit Rewrite(const AlignedText& old) : old_(old) { text_.reserve(old.view().size() + old.view().size() / 8); }

  /// Note [Alignment]. Which original characters a new one stands for is part of what tokenizers promise (offsets), so
  /// their rules are followed to the letter: `change` 0 replaces the next old character; -n does so too, and drops the
  /// n old characters after it; 1 inserts a character, which belongs to the old one just consumed.
  void put(char32_t code, int change);

  /// Drops `count` old characters.
  void skip_chars(uint32_t count);

  /// Appends the bytes [begin, end) of the old text with their origins. Does not consume.
  void copy(size_t begin, size_t end);
  /// Appends another text with its origins. Does not consume.
  void append(const AlignedText& part);
  /// Appends `content`, which comes from `origin`. Does not consume.
  void insert(std::string_view content, Origin origin);
  /// Appends `content`, which stands for byte `at` of the old text. Does not consume.
  void insert_for(std::string_view content, size_t at);

  size_t size() const { return text_.size(); }
  std::string& text() { return text_; }  ///< for writing without origins, when the old text is not aligned

  /// The text as it now is; `into` may be the old text.
  void finish(AlignedText& into);

 private:
  const AlignedText& old_;
  size_t at_ = 0;  // first old byte that is not consumed
  std::string text_;
  std::vector<Origin> origins_;
};

}  // namespace trainer::data
