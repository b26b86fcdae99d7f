// Base64, for binary data in JSON.
#pragma once

#include <string>
#include <string_view>

namespace trainer::data {

/// Decodes base64 with padding (RFC 4648, section 4) into `bytes`; false when `text` is invalid.
bool decode_base64(std::string_view text, std::string& bytes);

/// The reverse.
std::string encode_base64(std::string_view bytes);

}  // namespace trainer::data
