// Makes text safe to print or log: hides secrets, and escapes control characters.
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// `text` with everything that looks like a secret replaced by "<secret>": tokens by their shape (hf_…, ghp_…, sk-…,
/// "Bearer …", private keys), the user info before the @ of a URL, the value after "…_API_KEY=", "password: " and
/// similar keys, and the values of environment variables called *TOKEN*, *SECRET*, *PASSWORD* or *KEY*, unless they are
/// short and may be common words.
std::string without_secrets(std::string_view text);

/// without_secrets(), with control characters and directional marks escaped, as \x1b or \u202e. Keeps line feeds and
/// tabs.
std::string safe_text(std::string_view text);

}  // namespace trainer
