#include "data/readers/text_input.h"

#include <algorithm>
#include <cstring>

#include "data/readers/bad_record.h"
#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

constexpr size_t kPortion = 64 << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

size_t LineEnd::find(std::string_view text, size_t from) {
  size_t end = text.find('\n', from);
  return end == std::string_view::npos ? end : end + 1;
}

size_t ParagraphEnd::find(std::string_view text, size_t from) {
  constexpr size_t kLongestEnd = 3;  // LF CR LF, of which all but the last byte may have been examined
  for (size_t at = from > kLongestEnd ? from - kLongestEnd : 0;; ++at) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return at;
    const std::string_view next = text.substr(at + 1);
    if (next.starts_with('\n')) return at + 2;
    if (next.starts_with("\r\n")) return at + kLongestEnd;
  }
}

TextInput::TextInput(Bytes bytes, std::string path, std::string encoding)
    : bytes_(std::move(bytes)), path_(std::move(path)), latin1_(encoding == "latin-1") {
  if (!latin1_ && encoding != "utf-8") {
    throw ConfigError("encoding: {} is not supported; utf-8 and latin-1 are.", encoding);
  }
}

bool TextInput::cut(PieceEnd& end, RawPiece& piece) {
  if (!begun_) begin();
  finish(end);
  if (held().empty() && !more()) return false;
  piece.line = line_;
  piece.column = column_;
  end.begin();
  size_t seen = 0, found = end.find(held(), 0);
  while (found == std::string_view::npos) {
    seen = held().size();
    if (seen > kMaxRecordBytes || !more()) break;
    found = end.find(held(), seen);
  }
  piece.bytes = held().substr(0, found);
  advance(piece.bytes.size());
  if (piece.bytes.size() > kMaxRecordBytes) {
    too_long_ = found == std::string_view::npos;
    throw BadRecord(Fault::kTooLong, fmt::format("{}:{}", path_, piece.line),
                    "the record is longer than {} MiB.\nIs the format right?", kMaxRecordBytes >> 20);
  }
  return true;
}

void TextInput::finish(PieceEnd& end) {
  while (too_long_) {
    size_t found = end.find(held(), 0);
    too_long_ = found == std::string_view::npos;
    advance(std::min(found, held().size()));
    if (too_long_ && !more()) too_long_ = false;
  }
}

std::string_view TextInput::text_of(const RawPiece& piece) {
  std::string_view bytes = piece.bytes;
  if (size_t nul = bytes.find('\0'); nul != std::string_view::npos) {
    auto nuls = static_cast<size_t>(std::count(bytes.begin(), bytes.end(), '\0'));
    throw BadRecord(Fault::kNul, place_of_byte(piece, nul), "a NUL byte, which is not valid in text.{}",
                    nuls > bytes.size() / 3 ? "\nIf the file is UTF-16, convert it with `iconv -t UTF-8`." : "");
  }
  if (latin1_) return converted_ = latin1_to_utf8(bytes);
  if (size_t bad = find_invalid_utf8(bytes); bad != std::string_view::npos) {
    throw BadRecord(Fault::kNotUtf8, place_of_byte(piece, bad),
                    "byte 0x{:02x} is not UTF-8.\nIf the file is ISO 8859-1 text, set `encoding: latin-1`.",
                    static_cast<unsigned char>(bytes[bad]));
  }
  return bytes;
}

int TextInput::peek(size_t ahead) {
  if (!begun_) begin();
  while (held().size() <= ahead) {
    if (!more()) return -1;
  }
  return static_cast<unsigned char>(held()[ahead]);
}

void TextInput::skip(size_t count) {
  advance(count);
}

void TextInput::skip_space() {
  for (int c = peek(); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = peek()) advance(1);
}

std::string TextInput::place() const {
  return fmt::format("{}:{}", path_, line_);
}

std::string TextInput::place(const RawPiece& piece, size_t offset) const {
  if (latin1_) offset = count_characters(std::string_view(converted_).substr(0, offset));
  return place_of_byte(piece, offset);
}

std::string TextInput::place_of_byte(const RawPiece& piece, size_t offset) const {
  std::string_view before = piece.bytes.substr(0, offset);
  int64_t line = piece.line + std::count(before.begin(), before.end(), '\n');
  size_t newline = before.rfind('\n');
  size_t column =
      newline == std::string_view::npos ? static_cast<size_t>(piece.column) + before.size() : before.size() - newline;
  return fmt::format("{}:{}:{}", path_, line, column);
}

void TextInput::begin() {
  begun_ = true;
  for (size_t i = 0; i < kByteOrderMark.size(); ++i) {
    if (peek(i) != static_cast<unsigned char>(kByteOrderMark[i])) return;
  }
  if (latin1_) {
    throw InputError(
        "{}: the file begins with a UTF-8 byte order mark, but `encoding` is latin-1: set `encoding: utf-8`.", path_);
  }
  begin_ += kByteOrderMark.size();
}

bool TextInput::more() {
  make_room();
  try {
    size_t count = bytes_->read(buffer_.data() + end_, std::min(kPortion, buffer_.size() - end_));
    end_ += count;
    return count > 0;
  } catch (const BrokenBytes& error) {
    std::string_view left = held();
    throw InputError("{}:{}: {}.", path_, line_ + std::count(left.begin(), left.end(), '\n'), error.what());
  }
}

/// Makes room for more bytes in the buffer.
void TextInput::make_room() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kPortion) buffer_.resize(2 * buffer_.size() + 2 * kPortion);
}

/// Advances, counting lines.
void TextInput::advance(size_t count) {
  const char* at = buffer_.data() + begin_;
  const char* end = at + count;
  while (const void* newline = std::memchr(at, '\n', static_cast<size_t>(end - at))) {
    at = static_cast<const char*>(newline) + 1;
    ++line_;
    column_ = 1;
    if (at == end) break;
  }
  column_ += end - at;
  begin_ += count;
}

std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace trainer::data
