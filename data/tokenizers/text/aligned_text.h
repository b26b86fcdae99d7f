// The text inside a tokenizer, with the origin of each byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/characters.h"

namespace trainer::data {

/// The bytes [begin, end) of the original text that a part of the changed text represents.
struct Origin {
  uint32_t begin, end;
  bool operator==(const Origin&) const = default;
};

/// A text with possible changes. Until the first change it is a view of the original, without a copy.
class AlignedText {
 public:
  AlignedText() = default;
  /// `source` begins at byte `start` of the original text. Changes preserve origins only if `aligned`.
  AlignedText(std::string_view source, uint32_t start, bool aligned)
      : source_(source), start_(start), aligned_(aligned), original_size_(source.size()) {}

  std::string_view view() const { return changed_ ? std::string_view(text_) : source_; }
  bool aligned() const { return aligned_; }
  bool changed() const { return changed_; }

  /// The origin of the character at byte `at`. A changed text must be aligned.
  Origin origin(size_t at) const;
  /// The origin of [begin, end).
  Origin origin(size_t begin, size_t end) const { return {origin(begin).begin, origin(end - 1).end}; }

 private:
  friend class Rewrite;

  std::string_view source_;
  uint32_t start_ = 0;
  bool aligned_ = false, changed_ = false;
  std::string text_;
  std::vector<Origin> origins_;  // of each byte, if changed and aligned
  size_t original_size_ = 0;     // bytes before the first change
  size_t written_ = 0;           // bytes that all changes have written
};

/// Writes the new content of an AlignedText from front to end. A tokenizer.json can make a text grow without end (a
/// chain of replacements), or change it thousands of times; ordinary ones make it three times longer, and 18 times if
/// it consists of ligatures, in a few steps. Errors: InputError when all changes together go far beyond that.
class Rewrite {
 public:
  explicit Rewrite(const AlignedText& old);

  /// Note [Alignment]. The mapping from new to original characters is part of the tokenizers' API (offsets), so their
  /// rules are followed exactly: `change` 0 replaces the next old character; -n replaces it too, and drops the n old
  /// characters after it; 1 inserts a character, which belongs to the old one just consumed.
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

  /// Moves the new text into `into`, which may be the old text.
  void finish(AlignedText& into);

 private:
  /// Before `size` more bytes.
  void grow(size_t size) {
    if (text_.size() + size > most_) refuse();
  }
  [[noreturn]] void refuse() const;

  const AlignedText& old_;
  const size_t most_;  // bytes of the new text
  size_t at_ = 0;      // the first old byte that is not consumed
  std::string text_;
  std::vector<Origin> origins_;
};

}  // namespace trainer::data
