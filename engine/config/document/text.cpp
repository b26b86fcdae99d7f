#include "engine/config/document/text.h"

#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::config {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The encoding by byte-order mark, or by the zeros next to the first character: configurations begin with ASCII. ""
/// for other encodings.
const char* wide_encoding(const std::string& bytes) {
  using namespace std::string_view_literals;
  const std::string_view text = bytes;
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  if (text.size() > 3 && (text.starts_with("\0\0\0"sv) || text.substr(1).starts_with("\0\0\0"sv))) return "UTF-32";
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return "UTF-16";
  return text.size() > 1 && (text[0] == '\0') != (text[1] == '\0') ? "UTF-16" : "";
}

}  // namespace

std::string utf8_text(const std::string& bytes, const std::string& source) {
  if (bytes.size() > kMaxBytes) {
    throw ConfigError("{}: is {} bytes long, but a configuration can have at most {}", source, bytes.size(), kMaxBytes);
  }
  if (const std::string_view wide = wide_encoding(bytes); !wide.empty())
    throw ConfigError("{}: is {} text: save it as UTF-8", source, wide);
  if (const auto zero = bytes.find('\0'); zero != std::string::npos) {
    throw ConfigError("{}: holds a zero byte at offset {}: not a text file", source, zero);
  }
  std::size_t start = 0;
  while (std::string_view(bytes).substr(start).starts_with(kByteOrderMark)) start += kByteOrderMark.size();
  const std::string text = bytes.substr(start);
  if (const auto bad = find_invalid_utf8(text); bad != std::string::npos) {
    throw ConfigError("{}: the byte 0x{:02x} is not valid UTF-8: save the file as UTF-8",
                      to_string(Places(text, source).at(bad)), static_cast<unsigned char>(text[bad]));
  }
  return text;
}

Places::Places(const std::string& text, const std::string& source)
    : text_(text), source_(std::make_shared<const std::string>(source)) {}

Mark Places::at(std::size_t offset) {
  if (offset < line_start_) counted_ = line_start_ = 0, line_ = 1;
  for (; counted_ < offset; ++counted_) {
    if (text_[counted_] == '\n') {
      ++line_;
      line_start_ = counted_ + 1;
    }
  }
  return {source_, line_, static_cast<int>(offset - line_start_) + 1};
}

}  // namespace trainer::config
