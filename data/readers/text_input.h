// A text of any length, cut into the pieces that are its records. Only one piece is ever held.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/readers/byte_source.h"

namespace trainer::data {

/// The longest record or line that is read, in bytes.
inline constexpr size_t kMaxRecordBytes = 16u << 20;

/// Finds where a piece of a text ends.
class PieceEnd {
 public:
  virtual ~PieceEnd() = default;

  /// A new piece begins.
  virtual void begin() {}

  /// `text` starts at some byte of the piece, all before `from` was seen. Returns the place behind the last byte
  /// of the piece, or npos when that isn't in `text`.
  virtual size_t find(std::string_view text, size_t from) = 0;
};

/// Pieces are lines, each with its LF.
class LineEnd : public PieceEnd {
 public:
  size_t find(std::string_view text, size_t from) override;
};

/// Bytes of a file as they are there, and where they begin.
struct Piece {
  std::string_view bytes;        // valid until the next call to the TextInput
  int64_t line = 1, column = 1;  // from 1; columns count bytes
};

/// Reads a text in UTF-8 or Latin-1. A byte order mark doesn't count as text.
class TextInput {
 public:
  /// `encoding`: utf-8 or latin-1. `path` is for messages. Errors: ConfigError for another encoding.
  TextInput(Bytes bytes, std::string path, std::string encoding);

  /// Cuts off the piece up to where `end` finds, or to the end of the text; false, with `end` and `piece` as they are,
  /// when nothing is left.
  /// Errors: BadRecord for a piece longer than kMaxRecordBytes: the next call steps over what is left of it first.
  /// InputError, with the line, when the file is broken.
  bool cut(PieceEnd& end, Piece& piece);

  /// Steps over what is left of a piece that was too long.
  void finish(PieceEnd& end);

  /// The text of `piece` in UTF-8, valid as long as the piece.
  /// Errors: BadRecord, with line and column, for NULs and what is no UTF-8.
  std::string_view text_of(const Piece& piece);

  /// The byte that is `ahead` bytes on; -1 behind the end. Errors: InputError.
  int peek(size_t ahead = 0);
  /// Steps over `count` bytes, which were peeked at.
  void skip(size_t count);
  /// Steps over blanks and line ends.
  void skip_space();

  const std::string& path() const { return path_; }
  /// Where the next byte is.
  int64_t line() const { return line_; }
  /// "file:line" of the next byte.
  std::string place() const;
  /// "file:line:column" of byte `offset` of the text of `piece`, the last one that text_of gave.
  std::string place(const Piece& piece, size_t offset) const;

 private:
  std::string_view held() const { return {buffer_.data() + begin_, end_ - begin_}; }
  std::string place_of_byte(const Piece& piece, size_t offset) const;
  bool more();
  void make_room();
  void begin();
  void advance(size_t count);

  Bytes bytes_;
  std::string path_;
  bool latin1_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is held and not yet cut off
  int64_t line_ = 1, column_ = 1;
  bool begun_ = false, too_long_ = false;
  std::string converted_;
};

/// `text` without spaces and tabs at both ends.
std::string_view trimmed(std::string_view text);

/// `line` without the LF or CRLF at its end.
std::string_view without_line_end(std::string_view line);

}  // namespace trainer::data
