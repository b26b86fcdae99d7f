// What manifest.json says about a checkpoint as a whole. (Its tensors: manifest.h.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace trainer::checkpoint {

inline constexpr const char* kFormat = "trainer checkpoint";
inline constexpr int64_t kFormatVersion = 2;

/// A file of a checkpoint.
struct StoredFile {
  std::string name;  // beside the manifest
  int64_t bytes = 0;
  std::string digest;  // digest.h
};

/// Under which the run that saved it computed, by name: engine/train/conditions.h. Earlier versions wrote none.
using Conditions = std::map<std::string, std::string>;

struct Contents {
  int64_t step = 0;
  int64_t world_size = 0;
  std::string strategy, optimizer;
  std::map<std::string, double> metrics;  // "eval_loss", …: measured at this step
  std::vector<StoredFile> files;          // all but the manifest
  Conditions conditions{};
  std::vector<std::string> classes{};  // of a classifier, in the order of its outputs; earlier versions wrote none

  /// Of all files that are listed.
  int64_t bytes() const;
};

/// `object`, the text of a JSON object, with a member "seal" at its end: the checksum of all before it.
std::string sealed(std::string object);

/// The text of a manifest.json, read. `path` is for messages. Errors: InputError when it is no manifest, of another
/// version, or not as it was sealed.
nlohmann::json unsealed(const std::string& text, const std::filesystem::path& path);
/// Of `folder`/manifest.json. Errors: those of unsealed(), and when it can't be read.
Contents read_contents(const std::filesystem::path& folder);

Conditions conditions_from(const nlohmann::json& manifest);
std::vector<std::string> classes_from(const nlohmann::json& manifest);

/// A whole number, called `name` in messages. Errors: InputError when it is negative, beyond 63 bits or no whole
/// number.
int64_t count_of(const nlohmann::json& value, std::string_view name);
int64_t count_at(const nlohmann::json& object, const char* key);
/// A folder called checkpoint-N holds the state after step N. Errors: InputError.
void check_step(const std::filesystem::path& folder, int64_t step);

nlohmann::json to_json(const std::vector<StoredFile>& files);
std::vector<StoredFile> files_from(const nlohmann::json& from);

/// The files of `folder` besides those that `known` has, read and listed.
std::vector<StoredFile> other_files(const std::filesystem::path& folder, const std::vector<StoredFile>& known,
                                    const std::string& digest_kind);

/// Errors: InputError when the file is not there or has another size.
void check_size(const std::filesystem::path& folder, const StoredFile& file);
/// Makes sure that files of a checkpoint are there and as they were written, byte for byte: of every `ranks` files the
/// one in place `rank`, so that several can share the reading. Errors: InputError that names the file.
void verify_files(const std::filesystem::path& folder, const Contents& contents, int rank = 0, int ranks = 1);

}  // namespace trainer::checkpoint
