// Reads a token corpus in Megatron's format: PREFIX.bin and PREFIX.idx.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/megatron/sequence_index.h"
#include "engine/base/mapped_file.h"

namespace trainer::data {

/// `path` without the extension .bin or .idx: Megatron's name of a corpus.
std::string corpus_prefix(const std::string& path);

/// Both files of a corpus, memory-mapped.
class IndexedFile {
 public:
  /// `path`: the prefix, or one of the two files.
  /// Errors: InputError when a file is missing (naming the one that exists) or invalid.
  explicit IndexedFile(const std::string& path);

  const std::string& prefix() const { return prefix_; }
  const SequenceIndex& index() const { return index_; }

  /// Tokens [offset, offset + tokens.size()) of a sequence.
  /// Errors: InputError for a token that is not an id in [0, vocabulary), with its position.
  void read(int64_t sequence, int64_t offset, std::span<int32_t> tokens, int64_t vocabulary = int64_t{1} << 31) const;

 private:
  std::string prefix_;
  MappedFile bin_, idx_;
  SequenceIndex index_;
};

}  // namespace trainer::data
