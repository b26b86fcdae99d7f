// Writes a token corpus in Megatron's format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/megatron/token_type.h"
#include "engine/base/file_descriptor.h"

namespace trainer::data {

/// Writes PREFIX.bin and PREFIX.idx, one sequence per document. Tokens go to disk at once: memory grows by four bytes
/// per document. Both files appear with publish(); without it nothing is left behind.
class IndexedWriter {
 public:
  /// Errors: MachineError when the files can't be written.
  IndexedWriter(const std::string& prefix, int64_t vocabulary);
  ~IndexedWriter();
  IndexedWriter(const IndexedWriter&) = delete;
  IndexedWriter& operator=(const IndexedWriter&) = delete;

  /// Adds a document. `tokens` are ids below `vocabulary`. Errors: MachineError.
  void add_document(std::span<const int32_t> tokens);

  /// Publishes both files, replacing older ones. Errors: MachineError.
  void publish();

  int64_t documents() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t tokens() const { return tokens_; }

 private:
  void flush();
  std::string index_bytes() const;

  std::string prefix_;
  int64_t vocabulary_;
  TokenType type_;
  std::filesystem::path temp_;  // the .bin file until it is published; "" afterwards
  FileDescriptor file_;
  std::string buffer_;
  std::vector<int32_t> lengths_;
  int64_t tokens_ = 0;
};

}  // namespace trainer::data
