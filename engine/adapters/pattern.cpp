#include "engine/adapters/pattern.h"

#include <charconv>
#include <memory>
#include <new>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/errors.h"

namespace trainer::adapters {
namespace {

constexpr size_t kMaxPattern = 64 << 10;     // bytes
constexpr uint32_t kMatchSteps = 1'000'000;  // of backtracking in one match: some milliseconds
constexpr uint32_t kMatchMemory = 16 << 10;  // KiB

struct FreePcre2Parts {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
template <class T>
using OwnedPcre2 = std::unique_ptr<T, FreePcre2Parts>;

std::string words_of(int error) {
  unsigned char text[256] = "";
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// A match of `pattern` at the start of `text`: its last group, or all of it. `given`: the pattern as the user wrote
/// it.
struct Found {
  bool matches = false;
  std::string last_group;
};
Found match(const std::string& text, const std::string& pattern, uint32_t options, const std::string& given,
            const char* option) {
  if (given.size() > kMaxPattern)
    throw ConfigError("lora.{}: a regular expression of {} bytes; at most {} are allowed.", option, given.size(),
                      kMaxPattern);
  int error = 0;
  size_t offset = 0;
  const OwnedPcre2<pcre2_code> code(
      pcre2_compile(bytes_of(pattern), pattern.size(), options | PCRE2_ANCHORED, &error, &offset, nullptr));
  if (!code) {
    const std::string shown = given.size() > 100 ? given.substr(0, 100) + "…" : given;
    throw ConfigError("lora.{}: '{}' is not a regular expression: {}.", option, shown, words_of(error));
  }
  const OwnedPcre2<pcre2_match_data> data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const OwnedPcre2<pcre2_match_context> limits(pcre2_match_context_create(nullptr));
  if (!data || !limits) throw std::bad_alloc();
  pcre2_set_match_limit(limits.get(), kMatchSteps);
  pcre2_set_heap_limit(limits.get(), kMatchMemory);
  const int groups = pcre2_match(code.get(), bytes_of(text), text.size(), 0, 0, data.get(), limits.get());
  if (groups == PCRE2_ERROR_NOMATCH) return {};
  if (groups < 0)
    throw ConfigError(
        "lora.{}: '{}' takes too long to match {}: {}.\n  Simplify it; a repetition inside a repetition "
        "tries every way to split a name.",
        option, given, text, words_of(groups));
  uint32_t count = 0;
  pcre2_pattern_info(code.get(), PCRE2_INFO_CAPTURECOUNT, &count);
  const size_t* at = pcre2_get_ovector_pointer(data.get()) + 2 * size_t{count};
  if (static_cast<uint32_t>(groups) <= count || at[0] == PCRE2_UNSET || at[0] > at[1]) return {true, ""};
  return {true, text.substr(at[0], at[1] - at[0])};
}

}  // namespace

bool matches_whole(const std::string& text, const std::string& pattern, const char* option) {
  return match(text, pattern, PCRE2_ENDANCHORED, pattern, option).matches;
}

bool matches_end(const std::string& path, const std::string& pattern, const char* option) {
  return match(path, "(.*\\.)?(" + pattern + ")", PCRE2_ENDANCHORED, pattern, option).matches;
}

int64_t number_at_start(const std::string& text, const std::string& pattern, const char* option) {
  const std::string digits = match(text, pattern, 0, pattern, option).last_group;
  int64_t number = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace trainer::adapters
