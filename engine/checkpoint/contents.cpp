#include "engine/checkpoint/contents.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/folder_lock.h"
#include "engine/checkpoint/digest.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr const char* kSeal = ",\n \"seal\": \"";

std::string with_seal(const std::string& body) {
  return body + kSeal + digest_of("xxh3", body) + "\"\n}\n";
}

}  // namespace

void check_size(const fs::path& folder, const StoredFile& file) {
  const fs::path path = folder / file.name;
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) throw InputError("{} is missing", path.string());
  const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (bytes != file.bytes)
    throw InputError("{} is damaged: it has {} bytes, but {} were written", path.string(), bytes, file.bytes);
}

namespace {

void check_bytes(const fs::path& folder, const StoredFile& file) {
  check_size(folder, file);
  const fs::path path = folder / file.name;
  const std::string found = digest_of_file(kind_of(file.digest), path);
  if (found != file.digest)
    throw InputError("{} is damaged (checksum {}, written as {})", path.string(), found, file.digest);
}

}  // namespace

int64_t Contents::bytes() const {
  int64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  return sum;
}

std::string sealed(std::string object) {
  object.resize(object.find_last_of('}'));
  object.resize(object.find_last_not_of(" \n") + 1);
  return with_seal(object);
}

json unsealed(const std::string& text, const fs::path& path) {
  const size_t seal = text.rfind(kSeal);
  const json all = bounded_json_or_none(text);
  if (!all.is_object() || all.value("format", json()) != kFormat)
    throw InputError("{}: not the manifest of a checkpoint, or damaged.", path.string());
  const json version = all.value("version", json());
  if (version.is_number_unsigned() && version.get<uint64_t>() > kFormatVersion)
    throw InputError("{}: written by a newer version (format {}; this one reads {}).", path.string(), version.dump(),
                     kFormatVersion);
  if (seal == std::string::npos || with_seal(text.substr(0, seal)) != text)
    throw InputError("{} is damaged (checksum).", path.string());
  if (version != kFormatVersion)
    throw InputError("{}: this version does not read format {}.", path.string(), version.dump());
  return all;
}

Conditions conditions_from(const json& manifest) {
  return manifest.value("conditions", json::object()).get<Conditions>();
}

std::vector<std::string> classes_from(const json& manifest) {
  return manifest.value("classes", json::array()).get<std::vector<std::string>>();
}

int64_t leader_epoch_from(const json& manifest) {
  const int64_t epoch = manifest.contains("leader_epoch") ? count_at(manifest, "leader_epoch") : 0;
  if (epoch >= kMostEpochs) throw InputError("leader_epoch is {}", epoch);
  return epoch;
}

int64_t count_of(const json& value, std::string_view name) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost)
    throw InputError("{} is {}; it must be a non-negative integer", name,
                     value.is_structured() ? "not a number" : value.dump());
  return value.get<int64_t>();
}

int64_t count_at(const json& object, const char* key) {
  return count_of(object.at(key), key);
}

void check_step(const fs::path& folder, int64_t step) {
  const std::string name = folder.filename().string();
  const size_t dash = name.rfind('-');
  if (!name.starts_with("checkpoint-") || name.find_first_not_of("0123456789", dash + 1) != std::string::npos) return;
  if (name.substr(dash + 1) != std::to_string(step))
    throw InputError("it is of step {}, but its folder is named {}: was the folder renamed?", step, name);
}

json to_json(const std::vector<StoredFile>& files) {
  json all = json::array();
  for (const StoredFile& file : files)
    all.push_back({{"name", file.name}, {"bytes", file.bytes}, {"digest", file.digest}});
  return all;
}

std::vector<StoredFile> files_from(const json& from) {
  std::vector<StoredFile> files;
  for (const json& file : from) {
    files.push_back({file.at("name"), count_at(file, "bytes"), file.at("digest")});
    const std::string& name = files.back().name;
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
      throw InputError("the file '{}' is outside the checkpoint", name);
  }
  return files;
}

Contents read_contents(const fs::path& folder) {
  const fs::path path = folder / kManifestFile;
  const json all = unsealed(read_file(path), path);
  try {
    Contents contents{count_at(all.at("progress"), "step"),
                      count_at(all, "world_size"),
                      all.at("strategy"),
                      all.at("optimizer"),
                      all.at("metrics"),
                      files_from(all.at("files")),
                      conditions_from(all),
                      classes_from(all),
                      leader_epoch_from(all)};
    check_step(folder, contents.step);
    return contents;
  } catch (const json::exception& error) {
    throw InputError("{}: {}", path.string(), error.what());
  } catch (const InputError& error) {
    throw InputError("{}: {}", path.string(), error.what());
  }
}

std::vector<StoredFile> other_files(const fs::path& folder, const std::vector<StoredFile>& known,
                                    const std::string& digest_kind) {
  std::vector<StoredFile> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto is_it = [&](const StoredFile& file) { return file.name == name; };
    if (name == kManifestFile || std::any_of(known.begin(), known.end(), is_it)) continue;
    others.push_back({name, static_cast<int64_t>(entry.file_size()), digest_of_file(digest_kind, entry.path())});
  }
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return others;
}

void verify_files(const fs::path& folder, const Contents& contents, int rank, int ranks) {
  for (size_t i = static_cast<size_t>(rank); i < contents.files.size(); i += static_cast<size_t>(ranks))
    check_bytes(folder, contents.files[i]);
}

}  // namespace trainer::checkpoint
