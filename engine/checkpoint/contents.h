// The part of manifest.json about the checkpoint as a whole. (For its tensors: manifest.h.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/checkpoint/checkpoint_folder.h"

namespace trainer::checkpoint {

inline constexpr const char* kFormat = "trainer checkpoint";
inline constexpr int64_t kFormatVersion = 2;

/// A file of a checkpoint.
struct StoredFile {
  std::string name;  // next to the manifest
  int64_t bytes = 0;
  std::string digest;  // digest.h
};

/// The conditions under which the run that saved it computed, by name (engine/train/conditions.h). Earlier versions
/// wrote none.
using Conditions = std::map<std::string, std::string>;

struct Contents {
  int64_t step = 0;
  int64_t world_size = 0;
  std::string strategy, optimizer;
  std::map<std::string, double> metrics;  // "eval_loss", … at this step
  std::vector<StoredFile> files;          // all but the manifest
  Conditions conditions{};
  std::vector<std::string> classes{};  // of a classifier, in output order; earlier versions wrote none
  int64_t leader_epoch = 0;            // of the leader that saved it; earlier versions wrote none

  /// The size of all listed files.
  int64_t bytes() const;
};

/// `object`, the text of a JSON object, with a final member "seal": the checksum of everything before it.
std::string sealed(std::string object);

/// Parses the text of a manifest.json. `path` is for messages. Errors: InputError when it isn't a manifest, is of
/// another version, or doesn't match its seal.
nlohmann::json unsealed(const std::string& text, const std::filesystem::path& path);
/// The contents of `folder`/manifest.json. Errors: those of unsealed(), and when it can't be read.
Contents read_contents(const std::filesystem::path& folder);

Conditions conditions_from(const nlohmann::json& manifest);
std::vector<std::string> classes_from(const nlohmann::json& manifest);
int64_t leader_epoch_from(const nlohmann::json& manifest);

/// A non-negative integer, called `name` in messages. Errors: InputError when it is negative, beyond 63 bits or not an
/// integer.
int64_t count_of(const nlohmann::json& value, std::string_view name);
int64_t count_at(const nlohmann::json& object, const char* key);
/// Checks that a folder named checkpoint-N holds the state after step N. Errors: InputError.
void check_step(const std::filesystem::path& folder, int64_t step);

nlohmann::json to_json(const std::vector<StoredFile>& files);
std::vector<StoredFile> files_from(const nlohmann::json& from);

/// The files of `folder` that are not in `known`, with their sizes and digests; not the manifest.
std::vector<StoredFile> other_files(const std::filesystem::path& folder, const std::vector<StoredFile>& known,
                                    const std::string& digest_kind);

/// Errors: InputError when the file is missing or has another size.
void check_size(const std::filesystem::path& folder, const StoredFile& file);
/// Verifies files of a checkpoint byte for byte: every `ranks`-th file starting at `rank`, so that several ranks can
/// divide the reading. Errors: InputError that names the file.
void verify_files(const std::filesystem::path& folder, const Contents& contents, int rank = 0, int ranks = 1);

}  // namespace trainer::checkpoint
