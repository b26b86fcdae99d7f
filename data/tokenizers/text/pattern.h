// The regular expressions of tokenizer.json.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizers/wire_format.h"

namespace trainer::data {

/// A compiled expression over UTF-8. Safe to use from several threads.
class Pattern {
 public:
  /// `expression` in Oniguruma's Ruby syntax. Errors: Malformed, with the position of the error.
  static Pattern regex(std::string_view expression);
  /// Matches exactly `text`.
  static Pattern literal(std::string_view text);

  /// Calls `found(begin, end)` for each match in `text` (valid UTF-8), from the left, not overlapping. An empty match
  /// right after the previous one is skipped. Errors: InputError when matching takes too long: more than 5 seconds of
  /// processor time, and 4 more per MiB of text; ordinary expressions take some 0.1 s per MiB.
  template <class Found>
  void for_each_match(std::string_view text, Found&& found) const {
    size_t last_end = std::string_view::npos;
    Effort effort;
    for (size_t from = 0, begin = 0, end = 0; from <= text.size() && find(text, from, begin, end, effort);) {
      if (begin == end && end == last_end) {
        from = next_start(text, from);
      } else {
        from = last_end = end;
        found(begin, end);
      }
    }
  }

 private:
  struct Compiled;
  explicit Pattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  /// What matching a text has taken so far.
  struct Effort {
    uint32_t matches = 0;
    double began = -1;  // seconds of this thread's processor time; -1: not known yet
  };
  bool find(std::string_view text, size_t from, size_t& begin, size_t& end, Effort& effort) const;
  static void look_at_clock(Effort& effort, std::string_view text);
  static size_t next_start(std::string_view text, size_t from);

  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace trainer::data
