#include "engine/base/safe_text.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace trainer {
namespace {

constexpr std::string_view kHidden = "<secret>";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string in_small(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// A kind of token: its prefix, and the minimum number of letters, digits, _, - or . after it.
struct Shape {
  std::string_view prefix;
  size_t least;
};
constexpr Shape kShapes[] = {
    // Hugging Face
    {"hf_", 30},
    {"api_org_", 30},
    // GitHub, GitLab
    {"ghp_", 30},
    {"gho_", 30},
    {"ghs_", 30},
    {"ghu_", 30},
    {"ghr_", 30},
    {"github_pat_", 30},
    {"glpat-", 20},
    {"gldt-", 20},
    {"glrt-", 20},
    // Slack, and the URLs of its webhooks
    {"xoxa-", 20},
    {"xoxb-", 20},
    {"xoxp-", 20},
    {"xoxr-", 20},
    {"xoxs-", 20},
    {"xapp-", 20},
    {"services/T", 30},
    // AWS, Google, DigitalOcean, Databricks
    {"AKIA", 16},
    {"ASIA", 16},
    {"AIza", 35},
    {"ya29.", 20},
    {"GOCSPX-", 20},
    {"dop_v1_", 40},
    {"dapi", 32},
    // OpenAI and Anthropic, Stripe, Weights & Biases, NVIDIA, Groq, Replicate, SendGrid
    {"sk-", 20},
    {"sk_live_", 20},
    {"rk_live_", 20},
    {"wandb_v1_", 20},
    {"nvapi-", 20},
    {"gsk_", 30},
    {"r8_", 30},
    {"SG.", 40},
    // package and image registries; JSON web tokens
    {"pypi-", 40},
    {"npm_", 36},
    {"dckr_pat_", 20},
    {"eyJ", 40},
};

size_t tail_length(std::string_view text, std::string_view more = "-.") {
  const auto in_tail = [&](char c) { return is_word(c) || more.find(c) != std::string_view::npos; };
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), in_tail) - text.begin());
}

/// The length of the token at the start of `text`; 0 for none.
size_t token_length(std::string_view text) {
  for (const Shape& shape : kShapes) {
    if (!text.starts_with(shape.prefix)) continue;
    const size_t tail = tail_length(text.substr(shape.prefix.size()), shape.prefix == "services/T" ? "/" : "-.");
    if (tail >= shape.least) return shape.prefix.size() + tail;
  }
  return 0;
}

/// The length of "Bearer …" or "Basic …", as in an HTTP header, at the start of `text`; 0 for none.
size_t authorization_length(std::string_view text) {
  constexpr size_t kShortest = 16;
  for (const std::string_view scheme : {"bearer ", "basic "}) {
    if (in_small(text.substr(0, scheme.size())) != scheme) continue;
    const std::string_view rest = text.substr(scheme.size());
    const std::string_view tail = rest.substr(0, tail_length(rest, "-.+/="));
    if (tail.size() >= kShortest &&
        std::any_of(tail.begin(), tail.end(), [](char c) { return is_digit(c) || c == '='; }))
      return scheme.size() + tail.size();
  }
  return 0;
}

/// The length of a private key in PEM form, possibly truncated, at the start of `text`; 0 for none.
size_t private_key_length(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ", kDashes = "-----";
  if (!text.starts_with(kBegin)) return 0;
  const size_t title = text.find(kDashes, kBegin.size());
  if (title == std::string_view::npos || text.substr(0, title).find("PRIVATE KEY") == std::string_view::npos) return 0;
  const size_t last = text.find(kEnd, title);
  if (last == std::string_view::npos) return text.size();
  const size_t end = text.find(kDashes, last + kEnd.size());
  return end == std::string_view::npos ? text.size() : end + kDashes.size();
}

/// The length of "user:password" or a token before an @, in `text` that follows "://" (or ":/", as in a path); 0 for
/// none.
size_t userinfo_length(std::string_view text) {
  constexpr size_t kLongestName = 20;  // a user name alone isn't a secret, as in ssh://git@example.com
  const size_t end = std::min(text.find_first_of("/ \t\n\"'<>"), text.size());
  const size_t at = text.substr(0, end).rfind('@');
  if (at == std::string_view::npos) return 0;
  return at > kLongestName || text.substr(0, at).find(':') != std::string_view::npos ? at : 0;
}

