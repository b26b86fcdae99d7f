#include "engine/base/safe_text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

namespace trainer {
namespace {

constexpr std::string_view kHidden = "<secret>";
constexpr size_t kShortestValue = 12;  // of a variable; a shorter one may be part of any word

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// A kind of token: how it begins, and how many letters, digits, - or _ follow at least.
struct Shape {
  std::string_view prefix;
  size_t least;
};
constexpr std::array kShapes{Shape{"hf_", 30},   Shape{"sk-", 20},    Shape{"ghp_", 30},        Shape{"gho_", 30},
                             Shape{"ghs_", 30},  Shape{"ghu_", 30},   Shape{"github_pat_", 30}, Shape{"glpat-", 20},
                             Shape{"AKIA", 16},  Shape{"ASIA", 16},   Shape{"AIza", 35},        Shape{"xoxb-", 20},
                             Shape{"xoxp-", 20}, Shape{"pypi-", 40},  Shape{"npm_", 36},        Shape{"dop_v1_", 40},
                             Shape{"eyJ", 40},   Shape{"Bearer ", 16}};

size_t tail_length(std::string_view text) {
  const auto in_tail = [](char c) { return is_word(c) || c == '-' || c == '.'; };
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), in_tail) - text.begin());
}

/// The length of the token that `text` begins with; 0 when it begins with none.
size_t token_length(std::string_view text) {
  for (const Shape& shape : kShapes) {
    if (!text.starts_with(shape.prefix)) continue;
    const size_t tail = tail_length(text.substr(shape.prefix.size()));
    if (tail >= shape.least) return shape.prefix.size() + tail;
  }
  return 0;
}

/// How much of `text`, which follows "://" (or ":/", as a path has it), is "user:password" before an @; 0 for none.
size_t userinfo_length(std::string_view text) {
  const size_t end = std::min(text.find_first_of("/ \t\n\"'<>"), text.size());
  const size_t at = text.substr(0, end).rfind('@');
  return at != std::string_view::npos && text.substr(0, at).find(':') != std::string_view::npos ? at : 0;
}

/// The values of the environment variables whose names say that they are secret.
std::vector<std::string> secret_values() {
  std::vector<std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals), value = text.substr(std::min(equals + 1, text.size()));
    const auto says = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
    const bool secret = (says("TOKEN") && !says("TOKENIZER")) || says("SECRET") || says("PASSWORD") || says("KEY");
    if (secret && value.size() >= kShortestValue && !value.starts_with('/')) values.emplace_back(value);
  }
  return values;
}

void replace_all(std::string& text, const std::string& what) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += kHidden.size())
    text.replace(at, what.size(), kHidden);
}

/// The length of the UTF-8 sequence at the start of `text` that a terminal obeys or doesn't show: U+0080 to U+009F,
/// U+200B to U+200F, U+202A to U+202E, U+2060 to U+2069, U+FEFF. 0 when there is another one.
size_t hidden_character(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) <= 0x9F) return 2;
  if (byte(0) == 0xEF && byte(1) == 0xBB && byte(2) == 0xBF) return 3;
  if (byte(0) != 0xE2) return 0;
  if (byte(1) == 0x80 && ((byte(2) >= 0x8B && byte(2) <= 0x8F) || (byte(2) >= 0xAA && byte(2) <= 0xAE))) return 3;
  return byte(1) == 0x81 && byte(2) >= 0xA0 && byte(2) <= 0xA9 ? 3 : 0;
}

unsigned code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() == 2) return (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  return (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
}

}  // namespace

std::string without_secrets(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || !is_word(text[at - 1]);
    size_t length = begins ? token_length(text.substr(at)) : 0;
    if (length == 0 && at > 1 && text[at - 1] == '/' && text.substr(0, at).find_last_not_of('/') != text.npos &&
        text[text.substr(0, at).find_last_not_of('/')] == ':')
      length = userinfo_length(text.substr(at));
    if (length > 0) {
      out += kHidden;
      at += length;
    } else {
      out += text[at++];
    }
  }
  for (const std::string& value : secret_values()) replace_all(out, value);
  return out;
}

std::string safe_text(std::string_view text) {
  const std::string kept = without_secrets(text);
  std::string out;
  for (size_t at = 0; at < kept.size();) {
    const auto byte = static_cast<unsigned char>(kept[at]);
    if (const size_t length = hidden_character(std::string_view(kept).substr(at)); length > 0) {
      out += fmt::format("\\u{:04x}", code_point(std::string_view(kept).substr(at, length)));
      at += length;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
      ++at;
    } else {
      out += kept[at++];
    }
  }
  return out;
}

}  // namespace trainer
