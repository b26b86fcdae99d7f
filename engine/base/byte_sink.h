// Destinations for a file that is written sequentially.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/file_descriptor.h"

namespace trainer {

/// If destroyed before finish(), removes what was written. Errors of all members: MachineError.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// The file's name in messages.
  virtual std::string name() const = 0;
  /// Must be called first; `bytes` is the total size.
  virtual void begin(int64_t bytes) = 0;
  virtual void write(std::string_view bytes) = 0;
  /// Must be called last: the file is on disk when this returns.
  virtual void finish() = 0;
};

/// A file, written by file_operations. It is visible at once and grows.
class FileSink : public ByteSink {
 public:
  explicit FileSink(std::filesystem::path path) : path_(std::move(path)) {}
  ~FileSink() override;

  std::string name() const override { return path_.string(); }
  void begin(int64_t bytes) override;
  void write(std::string_view bytes) override;
  void finish() override;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  int64_t written_ = 0, on_its_way_ = 0;  // bytes: written, and of these with writeback started
};

}  // namespace trainer
