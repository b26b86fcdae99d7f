// Tokenised samples on disk: written once, then mapped into memory by every rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/samples.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/mapped_file.h"

namespace trainer::data {

/// A tokenised sample. `second` depends on the task:
///   sequence to sequence  the target's tokens
///   causal                which tokens are learnt: begin, end, begin, end, …
///   classification        one number: the place of its label in the store's list of labels
struct StoredSample {
  std::span<const int32_t> source, second;
};

/// A label of the store, in the order of their first use.
struct StoredLabel {
  std::string text;
  int64_t samples = 0;
  std::string first;  // "file:line"
};

/// What a store tells about itself.
struct StoreFacts {
  int64_t records = 0, samples = 0, tokens = 0;
  int64_t cut = 0, too_long = 0, too_short = 0;  // samples that were shortened, or left out
  std::vector<int64_t> sources;                  // samples of each path of the configuration
  std::vector<StoredLabel> labels;
  std::vector<std::string> notes;  // about records that were left out, for people
};

/// Writes a store into a folder that exists, as samples come.
class TokenStoreWriter {
 public:
  explicit TokenStoreWriter(const std::filesystem::path& folder);

  void add(std::span<const int32_t> source, std::span<const int32_t> second, int64_t record);
  /// The text of the sample added last; for all samples or for none.
  void add_text(const SampleText& text);
  /// Errors of all: MachineError, when the disk is full say.
  void finish(const StoreFacts& facts);

 private:
  /// A file that grows by whole values.
  class Column {
   public:
    explicit Column(const std::filesystem::path& path);
    void append(const void* data, size_t bytes);
    void flush();

   private:
    std::filesystem::path path_;
    FileDescriptor file_;
    std::string waiting_;
  };

  std::filesystem::path folder_;
  Column tokens_, ends_, records_, texts_, text_ends_;
  int64_t written_ = 0, text_bytes_ = 0;
};

/// A finished store.
class TokenStore {
 public:
  /// Errors: InputError when the files are not those of a store, or of another version.
  explicit TokenStore(const std::filesystem::path& folder);

  int64_t size() const { return facts_.samples; }
  StoredSample sample(int64_t index) const;
  int64_t record(int64_t index) const;
  SampleText text(int64_t index) const;
  const StoreFacts& facts() const { return facts_; }

 private:
  std::span<const int32_t> part(int64_t number) const;

  StoreFacts facts_;
  MappedFile tokens_, ends_, records_, texts_, text_ends_;
};

}  // namespace trainer::data
