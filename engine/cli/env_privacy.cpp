#include "engine/cli/env_privacy.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "engine/base/safe_text.h"
#include "engine/config/document/scalar.h"

namespace trainer::cli {
namespace {

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

/// `text` with `by` in place of `part` wherever it ends at the end of a path's part, and begins with / or, if
/// `after_slash`, follows one.
std::string with_part_replaced(std::string text, const std::string& part, const std::string& by, bool after_slash) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;) {
    const std::size_t end = at + part.size();
    const bool begins = after_slash ? at > 0 && text[at - 1] == '/' : at == 0 || !in_word(text[at - 1]);
    const bool ends = end == text.size() || !in_word(text[end]);
    if (begins && ends) text.replace(at, part.size(), by);
    at += begins && ends ? by.size() : 1;
  }
  return text;
}

/// The user's entry in the system's list, and HOME, which may differ.
struct User {
  std::string name, folder, home;
};

const User& this_user() {
  static const User user = [] {
    const passwd* const entry = getpwuid(geteuid());
    const char* const home = std::getenv("HOME");
    return User{entry != nullptr ? entry->pw_name : "", entry != nullptr ? entry->pw_dir : "",
                home != nullptr ? home : ""};
  }();
  return user;
}

/// pad_token_id and the other numbers of a model's config.
bool is_token_id(std::string_view key) {
  return key.ends_with("_token_id") || key.ends_with("_token_ids");
}

config::Node hidden(const config::Node& node) {
  if (node.is_null() || (node.is_scalar() && node.text.empty())) return node;
  return config::Node::scalar(kSecretIsSet);
}

}  // namespace

bool hints_at_secret(std::string_view name) {
  const std::string word = config::lower(std::string(name));
  const auto has = [&](std::string_view part) { return word.find(part) != std::string::npos; };
  if (has("secret") || has("passw") || has("passphrase") || has("credential")) return true;
  if (has("token") && !has("tokeniz")) return true;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = std::min(word.find_first_of("_-.", at), word.size());
    const std::string part = word.substr(at, end - at);
    // "key" inside a longer name is a part of a model, as in num_key_value_heads.
    if (part == "auth" || ((part.ends_with("key") || part == "keys") && end == word.size())) return true;
    at = end + 1;
  }
  return false;
}

std::string public_text(std::string_view text, const std::string& home, const std::string& name) {
  std::string out = safe_text(text);
  if (home.size() > 1) out = with_part_replaced(out, home, "~", false);
  if (!name.empty() && name != "root") out = with_part_replaced(out, name, "~", true);
  return out;
}

std::string public_text(std::string_view text) {
  const User& user = this_user();
  const std::string once = public_text(text, user.home, user.name);
  return user.folder == user.home ? once : public_text(once, user.folder, "");
}

std::string public_value(const std::string& name, const std::string& value) {
  return hints_at_secret(name) ? kSecretIsSet : public_text(value);
}

config::Node public_document(const config::Node& document) {
  config::Node out = document;
  out.comment.clear();
  if (out.is_scalar() || out.is_null()) out.text = public_text(out.text);
  for (config::Node& item : out.items) item = public_document(item);
  for (config::Member& member : out.members) {
    member.value =
        hints_at_secret(member.key) && !is_token_id(member.key) ? hidden(member.value) : public_document(member.value);
    member.key = public_text(member.key);
  }
  return out;
}

}  // namespace trainer::cli
