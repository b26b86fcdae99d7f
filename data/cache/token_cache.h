// The token cache: tokenized samples on disk, written once, then memory-mapped by every rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/samples/samples.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/mapped_file.h"

namespace trainer::data {

/// A tokenized sample. `second` depends on the task:
///   sequence to sequence  the target's tokens
///   causal                the learned token ranges: begin, end, begin, end, …; of a pair, whose texts are back to
///   back,
///                         after the number of tokens of the chosen one
///   classification        one number: the index of its label in the cache's list of labels
struct CachedSample {
  std::span<const int32_t> source, second;
};

/// A label of the cache; labels are in order of first use.
struct CachedLabel {
  std::string text;
  int64_t samples = 0;
  std::string first;  // "file:line"
};

/// The file without which a folder isn't a token cache: its metadata, with the hash of everything.
inline constexpr const char* kCacheFacts = "about.json";

/// The metadata of a token cache.
struct CacheFacts {
  int64_t records = 0, samples = 0, tokens = 0;
  int64_t cut = 0, too_long = 0, too_short = 0;  // samples that were truncated, or dropped
  std::vector<int64_t> sources;                  // samples from each path of the configuration
  std::vector<CachedLabel> labels;
  std::vector<std::string> class_names;  // that the data declares for these labels, which are then numbers; or none
  std::vector<std::string> notes;  // about skipped records, for the user
};

/// Writes a token cache into an existing folder, sample by sample.
class TokenCacheWriter {
 public:
  explicit TokenCacheWriter(const std::filesystem::path& folder);

  void add(std::span<const int32_t> source, std::span<const int32_t> second, int64_t record);
  /// Adds the text of the last added sample; to be called for all samples or none.
  void add_text(const SampleText& text);
  /// Errors of all methods: MachineError, e.g. for a full disk.
  void finish(const CacheFacts& facts);

 private:
  /// A file to which values are appended.
  class Column {
   public:
    explicit Column(const std::filesystem::path& path);
    void append(const void* data, size_t bytes);
    void flush();
    const std::filesystem::path& path() const { return path_; }

   private:
    std::filesystem::path path_;
    FileDescriptor file_;
    std::string waiting_;
  };

  std::filesystem::path folder_;
  Column tokens_, ends_, records_, texts_, text_ends_;
  int64_t written_ = 0, text_bytes_ = 0;
};

/// A complete token cache.
class TokenCache {
 public:
  /// Reads all of it, to compare its hash with the one in about.json.
  /// Errors: InputError when the files are corrupt or have another version.
  explicit TokenCache(const std::filesystem::path& folder);

  int64_t size() const { return facts_.samples; }
  CachedSample sample(int64_t index) const;
  int64_t record(int64_t index) const;
  SampleText text(int64_t index) const;
  const CacheFacts& facts() const { return facts_; }

 private:
  TokenCache(const std::filesystem::path& folder, nlohmann::json about);
  std::span<const int32_t> part(int64_t number) const;

  CacheFacts facts_;
  MappedFile tokens_, ends_, records_, texts_, text_ends_;
};

}  // namespace trainer::data
