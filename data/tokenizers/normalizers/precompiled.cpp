#include <array>
#include <optional>

#include <utf8proc.h>

#include "data/tokenizers/charsmap_check.h"
#include "data/tokenizers/normalizers/base64.h"
#include "data/tokenizers/normalizers/filter.h"
#include "data/tokenizers/normalizers/normalizer.h"
#include "data/tokenizers/wire_format.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

/// The replacements of a validated charsmap (layout: charsmap_check.h).
class Charsmap {
 public:
  explicit Charsmap(std::string_view bytes) {
    size_t trie_size = little_endian(bytes, 0);
    for (size_t at = 4; at < 4 + trie_size; at += 4) units_.push_back(little_endian(bytes, at));
    replacements_ = bytes.substr(4 + trie_size);
  }

  /// The replacement of the shortest prefix of `chunk` that has one; it replaces all of `chunk`.
  std::optional<std::string_view> find(std::string_view chunk) const {
    size_t node = offset(units_[0]);
    for (char byte : chunk) {
      if (byte == 0) break;
      node ^= static_cast<unsigned char>(byte);
      uint32_t unit = units_[node];
      if ((unit & 0x800000FF) != static_cast<unsigned char>(byte)) break;
      node ^= offset(unit);
      if (unit >> 8 & 1) return replacement(units_[node] & 0x7FFFFFFF);
    }
    return std::nullopt;
  }

 private:
  static uint32_t little_endian(std::string_view bytes, size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return value;
  }
  static size_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
  std::string_view replacement(uint32_t start) const {
    return std::string_view(replacements_).substr(start, replacements_.find('\0', start) - start);
  }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(std::string_view charsmap) : map_(charsmap) {
    for (int code = 0; code < 128; ++code) {
      char c = static_cast<char>(code);
      ascii_same_[code] = !map_.find({&c, 1});
    }
  }

  void apply(AlignedText& text) const override {
    std::string_view view = text.view();
    size_t same = unchanged_front(view);
    if (same == view.size()) return;
    if (text.aligned()) {
      apply_aligned(text);
      return;
    }
    Rewrite out(text);
    out.copy(0, same);
    for_each_change(view, same, [&](std::string_view part, std::optional<std::string_view> replacement) {
      out.insert(replacement.value_or(part), {0, 0});
    });
    out.finish(text);
  }

 private:
  /// Whether the ASCII character at `at` is unchanged: the following character must not form a grapheme with it.
  bool stays(std::string_view text, size_t at) const {
    auto byte = static_cast<unsigned char>(text[at]);
    bool alone = at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0x80;
    return byte < 0x80 && ascii_same_[byte] && alone && byte != '\r';
  }

  size_t unchanged_front(std::string_view text) const {
    size_t at = 0;
    while (at < text.size() && stays(text, at)) ++at;
    return at;
  }

  /// Calls `visit(part, replacement)` for the parts of `text` from `start` on, where a grapheme begins: a whole
  /// grapheme of up to 5 bytes if it has a replacement, else characters.
  template <class Visit>
  void for_each_change(std::string_view text, size_t start, Visit&& visit) const {
    for (size_t at = start; at < text.size();) {
      size_t end = at;
      while (end < text.size() && stays(text, end)) ++end;
      if (end > at) {
        visit(text.substr(at, end - at), std::nullopt);
        at = end;
        continue;
      }
      std::string_view grapheme = text.substr(at, grapheme_length(text, at));
      at += grapheme.size();
      std::optional<std::string_view> whole;
      if (grapheme.size() < 6) whole = map_.find(grapheme);
      if (whole) {
        visit(grapheme, whole);
        continue;
      }
      for (size_t i = 0; i < grapheme.size();) {
        std::string_view part = grapheme.substr(i, char_length(grapheme, i));
        visit(part, map_.find(part));
        i += part.size();
      }
    }
  }

  /// Extended grapheme clusters, Unicode Standard Annex #29.
  static size_t grapheme_length(std::string_view text, size_t start) {
    Char last = char_at(text, start);
    size_t at = start + last.length;
    utf8proc_int32_t state = 0;
    while (at < text.size()) {
      Char next = char_at(text, at);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                           static_cast<utf8proc_int32_t>(next.code), &state)) {
        break;
      }
      at += next.length;
      last = next;
    }
    return at - start;
  }

  /// Applies the changes as in Note [Alignment]. A dropped character belongs to the preceding one, if any.
  void apply_aligned(AlignedText& text) const {
    std::vector<std::pair<char32_t, int>> steps;
    for_each_change(text.view(), 0, [&](std::string_view part, std::optional<std::string_view> replacement) {
      for_each_char(replacement.value_or(part), [&](char32_t code) { steps.emplace_back(code, 0); });
      if (!replacement) return;
      auto grown = static_cast<int64_t>(count_characters(*replacement)) - static_cast<int64_t>(count_characters(part));
      if (grown < 0 && !steps.empty()) steps.back().second += static_cast<int>(grown);
      for (int64_t i = 0; i < grown; ++i) steps[steps.size() - 1 - static_cast<size_t>(i)].second = 1;
    });
    Rewrite out(text);
    for (auto [code, change] : steps) out.put(code, change);
    out.finish(text);
  }

  Charsmap map_;
  std::array<bool, 128> ascii_same_{};
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const JsonView& view) {
  JsonView field = view.at("precompiled_charsmap");
  std::string charsmap;
  if (!decode_base64(field.text(), charsmap)) {
    field.problem("expected base64");
    return nullptr;
  }
  try {
    check_charsmap(charsmap);
  } catch (const Malformed& error) {
    field.problem(error.why);
    return nullptr;
  }
  return std::make_unique<Precompiled>(charsmap);
}

}  // namespace trainer::data
