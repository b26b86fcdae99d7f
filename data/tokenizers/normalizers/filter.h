// Character-by-character normalization.
#pragma once

#include "data/tokenizers/text/aligned_text.h"

namespace trainer::data {

template <class Visit>
void for_each_char(std::string_view text, Visit&& visit) {
  for (size_t at = 0; at < text.size();) {
    Char c = char_at(text, at);
    at += c.length;
    visit(c.code);
  }
}

/// Drops the characters for which `keep` is false.
template <class Keep>
void keep_chars(AlignedText& text, Keep&& keep) {
  bool all = true;
  for_each_char(text.view(), [&](char32_t code) { all = all && keep(code); });
  if (all) return;
  Rewrite out(text);
  for_each_char(text.view(), [&](char32_t code) {
    if (keep(code)) {
      out.put(code, 0);
    } else {
      out.skip_chars(1);
    }
  });
  out.finish(text);
}

/// Replaces each character by the result of `map`.
template <class Map>
void map_chars(AlignedText& text, Map&& map) {
  bool same = true;
  for_each_char(text.view(), [&](char32_t code) { same = same && map(code) == code; });
  if (same) return;
  Rewrite out(text);
  for_each_char(text.view(), [&](char32_t code) { out.put(map(code), 0); });
  out.finish(text);
}

}  // namespace trainer::data
