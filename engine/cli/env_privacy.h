// What `trainer env` hides, so that its output can be pasted into a public issue.
#pragma once

#include <string>
#include <string_view>

#include "engine/config/document/document.h"

namespace trainer::cli {

/// What replaces a secret: only that there is a value.
inline constexpr const char* kSecretIsSet = "set";

/// Whether the name of a variable or of an option hints at a secret, in any case: it contains TOKEN (but not TOKENIZ),
/// SECRET, PASSW, PASSPHRASE or CREDENTIAL, or one of its words is KEY, KEYS, AUTH or a word that ends in KEY.
bool hints_at_secret(std::string_view name);

/// `text` fit for an issue: safe_text(), with ~ in place of the home folder and of the user's name where it is a part
/// of a path.
std::string public_text(std::string_view text);
/// The same for the user `name` with the folder `home`; "" for unknown ones.
std::string public_text(std::string_view text, const std::string& home, const std::string& name);

/// The value of the environment variable `name` as public_text(), or kSecretIsSet.
std::string public_value(const std::string& name, const std::string& value);

/// The document with public_text() in place of its texts, and kSecretIsSet in place of every value whose key hints at a
/// secret (the ids of a model's special tokens don't). Comments are dropped.
config::Node public_document(const config::Node& document);

}  // namespace trainer::cli
