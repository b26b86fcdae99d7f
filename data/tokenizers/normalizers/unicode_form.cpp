#include <algorithm>

#include <utf8proc.h>

#include "data/tokenizers/normalizers/normalizer.h"

namespace trainer::data {
namespace {

/// A character with its change (Note [Alignment]) and its combining class.
struct FormStep {
  char32_t code;
  int change;
  int combining_class;
};

int combining_class(char32_t code) {
  return code < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

/// The canonical composition of two characters; 0 when there is none.
char32_t compose_pair(char32_t first, char32_t second) {
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

/// The full decomposition of `text`, marks in canonical order.
std::vector<FormStep> decomposed(std::string_view text, bool compatible) {
  auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<FormStep> steps;
  steps.reserve(text.size());
  size_t sorted = 0;  // steps before this one are sorted
  auto sort_marks = [&] {
    std::stable_sort(steps.begin() + static_cast<ptrdiff_t>(sorted), steps.end(),
                     [](const FormStep& a, const FormStep& b) { return a.combining_class < b.combining_class; });
    sorted = steps.size();
  };
  for (size_t at = 0; at < text.size();) {
    Char c = char_at(text, at);
    at += c.length;
    utf8proc_int32_t parts[32];
    int boundary = 0;
    auto count = c.code < 0x80
                     ? 0
                     : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), parts, 32, options, &boundary);
    if (count <= 0 || count > 32) {
      parts[0] = static_cast<utf8proc_int32_t>(c.code);
      count = 1;
    }
    for (int i = 0; i < count; ++i) {
      auto code = static_cast<char32_t>(parts[i]);
      int order = combining_class(code);
      if (order == 0) sort_marks();
      steps.push_back({code, i > 0, order});
    }
  }
  sort_marks();
  return steps;
}

/// Composes `steps` in place: each character joins the last starter unless one between them blocks it.
void compose(std::vector<FormStep>& steps) {
  size_t kept = 0;
  size_t starter = SIZE_MAX;
  for (const FormStep& step : steps) {
    bool adjacent = starter != SIZE_MAX && kept == starter + 1;
    bool blocked = starter == SIZE_MAX || (!adjacent && steps[kept - 1].combining_class >= step.combining_class);
    char32_t both = blocked ? 0 : compose_pair(steps[starter].code, step.code);
    if (both != 0) {
      steps[starter].code = both;
      steps[starter].change += step.change - 1;
      continue;
    }
    if (step.combining_class == 0) starter = kept;
    steps[kept++] = step;
  }
  steps.resize(kept);
}

class UnicodeForm : public Normalizer {
 public:
  UnicodeForm(bool compose, bool compatible) : compose_(compose), compatible_(compatible) {}

  void apply(AlignedText& text) const override {
    if (is_unchanged(text.view())) return;
    std::vector<FormStep> steps = decomposed(text.view(), compatible_);
    if (compose_) compose(steps);
    Rewrite out(text);
    for (const FormStep& step : steps) out.put(step.code, step.change);
    out.finish(text);
  }

 private:
  /// Nothing below U+00A0 changes in any form, and nothing below U+0300 when canonical forms are composed.
  bool is_unchanged(std::string_view text) const {
    if (!compose_ || compatible_) return is_ascii(text);
    return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
  }

  bool compose_, compatible_;
};

}  // namespace

std::unique_ptr<Normalizer> make_unicode_form(bool compose, bool compatible) {
  return std::make_unique<UnicodeForm>(compose, compatible);
}

void decompose(AlignedText& text) {
  UnicodeForm(false, false).apply(text);
}

}  // namespace trainer::data
