// The content of an .idx file: where each sequence of tokens lies in its .bin file, and which belong to one document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/megatron/token_type.h"

namespace trainer::data {

/// A checked view of the bytes of an .idx file, which must outlive it. All of the file is checked at once: what a
/// SequenceIndex says can be relied on.
class SequenceIndex {
 public:
  /// `path` is for messages; `bin_bytes` is the size of the .bin file, whose name is `path` with that ending.
  /// Errors: InputError that says which of the two files is wrong, with both values.
  SequenceIndex(std::string_view bytes, std::string path, int64_t bin_bytes);

  TokenType type() const { return type_; }
  int64_t sequences() const { return sequences_; }
  /// Documents; document k is the sequences [document_start(k), document_start(k + 1)).
  int64_t documents() const { return document_entries_ - 1; }
  int64_t document_start(int64_t document) const;
  /// Tokens of a sequence.
  int64_t length(int64_t sequence) const;
  /// Where a sequence begins in the .bin file, in bytes.
  int64_t offset(int64_t sequence) const;

 private:
  void read_header();
  void read_counts();
  void check_sequences(int64_t bin_bytes) const;
  void check_documents() const;

  std::string_view bytes_;
  std::string path_;
  TokenType type_ = TokenType::kInt32;
  int64_t sequences_ = 0;
  int64_t document_entries_ = 0;  // one more than documents
};

}  // namespace trainer::data
