#include "engine/train/publish_model.h"

#include <algorithm>
#include <cerrno>

#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

bool has_content(const fs::path& path, const std::string& content) {
  try {
    return read_file(path) == content;
  } catch (const InputError&) {  // it is missing, or something else
    return false;
  }
}

}  // namespace

void publish_files(const std::vector<data::TokenizerFile>& files, const fs::path& folder) {
  for (const data::TokenizerFile& file : files) publish_file(folder / file.name, file.content);
}

void publish_model(const fs::path& growing, const fs::path& weights, const std::vector<data::TokenizerFile>& beside) {
  const fs::path folder = weights.parent_path();
  const bool changes = std::any_of(beside.begin(), beside.end(), [&](const data::TokenizerFile& file) {
    return !has_content(folder / file.name, file.content);
  });
  if (changes && file_operations::remove_file(weights) != 0 && errno != ENOENT)
    throw machine_error("remove", weights, errno);
  publish_files(beside, folder);
  publish_written(growing, weights);
}

}  // namespace trainer::train
