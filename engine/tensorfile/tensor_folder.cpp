#include "engine/tensorfile/tensor_folder.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::tensorfile {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kMaxIndexBytes = kMaxHeaderBytes;
constexpr int kMaxIndexDepth = 16;

[[noreturn]] void complain(const fs::path& index, const std::string& why) {
  throw InputError("{} is not a valid index of weights: {}\n  copy, download or save it again", index.string(), why);
}

/// The parsed index. Depth is limited (deep values overflow the stack) and a tensor named twice is refused.
Json parse_index(const fs::path& index) {
  std::set<std::string> seen;
  std::string section;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxIndexDepth) complain(index, "its values are nested too deeply");
    if (event != Json::parse_event_t::key) return true;
    const std::string& key = parsed.get_ref<const std::string&>();
    if (depth == 1) section = key;
    if (depth == 1 && !seen.insert(key).second) complain(index, fmt::format("{} appears twice", shown_name(key)));
    if (depth == 2 && section == "weight_map" && !seen.insert("weight_map/" + key).second)
      complain(index, fmt::format("tensor {} appears twice", shown_name(key)));
    return true;
  };
  try {
    return Json::parse(read_file(index, kMaxIndexBytes), check);
  } catch (const Json::parse_error& error) {
    complain(index, fmt::format("it is not valid JSON at byte {}", error.byte));
  } catch (const Json::exception&) {  // a number that overflows double
    complain(index, "one of its numbers is too large");
  }
}

/// A shard must be next to its index: any other path could make us read unrelated files.
void check_shard_name(const fs::path& index, const std::string& tensor, const Json& shard) {
  if (!shard.is_string()) complain(index, fmt::format("the file of tensor {} is not text", shown_name(tensor)));
  const std::string& name = shard.get_ref<const std::string&>();
  if (name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos || !name.ends_with(".safetensors"))
    complain(index,
             fmt::format("the file of tensor {} is {}; must be the name of a .safetensors file in the same folder",
                         shown_name(tensor), shown_name(name)));
}

/// A link must stay in the folder: it came with the model, from an untrusted source. The Hub's cache stores a
/// snapshot's files in blobs/ next to snapshots/.
void check_link(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  if (!fs::is_symlink(file, error)) return;
  const fs::path target = fs::weakly_canonical(file, error), home = fs::weakly_canonical(folder, error);
  const auto below = [&](const fs::path& place) {
    return std::mismatch(place.begin(), place.end(), target.begin(), target.end()).first == place.end();
  };
  const bool of_hub = home.parent_path().filename() == "snapshots";
  if (below(home) || (of_hub && below(home.parent_path().parent_path() / "blobs"))) return;
  throw InputError(
      "{} is a link out of its folder, to {}: it is not followed\n  copy the file into the folder, or give the folder "
      "that contains it",
      file.string(), target.string());
}

/// Whether the file may be pickled weights; the Trainer pickles other things next to them.
bool is_pickle(const std::string& name) {
  for (const char* const other : {"training_args", "optimizer", "scheduler", "rng_state", "scaler"})
    if (name.starts_with(other)) return false;
  const std::string ending = fs::path(name).extension().string();
  return ending == ".bin" || ending == ".pt" || ending == ".pth" || ending == ".ckpt" || ending == ".pkl";
}

std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) throw InputError("cannot read the folder {}: {}", folder.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TensorFolder::TensorFolder(const fs::path& folder) : folder_(folder) {
  std::error_code ignored;
  if (!fs::exists(folder_, ignored))
    throw InputError(
        "the model folder {} does not exist\n  give the folder that holds config.json and model.safetensors",
        folder_.string());
  if (!fs::is_directory(folder_, ignored))
    throw InputError("{} is not a folder\n  give the folder that holds config.json and model.safetensors",
                     folder_.string());
  // Doesn't follow links: a broken one is reported as missing, not skipped.
  const auto is_there = [&](const fs::path& path) { return fs::exists(fs::symlink_status(path, ignored)); };
  const fs::path single = folder_ / "model.safetensors";
  const fs::path index = folder_ / "model.safetensors.index.json";
  if (is_there(single)) {
    open_single(single);
  } else if (is_there(index)) {
    open_shards(index);
  } else {
    complain_of_no_weights();
  }
}

bool TensorFolder::has_weights(const fs::path& folder) {
  const std::vector<std::string> entries = entries_of(folder);
  return std::any_of(entries.begin(), entries.end(),
                     [](const std::string& name) { return name.starts_with("model.safetensors") || is_pickle(name); });
}

std::vector<std::string> TensorFolder::names() const {
  std::vector<std::string> names;
  names.reserve(files_by_name_.size());
  for (const auto& [name, file] : files_by_name_) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

const SafetensorsFile* TensorFolder::find(const std::string& name) const {
  const auto found = files_by_name_.find(name);
  return found == files_by_name_.end() ? nullptr : found->second;
}

void TensorFolder::open_single(const fs::path& file) {
  check_link(folder_, file);
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  files_by_name_.reserve(files_.back()->tensors().size());
  for (const TensorInfo& tensor : files_.back()->tensors()) files_by_name_.emplace(tensor.name, files_.back().get());
}

void TensorFolder::open_shards(const fs::path& index) {
  const Json json = parse_index(index);
  const auto weight_map = json.find("weight_map");
  if (weight_map == json.end() || !weight_map->is_object()) complain(index, "it has no object weight_map");
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [tensor, shard] : weight_map->items()) {
    check_shard_name(index, tensor, shard);
    const std::string& name = shard.get_ref<const std::string&>();
    const SafetensorsFile*& file = shards[name];
    if (file == nullptr) {
      std::error_code ignored;
      if (!fs::exists(folder_ / name, ignored))
        throw InputError("{} is missing, but {} names it for tensor {}\n  copy or download all shards",
                         (folder_ / name).string(), index.filename().string(), shown_name(tensor));
      check_link(folder_, folder_ / name);
      files_.push_back(std::make_unique<SafetensorsFile>(folder_ / name));
      file = files_.back().get();
    }
    const TensorInfo* const found = file->find(tensor);
    if (found == nullptr)
      throw InputError("{} has no tensor {}, but {} says that it does\n  copy or download both again",
                       file->path().string(), shown_name(tensor), index.filename().string());
    files_by_name_.emplace(found->name, file);
  }
}

void TensorFolder::complain_of_no_weights() const {
  std::vector<std::string> entries = entries_of(folder_);
  const auto pickled = std::find_if(entries.begin(), entries.end(), is_pickle);
  if (pickled != entries.end())
    throw InputError(
        "{} has pickled weights only ({}). Loading a pickle can run any program, so they are not read.\n"
        "  Convert them once, in Python, in that folder:\n"
        "  from transformers import AutoConfig; import transformers\n"
        "  getattr(transformers, "
        "AutoConfig.from_pretrained('.').architectures[0]).from_pretrained('.').save_pretrained('.')",
        folder_.string(), shown_name(*pickled));
  constexpr size_t kMost = 12;
  const std::string more = entries.size() > kMost ? fmt::format(" and {} more", entries.size() - kMost) : "";
  entries.resize(std::min(entries.size(), kMost));
  std::vector<std::string> shown;
  for (const std::string& entry : entries) shown.push_back(shown_name(entry));
  throw InputError("{} has no weights: neither model.safetensors nor model.safetensors.index.json\n  it has {}{}",
                   folder_.string(), shown.empty() ? "no files at all" : fmt::format("{}", fmt::join(shown, ", ")),
                   more);
}

}  // namespace trainer::tensorfile
