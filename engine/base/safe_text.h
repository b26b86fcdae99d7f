// What may be shown on a screen or kept in a log: no secret, and nothing that moves a terminal's cursor.
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// `text` with what looks like a secret replaced by "<secret>": tokens by their shape (hf_…, ghp_…, sk-…, "Bearer …",
/// private keys), what stands before the @ of an address, what follows "…_API_KEY=", "password: " and the like, and the
/// values of environment variables called *TOKEN*, *SECRET*, *PASSWORD* or *KEY*, unless they are short and may be
/// words of ours.
std::string without_secrets(std::string_view text);

/// without_secrets(), with control characters and marks of the writing direction made visible, as \x1b or \u202e. Lines
/// and tabs stay.
std::string safe_text(std::string_view text);

}  // namespace trainer
