// Splits a text of any length into pieces, one per record. Only one piece is in memory at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/readers/byte_source.h"

namespace trainer::data {

/// The maximum size of a record or line, in bytes.
inline constexpr size_t kMaxRecordBytes = 16u << 20;

/// Finds where a piece of a text ends.
class PieceEnd {
 public:
  virtual ~PieceEnd() = default;

  /// Called at the beginning of a piece.
  virtual void begin() {}

  /// `text` begins inside the piece; the bytes before `from` were already examined. Returns the position after the last
  /// byte of the piece, or npos if the end isn't in `text`.
  virtual size_t find(std::string_view text, size_t from) = 0;
};

/// Pieces are lines, each with its LF.
class LineEnd : public PieceEnd {
 public:
  size_t find(std::string_view text, size_t from) override;
};

/// Pieces are paragraphs, each with the empty line at its end.
class ParagraphEnd : public PieceEnd {
 public:
  size_t find(std::string_view text, size_t from) override;
};

/// The rest of the text is one piece.
class DocumentEnd : public PieceEnd {
 public:
  size_t find(std::string_view, size_t) override { return std::string_view::npos; }
};

/// Raw bytes of a file and their position.
struct RawPiece {
  std::string_view bytes;        // valid until the next call to the TextInput
  int64_t line = 1, column = 1;  // from 1; columns count bytes
};

/// Reads a text in UTF-8 or Latin-1. A byte order mark is skipped.
class TextInput {
 public:
  /// `encoding`: utf-8 or latin-1. `path` is for messages. Errors: ConfigError for another encoding.
  TextInput(Bytes bytes, std::string path, std::string encoding);

  /// Takes the piece up to the position that `end` finds, or to the end of the text; false, with `end` and `piece`
  /// unchanged, when nothing is left.
  /// Errors: BadRecord for a piece longer than kMaxRecordBytes: the next call first skips the rest of it. InputError,
  /// with the line, when the file is corrupt.
  bool cut(PieceEnd& end, RawPiece& piece);

  /// Skips the rest of a piece that was too long.
  void finish(PieceEnd& end);

  /// The text of `piece` in UTF-8, valid as long as the piece.
  /// Errors: BadRecord, with line and column, for NUL bytes and invalid UTF-8.
  std::string_view text_of(const RawPiece& piece);

  /// The byte at `ahead` bytes from the current position; -1 past the end. Errors: InputError.
  int peek(size_t ahead = 0);
  /// Skips `count` bytes that were peeked at.
  void skip(size_t count);
  /// Skips blanks and line ends.
  void skip_space();

  const std::string& path() const { return path_; }
  /// The line of the next byte.
  int64_t line() const { return line_; }
  /// "file:line" of the next byte.
  std::string place() const;
  /// "file:line:column" of byte `offset` of the text of `piece`, the last one returned by text_of.
  std::string place(const RawPiece& piece, size_t offset) const;

 private:
  std::string_view held() const { return {buffer_.data() + begin_, end_ - begin_}; }
  std::string place_of_byte(const RawPiece& piece, size_t offset) const;
  bool more();
  void make_room();
  void begin();
  void advance(size_t count);

  Bytes bytes_;
  std::string path_;
  bool latin1_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // the buffered bytes that are not taken yet
  int64_t line_ = 1, column_ = 1;
  bool begun_ = false, too_long_ = false;
  std::string converted_;
};

/// `text` without spaces and tabs at both ends.
std::string_view trimmed(std::string_view text);

/// `line` without the LF or CRLF at its end.
std::string_view without_line_end(std::string_view line);

}  // namespace trainer::data
