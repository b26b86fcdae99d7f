#include "engine/adapters/pattern.h"

#include <charconv>
#include <regex>

#include "engine/base/errors.h"

namespace trainer::adapters {
namespace {

std::regex compiled(const std::string& pattern, const std::string& given, const char* option) {
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw ConfigError("lora.{}: '{}' is not a regular expression: {}.", option, given, error.what());
  }
}

}  // namespace

bool matches_whole(const std::string& text, const std::string& pattern, const char* option) {
  return std::regex_match(text, compiled(pattern, pattern, option));
}

bool matches_end(const std::string& path, const std::string& pattern, const char* option) {
  return std::regex_match(path, compiled("(.*\\.)?(" + pattern + ")", pattern, option));
}

int64_t number_at_start(const std::string& text, const std::string& pattern, const char* option) {
  std::smatch found;
  if (!std::regex_search(text, found, compiled(pattern, pattern, option), std::regex_constants::match_continuous))
    return -1;
  const std::string digits = found[found.size() - 1];
  int64_t number = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace trainer::adapters