/// Whether `name`, of an environment variable, indicates a secret.
bool names_a_secret(std::string_view name) {
  const std::string word = in_small(name);
  const auto says = [&](std::string_view part) { return word.find(part) != std::string::npos; };
  for (const std::string_view place : {"_file", "_path", "_dir", "_sock"})
    if (word.ends_with(place)) return false;
  return says("secret") || says("passw") || says("passphrase") || says("credential") || says("key") ||
         (says("token") && !says("tokeniz"));
}

/// The same for a key in text, where "token" and "key" are common words: they count only at the end of a longer name;
/// eos_token does not.
bool keys_a_secret(std::string_view name) {
  const std::string word = in_small(name);
  for (const char* end : {"api_key", "api-key", "apikey", "access_key", "secret_key", "private_key", "access_token",
                          "auth_token", "api_token", "hub_token", "hf_token", "refresh_token", "client_secret",
                          "password", "passwd", "passphrase", "signature"})
    if (word.ends_with(end)) return true;
  const bool variable = std::none_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return variable && (word.ends_with("_token") || word.ends_with("_key") || word.ends_with("_secret"));
}

/// The offset and length of the value in "NAME=value", "name: value" or "\"name\": \"value\"" at the start of `text`,
/// when the name indicates a secret.
std::pair<size_t, size_t> named_value(std::string_view text) {
  constexpr size_t kLongestName = 64, kShortest = 6;
  const size_t name = tail_length(text.substr(0, kLongestName), "-");
  if (name < kShortest || !keys_a_secret(text.substr(0, name))) return {0, 0};
  size_t at = name;
  const auto skip = [&](std::string_view letters) {
    while (at < text.size() && letters.find(text[at]) != std::string_view::npos) ++at;
  };
  skip("\"'");
  skip(" ");
  if (at == text.size() || (text[at] != '=' && text[at] != ':')) return {0, 0};
  ++at;
  skip(" ");
  skip("\"'");
  const std::string_view rest = text.substr(std::min(at, text.size()));
  const size_t length = std::min(rest.find_first_of(" \t\n\"'&,;)}"), rest.size());
  return length < kShortest || rest.starts_with(kHidden) ? std::pair<size_t, size_t>{0, 0} : std::pair{at, length};
}

/// A value to hide wherever it occurs; a short one only as a separate word.
struct SecretValue {
  std::string text;
  bool anywhere = true;
};

/// The values of the environment variables whose names indicate secrets, except for short common words and numbers.
std::vector<SecretValue> secret_values() {
  constexpr size_t kShortest = 8, kLong = 12;
  std::vector<SecretValue> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = std::min(text.find('='), text.size());
    const std::string_view value = text.substr(std::min(equals + 1, text.size()));
    if (value.size() < kShortest || value.starts_with('/') || !names_a_secret(text.substr(0, equals))) continue;
    const bool word = std::all_of(value.begin(), value.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    const bool number = std::all_of(value.begin(), value.end(), is_digit);
    if (value.size() >= kLong || (!word && !number)) values.push_back({std::string(value), value.size() >= kLong});
  }
  return values;
}

void hide_all(std::string& text, const SecretValue& value) {
  const size_t size = value.text.size();
  for (size_t at = 0; (at = text.find(value.text, at)) != std::string::npos;) {
    const bool alone = (at == 0 || !is_word(text[at - 1])) && (at + size == text.size() || !is_word(text[at + size]));
    if (value.anywhere || alone) text.replace(at, size, kHidden);
    at += value.anywhere || alone ? kHidden.size() : 1;
  }
}

/// The length of the secret at the start of `text`, which follows `before`; 0 for none.
size_t secret_length(std::string_view text, char before) {
  if (is_word(before)) return 0;
  for (const auto length : {token_length, authorization_length, private_key_length})
    if (const size_t found = length(text); found > 0) return found;
  return 0;
}

/// The length of the control or invisible character at the start of `text`: U+0080 to U+009F, U+200B to U+200F, U+202A
/// to U+202E, U+2060 to U+2069, U+FEFF. 0 for any other character.
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
  bool address = false;  // after the ":/" or "://" of a URL
  for (size_t at = 0; at < text.size();) {
    const char before = at > 0 ? text[at - 1] : ' ';
    address = before == '/' && (address || (at > 1 && text[at - 2] == ':'));
    size_t length = secret_length(text.substr(at), before);
    if (length == 0 && address) length = userinfo_length(text.substr(at));
    if (length == 0 && !is_word(before)) {
      const auto [value, size] = named_value(text.substr(at));
      out += text.substr(at, value);
      at += value;
      length = size;
    }
    out += length > 0 ? kHidden : text.substr(at, 1);
    at += std::max<size_t>(length, 1);
  }
  for (const SecretValue& value : secret_values()) hide_all(out, value);
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
