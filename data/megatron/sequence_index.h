// The content of an .idx file: the position of each token sequence in the .bin file, and the sequences of each
// document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/megatron/token_type.h"

namespace trainer::data {

/// A view of the bytes of an .idx file, which must outlive it. The constructor validates the whole file, so the getters
/// can be trusted.
class SequenceIndex {
 public:
  /// `path` is for messages; `bin_bytes` is the size of the .bin file next to it.
  /// Errors: InputError that names the wrong file, with both values.
  SequenceIndex(std::string_view bytes, std::string path, int64_t bin_bytes);

  TokenType type() const { return type_; }
  int64_t sequences() const { return sequences_; }
  /// The number of documents; document k consists of sequences [document_start(k), document_start(k + 1)).
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
