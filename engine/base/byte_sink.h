// Where the bytes of a growing file go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/file_descriptor.h"

namespace trainer {

/// Destroyed before finish(), it takes back what was begun. Errors of all members: MachineError.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// What the file is called in messages.
  virtual std::string name() const = 0;
  /// Comes first; `bytes` will follow.
  virtual void begin(int64_t bytes) = 0;
  virtual void write(std::string_view bytes) = 0;
  /// Comes last: the file is on disk when this returns.
  virtual void finish() = 0;
};

/// A file, by file_operations. It appears at once and grows.
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
  int64_t written_ = 0, on_its_way_ = 0;  // bytes: given to the system, and of these begun to go to the disk
};

}  // namespace trainer
