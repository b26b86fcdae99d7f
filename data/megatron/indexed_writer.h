// Writing a corpus of tokens as Megatron stores it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/megatron/token_type.h"
#include "engine/base/file_descriptor.h"

namespace trainer::data {

/// Writes PREFIX.bin and PREFIX.idx, one sequence a document. Tokens go to disk at once: memory grows by four bytes a
/// document. Until publish() there is nothing of either name; without it nothing is left.
class IndexedWriter {
 public:
  /// Errors: MachineError when nothing can be written there.
  IndexedWriter(const std::string& prefix, int64_t vocabulary);
  ~IndexedWriter();
  IndexedWriter(const IndexedWriter&) = delete;
  IndexedWriter& operator=(const IndexedWriter&) = delete;

  /// Adds a document. `tokens` are ids below the vocabulary's size. Errors: MachineError.
  void add_document(std::span<const int32_t> tokens);

  /// Makes both files appear, in the place of older ones. Errors: MachineError.
  void publish();

  int64_t documents() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t tokens() const { return tokens_; }

 private:
  void flush();
  std::string index_bytes() const;

  std::string prefix_;
  int64_t vocabulary_;
  TokenType type_;
  std::filesystem::path temp_;  // the .bin file until it is published; "" then
  FileDescriptor file_;
  std::string buffer_;
  std::vector<int32_t> lengths_;
  int64_t tokens_ = 0;
};

}  // namespace trainer::data
